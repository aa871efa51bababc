// Numbers as people read them.
#pragma once
#include <string>

namespace carat {

/// Three significant digits with an SI prefix: format_si(9.3e9, "B") is "9.30 GB".
std::string format_si(double value, const char* unit);
/// Counts as the field writes them: format_count(4.6e9) is "4.60B".
std::string format_count(double value);

}  // namespace carat
