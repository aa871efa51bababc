#include "cli/units.h"

#include <cmath>
#include <cstdio>

namespace carat {

std::string format_si(double value, const char* unit) {
  static constexpr const char* kPrefixes[] = {"", "k", "M", "G", "T", "P"};
  int prefix = 0;
  while (std::abs(value) >= 999.5 && prefix < 5) {
    value /= 1000;
    ++prefix;
  }
  const int decimals = prefix == 0 || std::abs(value) >= 99.95 ? 0 : std::abs(value) >= 9.995 ? 1 : 2;
  char text[64];
  std::snprintf(text, sizeof text, "%.*f %s%s", decimals, value, kPrefixes[prefix], unit);
  return text;
}

}  // namespace carat
