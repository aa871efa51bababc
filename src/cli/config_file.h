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
/// quotes. Throws Error{invalid_argument} naming file and line.
std::vector<ConfigOption> parse_config(std::string_view text, const std::string& name);

/// What is wrong with a command and one option, both as words; empty when nothing is.
using CommandCheck = std::function<std::string(const std::vector<std::string>& words)>;

/// `words` ("serve", "--config", "carat.toml", ...) with the file's options put behind the first word, so
/// that what is typed comes later and wins. Options whose variable (CARAT_PORT for port) is set are left out:
/// the environment goes before the file. CARAT_CONFIG names a file too. `model` becomes what the file calls
/// so. Throws Error{not_found} for a file that can't be read, Error{invalid_argument} naming file and line
/// for what is wrong in it.
std::vector<std::string> with_config_file(const std::vector<std::string>& words, const CommandCheck& check,
                                          std::string& model);

}  // namespace carat
