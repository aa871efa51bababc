#include "base/utf8.h"

namespace carat {
namespace {

unsigned char byte_at(std::string_view text, std::size_t at) { return static_cast<unsigned char>(text[at]); }

}  // namespace

Utf8Scan scan_utf8(std::string_view text, std::size_t at) {
  using State = Utf8Scan::State;
  const unsigned char lead = byte_at(text, at);
  if (lead < 0x80) return {State::whole, 1};
  if (lead < 0xC2 || lead > 0xF4) return {State::invalid, 1};
  const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // The second byte's range excludes overlong forms, surrogates and code points above U+10FFFF.
  unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (std::size_t i = 1; i < length; ++i, low = 0x80, high = 0xBF) {
    if (at + i == text.size()) return {State::cut, i};
    const unsigned char next = byte_at(text, at + i);
    if (next < low || next > high) return {State::invalid, i};
  }
  return {State::whole, length};
}

std::string printable(std::string_view text, std::size_t max_bytes) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  std::size_t pos = 0;
  while (pos < text.size()) {
    const Utf8Scan scan = scan_utf8(text, pos);
    if (pos + scan.bytes > max_bytes) break;
    const unsigned char c = byte_at(text, pos);
    // U+0080 to U+009F are control characters too: terminals obey some of them.
    const bool c1_control = scan.bytes == 2 && c == 0xC2 && byte_at(text, pos + 1) < 0xA0;
    if (scan.state != Utf8Scan::State::whole || c < 0x20 || c == 0x7F || c1_control) {
      for (std::size_t i = pos; i < pos + scan.bytes; ++i) {
        out.append({'\\', 'x', kHex[byte_at(text, i) >> 4], kHex[byte_at(text, i) & 15]});
      }
    } else {
      out.append(text.substr(pos, scan.bytes));
    }
    pos += scan.bytes;
  }
  return pos < text.size() ? out + "..." : out;
}

std::string in_quotes(std::string_view text, std::size_t max_bytes) {
  return '"' + printable(text, max_bytes) + '"';
}

}  // namespace carat
