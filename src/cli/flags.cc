#include "cli/flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "base/utf8.h"
#include "cli/help.h"

namespace carat {
namespace {

bool names_file(const std::string& word) {
  std::error_code ignored;
  return word == "-" ||
         (std::filesystem::exists(word, ignored) && !std::filesystem::is_directory(word, ignored));
}

CLI::Option* add_model_of_meaning(CLI::App* command, std::string& model, const std::string& more) {
  const std::string meaning = "directory, or org/name in the Hugging Face cache";
  return checked(command->add_option("MODEL", model, meaning + more),
                 not_empty("a directory, or org/name in the Hugging Face cache"));
}

bool is_typed(const CLI::App& command, const CLI::Option* option) {
  return std::ranges::count(command.parse_order(), option) > 0;
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
  return add_model_of_meaning(command, model, more + "\n(default: $CARAT_MODEL, or the bundled demo)");
}

CLI::Option* add_needed_model(CLI::App* command, std::string& model) {
  return needed(add_model_of_meaning(command, model, "")->required());
}

void place_arguments(const CLI::App& command, const std::vector<std::string*>& arguments) {
  const std::string& model = *arguments.front();
  if (arguments.back()->empty() && names_file(model))
    for (std::size_t i = arguments.size() - 1; i > 0; --i) std::swap(*arguments[i], *arguments[i - 1]);
  const auto missing = std::ranges::find_if(arguments.begin() + 1, arguments.end(), &std::string::empty);
  if (missing == arguments.end()) return;
  const auto names = command.get_options([](const CLI::Option* option) { return option->get_positional(); });
  std::string message =
      names.at(static_cast<std::size_t>(missing - arguments.begin()))->get_name() + " is required";
  if (!model.empty()) message += "; " + in_quotes(model, 60) + " is no file and so taken for MODEL";
  throw CLI::RequiredError(message, CLI::ExitCodes::RequiredError);
}

void choose_one(const CLI::App& command, const std::vector<Alternative>& alternatives, bool has_typed_other) {
  const auto typed = [&](const Alternative& a) { return is_typed(command, command.get_option(a.name)); };
  const bool any_typed = has_typed_other || std::ranges::any_of(alternatives, typed);
  std::string chosen;
  for (const Alternative& alternative : alternatives) {
    const CLI::Option* option = command.get_option(alternative.name);
    if (option->count() == 0) continue;
    if (any_typed && !typed(alternative)) {
      alternative.forget();
      continue;
    }
    const std::string name = any_typed ? option->get_name() : option->get_envname();
    if (!chosen.empty())
      throw CLI::ValidationError(chosen + " can't be used together with " + name,
                                 CLI::ExitCodes::ExcludesError);
    chosen = name;
  }
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
