#include "cli/usage_error.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "cli/option_values.h"

namespace carat {
namespace {

std::string suggestion(const std::string& near) {
  return near.empty() ? "" : " (did you mean " + near + "?)";
}

std::vector<std::string> flag_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

/// Unknown flags and words too many; empty when there are none.
std::string unexpected(const CLI::App& command) {
  const std::vector<std::string> words = command.remaining();
  const auto flag =
      std::ranges::find_if(words, [](const std::string& word) { return word.size() > 1 && word[0] == '-'; });
  if (flag != words.end() && flag->starts_with("-=")) {  // CLI11 has taken "-q" of "-q=x"
    return "unexpected " + in_quotes(flag->substr(1), 60) + " after an option that takes no value";
  }
  if (flag != words.end()) {
    const std::string name = flag->substr(0, flag->find('='));
    return "unknown option " + in_quotes(name, 60) + suggestion(nearest(name, flag_names(command)));
  }
  return words.empty() ? "" : "unexpected argument " + in_quotes(words.front(), 60);
}

void replace(std::string& text, const std::string& from, const std::string& to) {
  if (const std::size_t at = text.find(from); at != text.npos) text.replace(at, from.size(), to);
}

/// `name` is an option's; not where it begins a longer one.
void replace_name(std::string& text, const std::string& name, const std::string& other) {
  const std::size_t at = text.find(name), end = at + name.size();
  if (at == text.npos) return;
  const bool goes_on = end < text.size() && (text[end] == '-' || (text[end] >= 'a' && text[end] <= 'z'));
  if (!goes_on) text.replace(at, name.size(), other);
}

bool from_environment(const CLI::App& command, const CLI::Option* option) {
  const auto& typed = command.parse_order();
  return option->count() > 0 && !option->get_envname().empty() && std::ranges::count(typed, option) == 0;
}

}  // namespace

std::string usage_message(const CLI::App& app, const CLI::ParseError& error) {
  const auto commands = app.get_subcommands();
  const CLI::App& command = commands.empty() ? app : *commands.front();
  if (std::string message = unexpected(command); !message.empty()) return message;
  std::string message = error.what();
  if (error.get_name() == "ArgumentMismatch")  // CLI11 counts values; a user thinks of an option
    message = message.substr(0, message.find(':')) + " needs a value";
  replace(message, " excludes ", " can't be used together with ");
  for (const CLI::Option* option : command.get_options()) {
    if (from_environment(command, option)) replace_name(message, option->get_name(), option->get_envname());
  }
  return message;
}

std::string unknown_command(const CLI::App& app, const std::vector<std::string>& words) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands(nullptr)) names.push_back(command->get_name());
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  if (words.empty()) return "no command given; commands: " + list;
  const std::string& word = words.front();
  if (std::ranges::count(names, word) > 0) return {};
  const std::vector<std::string> flags = flag_names(app);
  if (std::ranges::count(flags, word) > 0) return {};
  const bool flag = word.starts_with("-");
  const std::string near = nearest(word, flag ? flags : names);
  return (flag ? "unknown option " : "unknown command ") + in_quotes(word, 60) + suggestion(near) +
         "; commands: " + list;
}

}  // namespace carat
