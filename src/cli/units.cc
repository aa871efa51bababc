#include "cli/units.h"

#include <cmath>
#include <cstdio>

namespace carat {
namespace {

/// Three significant digits, then `separator` and the prefix of the power of 1000.
std::string three_digits(double value, const char* separator, const char* const (&prefixes)[5]) {
  int prefix = 0;
  while (std::abs(value) >= 999.5 && prefix < 4) {
    value /= 1000;
    ++prefix;
  }
  const int decimals = prefix == 0 || std::abs(value) >= 99.95 ? 0 : std::abs(value) >= 9.995 ? 1 : 2;
  char text[64];
  std::snprintf(text, sizeof text, "%.*f%s%s", decimals, value, separator, prefixes[prefix]);
  return text;
}

}  // namespace

std::string format_si(double value, const char* unit) {
  return three_digits(value, " ", {"", "k", "M", "G", "T"}) + unit;
}

std::string format_count(double value) { return three_digits(value, "", {"", "K", "M", "B", "T"}); }

}  // namespace carat
