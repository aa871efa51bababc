// --config: a file that stands for options of a command.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace carat {

inline constexpr const char* kConfigFlag = "--config";

/// `name = value`, or `name = [value, value]`.
struct ConfigOption {
  std::string name;
  std::vector<std::string> values;
  int line;
};
/// Reads what stands in the file `name`: a subset of TOML without sections, in which plain words need no
/// quotes and # begins a comment at the beginning of a line or behind a blank alone. Throws
/// Error{invalid_argument} naming file and line.
std::vector<ConfigOption> parse_config(std::string_view text, const std::string& name);

/// What a command line that is right says without the file. Names are those of options, without dashes, by
/// any of their spellings.
struct CommandFacts {
  /// What is wrong with the words of a command line; empty when nothing is.
  std::function<std::string(const std::vector<std::string>& words)> objection;
  /// Whether the option, or one that excludes it, is typed or in the environment.
  std::function<bool(const std::string& name)> is_said;
  /// False for a name that is unknown.
  std::function<bool(const std::string& name)> takes_one_value;
};

/// `words` ("serve", "--config", "carat.toml", ...) with the file's options put behind the first word, but
/// for those that `facts` know as said: what is typed and the environment go before the file. CARAT_CONFIG
/// names a file too. `model` becomes what the file calls so. Throws Error{not_found} for a file that can't be
/// read, Error{invalid_argument} naming file and line for what is wrong in it.
std::vector<std::string> with_config_file(const std::vector<std::string>& words, const CommandFacts& facts,
                                          std::string& model);

}  // namespace carat
