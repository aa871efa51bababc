#include "chat/python_text.h"

#include "text/unicode.h"

namespace carat {
namespace {

bool is_python_space(char32_t code) { return is_white_space(code) || (code >= 0x1C && code <= 0x1F); }

}  // namespace

std::string_view strip_left(std::string_view text) {
  while (!text.empty() && is_python_space(character_at(text, 0)))
    text.remove_prefix(character_bytes(text, 0));
  return text;
}

std::string_view strip_right(std::string_view text) {
  while (!text.empty()) {
    const char32_t last = character_before(text, text.size());
    if (!is_python_space(last)) break;
    std::string encoded;
    append_utf8(last, encoded);
    text.remove_suffix(encoded.size());
  }
  return text;
}

void append_utf8(uint32_t code, std::string& text) {
  const auto tail = [&](int shift) { text += static_cast<char>(0x80 | (code >> shift & 0x3F)); };
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += static_cast<char>(0xC0 | code >> 6);
    tail(0);
  } else if (code < 0x10000) {
    text += static_cast<char>(0xE0 | code >> 12);
    tail(6), tail(0);
  } else {
    text += static_cast<char>(0xF0 | code >> 18);
    tail(12), tail(6), tail(0);
  }
}

}  // namespace carat
