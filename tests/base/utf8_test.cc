#include "base/utf8.h"

#include <gtest/gtest.h>

namespace carat {
namespace {

/// UTF-8 of a code point, without any check.
std::string encode(uint32_t c) {
  if (c < 0x80) return {static_cast<char>(c)};
  std::string tail{static_cast<char>(0x80 | (c & 0x3f))};
  if (c < 0x800) return static_cast<char>(0xc0 | c >> 6) + tail;
  tail.insert(tail.begin(), static_cast<char>(0x80 | (c >> 6 & 0x3f)));
  if (c < 0x10000) return static_cast<char>(0xe0 | c >> 12) + tail;
  tail.insert(tail.begin(), static_cast<char>(0x80 | (c >> 12 & 0x3f)));
  return static_cast<char>(0xf0 | c >> 18) + tail;
}

TEST(Utf8, AcceptsEveryCharacterAndNoSurrogate) {
  for (uint32_t c = 0; c < 0x110000; ++c) {
    const std::string text = encode(c);
    const bool surrogate = c >= 0xd800 && c < 0xe000;
    ASSERT_EQ(utf8_length_at(text, 0), surrogate ? 0 : text.size()) << std::hex << c;
  }
  EXPECT_EQ(utf8_length_at(encode(0x110000), 0), 0u);
}

TEST(Utf8, RefusesBrokenSequences) {
  for (const char* text :
       {"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xe0\x80\x80", "\xf0\x80\x80\x80", "\xf8\x88\x80\x80\x80",
        "\xff", "\xe2\x82", "\xf0\x9f\x98", "\xc3", "\xc3(", "\xe2(\xa1"}) {
    EXPECT_EQ(utf8_length_at(text, 0), 0u) << text;
  }
  EXPECT_EQ(utf8_length_at("", 0), 0u);
  EXPECT_EQ(utf8_length_at("a", 1), 0u);
}

TEST(InQuotes, ShowsOrdinaryTextAsItIs) {
  EXPECT_EQ(in_quotes("naïve \u20ac \U0001F600"), "\"naïve \u20ac \U0001F600\"");
}

TEST(InQuotes, EscapesWhatCouldBreakALine) {
  EXPECT_EQ(in_quotes("a\nb\x1b[0m\x7f"), "\"a\\x0ab\\x1b[0m\\x7f\"");
  EXPECT_EQ(in_quotes("\xff\xe2\x82"), "\"\\xff\\xe2\\x82\"");
  EXPECT_EQ(in_quotes("\u009b"), "\"\\xc2\\x9b\"");
}

TEST(InQuotes, CutsLongTextBetweenCharacters) {
  EXPECT_EQ(in_quotes("abcdef", 6), "\"abcdef\"");
  EXPECT_EQ(in_quotes("abcdef", 4), "\"abcd...\"");
  EXPECT_EQ(in_quotes("ab\u20ac", 4), "\"ab...\"");
}

}  // namespace
}  // namespace carat
