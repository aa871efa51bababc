#include "cli/config_file.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <sstream>

#include "base/error.h"
#include "cli/streams.h"

namespace carat {
namespace {

const char* variable_of(const std::string& option) {
  std::string name = "CARAT_" + option;
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return c == '-' ? '_' : static_cast<char>(std::toupper(c)); });
  return std::getenv(name.c_str());
}

/// The file that is named last; empty when there is none.
std::string config_path(const std::vector<std::string>& words) {
  const char* variable = variable_of("config");
  std::string path = variable ? variable : "";
  const std::string with_value = std::string(kConfigFlag) + "=";
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == kConfigFlag && i + 1 < words.size()) path = words[i + 1];
    if (words[i].starts_with(with_value)) path = words[i].substr(with_value.size());
  }
  return path;
}

}  // namespace

std::vector<std::string> with_config_file(const std::vector<std::string>& words) {
  const std::string path = config_path(words);
  if (path.empty() || words.empty()) return words;
  std::vector<std::string> result{words.front()};
  std::istringstream text(read_file(path));
  try {
    for (const CLI::ConfigItem& item : CLI::ConfigTOML().from_config(text)) {
      if (!item.parents.empty())
        fail(ErrorKind::invalid_argument, path, ": sections have no meaning here: [", item.parents.front(),
             "]");
      if (variable_of(item.name)) continue;
      for (const std::string& value : item.inputs) result.push_back("--" + item.name + "=" + value);
    }
  } catch (const CLI::Error& error) {
    fail(ErrorKind::invalid_argument, path, ": ", error.what());
  }
  result.insert(result.end(), words.begin() + 1, words.end());
  return result;
}

}  // namespace carat
