// Options of the command line by the kind of their value, with our checks and messages. For command_line.cc
// and the groups of options that several commands share.
#pragma once
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "cli/option_values.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace carat {

inline constexpr int kMostTokens = 1 << 30, kMostThreads = 1024, kMostSequences = 4096;

/// Names are CLI11's: "-c,--context,--ctx-size". T is int, float, std::string, std::optional of these, or
/// std::vector<std::string>.
template <class T>
CLI::Option* add_text(CLI::App* command, const std::string& name, T& value, const std::string& meaning);
/// A whole number from `least` to `most`.
template <class T>
CLI::Option* add_count(CLI::App* command, const std::string& name, T& value, const std::string& meaning,
                       int least, int most);
template <class T>
CLI::Option* add_number(CLI::App* command, const std::string& name, T& value, const std::string& meaning,
                        double least, double most);
CLI::Option* add_choice(CLI::App* command, const std::string& name, std::string& value,
                        const std::string& meaning, std::initializer_list<const char*> words);
template <class T>
CLI::Option* add_file(CLI::App* command, const std::string& name, T& value, const std::string& meaning);
/// The positional MODEL; see model_or_default().
CLI::Option* add_model(CLI::App* command, std::string& model, const std::string& more = "");
/// MODEL of a command whose other words don't tell whether it was left out.
CLI::Option* add_needed_model(CLI::App* command, std::string& model);
/// An argument behind MODEL that can't be left out.
CLI::Option* needed(CLI::Option* argument);
/// To be called by the callback of a command with files to read behind MODEL: with too few words it is MODEL
/// that was left out when the first word is a file, or "-". `arguments`: MODEL and the others, in their
/// order. Throws CLI::RequiredError for another one that is missing.
void place_arguments(const CLI::App& command, const std::vector<std::string*>& arguments);

struct Alternative {
  const char* name;              // of an option
  std::function<void()> forget;  // its value
};
/// To be called by the callback of a command with options that exclude each other: what is typed goes before
/// the environment, which is forgotten then, also when what is typed is something else (`has_typed_other`).
/// Throws CLI::ValidationError when two options are left.
void choose_one(const CLI::App& command, const std::vector<Alternative>& alternatives,
                bool has_typed_other = false);

/// Makes `check` look at the option's values.
CLI::Option* checked(CLI::Option* option, ValueCheck check);

/// Options can come from the environment too: --top-k from CARAT_TOP_K. Flags win. Only the variables of the
/// command that runs are looked at.
void read_from_environment(CLI::App* command, std::vector<CLI::Option*> options);

}  // namespace carat
