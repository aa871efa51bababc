// Whole texts of UTF-8, their characters and the two character classes that added tokens need; base/utf8.h
// reads single characters of any bytes. Used by the tokenizer and the stream decoder.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/utf8.h"

namespace carat {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD
inline constexpr std::string_view kSpaceMarker = "\xE2\x96\x81";           // U+2581, a space inside a piece

bool is_valid_utf8(std::string_view text);
/// Every maximal invalid part becomes one U+FFFD, as in Python's bytes.decode(errors="replace").
std::string replace_invalid_utf8(std::string_view text);

/// Every U+0020 becomes U+2581: the normalizer of Gemma's tokenizer.
std::string replace_spaces(std::string_view text);

/// Length of the character that begins at text[at] of valid UTF-8.
inline std::size_t character_bytes(std::string_view text, std::size_t at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}
/// The code point of the character that begins at text[at] of valid UTF-8.
inline char32_t character_at(std::string_view text, std::size_t at) {
  const std::size_t length = character_bytes(text, at);
  const auto byte = [&](std::size_t i) { return char32_t{static_cast<unsigned char>(text[at + i])}; };
  if (length == 1) return byte(0);
  char32_t code = byte(0) & (0x7Fu >> length);
  for (std::size_t i = 1; i < length; ++i) code = code << 6 | (byte(i) & 0x3Fu);
  return code;
}
/// The code point of the character that ends just before text[end] of valid UTF-8; end > 0.
char32_t character_before(std::string_view text, std::size_t end);

/// \s of the regular expressions of Hugging Face tokenizers: the property White_Space.
bool is_white_space(char32_t code);
/// \w of the same: Alphabetic, Mark, Decimal_Number, Connector_Punctuation, Join_Control.
bool is_word_character(char32_t code);

}  // namespace carat
