// --config: a file that stands for options of a command.
#pragma once
#include <string>
#include <vector>

namespace carat {

inline constexpr const char* kConfigFlag = "--config";

/// `words` ("serve", "--config", "carat.toml", ...) with the file's options put behind the first word, so
/// that what is typed comes later and wins. Options whose variable (CARAT_PORT for port) is set are left out:
/// the environment goes before the file. CARAT_CONFIG names a file too. Throws Error{not_found} for a file
/// that can't be read, Error{invalid_argument} for one that is no list of options.
std::vector<std::string> with_config_file(const std::vector<std::string>& words);

}  // namespace carat
