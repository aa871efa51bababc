// A command line that can't be parsed -> one line that says which word is wrong, and what would be right.
#pragma once
#include <string>
#include <vector>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace carat {

/// What to say about `error`. Words that are unknown come first: what else is wrong follows from them. An
/// option whose value came from the environment is called by its variable.
std::string usage_message(const CLI::App& app, const CLI::ParseError& error);

/// What is wrong with the first of the words after `carat`; empty when it is a command or a flag of the
/// program.
std::string unknown_command(const CLI::App& app, const std::vector<std::string>& words);

}  // namespace carat
