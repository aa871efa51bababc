// The %XX of URLs, which paths and queries are made of.
#pragma once
#include <string_view>

#include "base/hex.h"

namespace carat {

/// The byte that `text` begins with as %XX; -1 when it begins with anything else.
inline int percent_byte(std::string_view text) {
  if (text.size() < 3 || text[0] != '%') return -1;
  const int high = hex_digit(text[1]), low = hex_digit(text[2]);
  return high < 0 || low < 0 ? -1 : 16 * high + low;
}

}  // namespace carat
