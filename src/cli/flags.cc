#include "cli/flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cstddef>
#include <optional>
#include <utility>

#include "base/error.h"
#include "cli/help.h"
#include "io/hub.h"

namespace carat {
namespace {

bool names_model(const std::string& word) {
  try {
    find_model(word);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

CLI::Option* checked(CLI::Option* option, ValueCheck check) {
  return option->transform(CLI::Validator(std::move(check), ""));
}

template <class T>
CLI::Option* add_text(CLI::App* command, const std::string& name, T& value, const std::string& meaning) {
  return command->add_option(name, value, meaning)->type_name("TEXT");
}

template <class T>
CLI::Option* add_count(CLI::App* command, const std::string& name, T& value, const std::string& meaning,
                       int least, int most) {
  return checked(command->add_option(name, value, meaning), whole_number(least, most))->type_name("N");
}

template <class T>
CLI::Option* add_number(CLI::App* command, const std::string& name, T& value, const std::string& meaning,
                        double least, double most) {
  return checked(command->add_option(name, value, meaning), real_number(least, most))->type_name("X");
}

CLI::Option* add_choice(CLI::App* command, const std::string& name, std::string& value,
                        const std::string& meaning, std::initializer_list<const char*> words) {
  return checked(command->add_option(name, value, meaning), one_of(words))->type_name("NAME");
}

CLI::Option* needed(CLI::Option* argument) { return argument->group(kNeeded); }

template <class T>
CLI::Option* add_file(CLI::App* command, const std::string& name, T& value, const std::string& meaning) {
  return checked(command->add_option(name, value, meaning), not_empty("the name of a file"))
      ->type_name("FILE");
}

using Name = const std::string&;
template CLI::Option* add_text(CLI::App*, Name, std::string&, Name);
template CLI::Option* add_text(CLI::App*, Name, std::optional<std::string>&, Name);
template CLI::Option* add_text(CLI::App*, Name, std::vector<std::string>&, Name);
template CLI::Option* add_count(CLI::App*, Name, int&, Name, int, int);
template CLI::Option* add_count(CLI::App*, Name, std::optional<int>&, Name, int, int);
template CLI::Option* add_number(CLI::App*, Name, double&, Name, double, double);
template CLI::Option* add_number(CLI::App*, Name, std::optional<float>&, Name, double, double);
template CLI::Option* add_file(CLI::App*, Name, std::string&, Name);
template CLI::Option* add_file(CLI::App*, Name, std::optional<std::string>&, Name);

CLI::Option* add_model(CLI::App* command, std::string& model, const std::string& more) {
  const std::string meaning = "directory, or org/name in the Hugging Face cache";
  return checked(
      command->add_option("MODEL", model, meaning + more + "\n(default: $CARAT_MODEL, or the bundled demo)"),
      not_empty("a directory, or org/name in the Hugging Face cache"));
}

void place_arguments(const CLI::App& command, const std::vector<std::string*>& arguments) {
  const auto missing = std::ranges::find_if(arguments, &std::string::empty);
  if (missing == arguments.end()) return;
  if (missing == arguments.end() - 1 && !names_model(*arguments.front())) {
    for (std::size_t i = arguments.size() - 1; i > 0; --i) *arguments[i] = std::move(*arguments[i - 1]);
    arguments.front()->clear();
    return;
  }
  const auto names = command.get_options([](const CLI::Option* option) { return option->get_positional(); });
  const auto first = std::max<std::ptrdiff_t>(missing - arguments.begin(), 1);  // not MODEL
  throw CLI::RequiredError(names.at(static_cast<std::size_t>(first))->get_name());
}

void read_from_environment(CLI::App* command, std::vector<CLI::Option*> options) {
  for (CLI::Option* option : options)
    if (option->get_expected_max() == 0) checked(option, truth_value());  // a flag
  command->preparse_callback([options = std::move(options)](std::size_t) {
    for (CLI::Option* option : options) {
      std::string name = "CARAT_" + option->get_lnames().front();
      std::ranges::transform(name, name.begin(), [](unsigned char c) {
        return c == '-' ? '_' : static_cast<char>(std::toupper(c));
      });
      option->envname(name);
    }
  });
}

}  // namespace carat
