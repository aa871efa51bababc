#include "base/utf8.h"

#include <algorithm>

namespace carat {

std::size_t utf8_length_at(std::string_view text, std::size_t pos) {
  const auto byte = [&](std::size_t i) -> unsigned {
    return pos + i < text.size() ? static_cast<unsigned char>(text[pos + i]) : 0u;
  };
  const unsigned lead = byte(0);
  if (pos >= text.size()) return 0;
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0u) != 0x80u) return 0;
  }
  // The second byte alone decides between the ranges that the lead byte leaves open.
  const unsigned second = byte(1);
  if ((lead == 0xe0 && second < 0xa0) || (lead == 0xed && second > 0x9f)) return 0;
  if ((lead == 0xf0 && second < 0x90) || (lead == 0xf4 && second > 0x8f)) return 0;
  return length;
}

std::string in_quotes(std::string_view text, std::size_t max_bytes) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  std::size_t pos = 0;
  while (pos < text.size()) {
    const std::size_t length = utf8_length_at(text, pos);
    if (pos + std::max<std::size_t>(length, 1) > max_bytes) break;
    const auto c = static_cast<unsigned char>(text[pos]);
    // U+0080 to U+009F are control characters too: terminals obey some of them.
    const bool c1_control = length == 2 && c == 0xc2 && static_cast<unsigned char>(text[pos + 1]) < 0xa0;
    if (length == 0 || c < 0x20 || c == 0x7f || c1_control) {
      for (std::size_t i = 0; i < std::max<std::size_t>(length, 1); ++i) {
        const auto b = static_cast<unsigned char>(text[pos + i]);
        out.append({'\\', 'x', kHex[b >> 4], kHex[b & 15]});
      }
    } else {
      out.append(text.substr(pos, length));
    }
    pos += std::max<std::size_t>(length, 1);
  }
  out += pos < text.size() ? "...\"" : "\"";
  return out;
}

}  // namespace carat
