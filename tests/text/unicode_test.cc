#include "text/unicode.h"

#include <gtest/gtest.h>

namespace carat {
namespace {

TEST(Unicode, ValidTextIsLeftAlone) {
  for (const std::string_view text : {"", "a", "0123456789", "é漢😀", "\xED\x9F\xBF", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_TRUE(is_valid_utf8(text));
    EXPECT_EQ(replace_invalid_utf8(text), text);
  }
}

TEST(Unicode, EveryMaximalInvalidPartIsReplacedOnce) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"\x80", "\uFFFD"},                                // stray continuation
      {"\xC0\xAF", "\uFFFD\uFFFD"},                      // overlong
      {"\xE0\x80\x80", "\uFFFD\uFFFD\uFFFD"},            // overlong
      {"\xED\xA0\x80", "\uFFFD\uFFFD\uFFFD"},            // surrogate
      {"\xF4\x90\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD"},  // above U+10FFFF
      {"\xE2\x96g", "\uFFFDg"},                          // cut in the middle
      {"12345678\xF0\x9F\x98", "12345678\uFFFD"},        // cut at the end
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_FALSE(is_valid_utf8(text));
    EXPECT_EQ(replace_invalid_utf8(text), expected);
  }
}

TEST(Unicode, CharactersAreReadInBothDirections) {
  const std::string_view text = "aé漢😀";
  std::size_t at = 0;
  for (const char32_t code : {U'a', U'é', U'漢', U'😀'}) {
    EXPECT_EQ(character_at(text, at), code);
    at += character_bytes(text, at);
    EXPECT_EQ(character_before(text, at), code);
  }
  EXPECT_EQ(at, text.size());
}

TEST(Unicode, ClassesCoverTheirEdges) {
  for (const char32_t code : {U'\t', U' ', U'\u00A0', U'\u2028', U'\u3000'})
    EXPECT_TRUE(is_white_space(code));
  for (const char32_t code : {U'a', U'\u200B', U'\u2581'}) EXPECT_FALSE(is_white_space(code));
  for (const char32_t code : {U'0', U'_', U'Z', U'é', U'漢', U'\u0301', U'\u200D'})
    EXPECT_TRUE(is_word_character(code));
  for (const char32_t code : {U'-', U' ', U'\u2581', U'😀', U'\u00BD'}) EXPECT_FALSE(is_word_character(code));
}

}  // namespace
}  // namespace carat
