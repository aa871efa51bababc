// How `carat --help` and `carat COMMAND --help` look: one column of names, one of meanings.
#pragma once
#include <memory>

namespace CLI {
class FormatterBase;
}

namespace carat {

/// The group of arguments that are needed although CLI11 doesn't know it; see place_arguments().
inline constexpr const char* kNeeded = "needed";

std::shared_ptr<CLI::FormatterBase> help_formatter();

}  // namespace carat
