#include "base/utf8.h"

#include <gtest/gtest.h>

namespace carat {
namespace {

using State = Utf8Scan::State;

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
    const Utf8Scan scan = scan_utf8(text, 0);
    const bool surrogate = c >= 0xd800 && c < 0xe000;
    ASSERT_EQ(scan.state, surrogate ? State::invalid : State::whole) << std::hex << c;
    ASSERT_EQ(scan.bytes, surrogate ? 1 : text.size()) << std::hex << c;
  }
  EXPECT_EQ(scan_utf8(encode(0x110000), 0).state, State::invalid);
}

TEST(Utf8, RefusesBrokenSequences) {
  for (const char* text : {"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xe0\x80\x80", "\xf0\x80\x80\x80",
                           "\xf8\x88\x80\x80\x80", "\xff", "\xc3(", "\xe2(\xa1"}) {
    EXPECT_EQ(scan_utf8(text, 0).state, State::invalid) << text;
    EXPECT_EQ(scan_utf8(text, 0).bytes, 1u) << text;
  }
  EXPECT_EQ(scan_utf8("\xf0\x9f\x98g", 0).state, State::invalid);
  EXPECT_EQ(scan_utf8("\xf0\x9f\x98g", 0).bytes, 3u);
}

TEST(Utf8, TellsACutCharacterFromAnInvalidOne) {
  for (const std::string_view text : {"a\xc3", "a\xe2\x82", "a\xf0\x9f\x98"}) {
    EXPECT_EQ(scan_utf8(text, 1).state, State::cut) << text;
    EXPECT_EQ(scan_utf8(text, 1).bytes, text.size() - 1) << text;
  }
}

TEST(InQuotes, ShowsOrdinaryTextAsItIs) {
  EXPECT_EQ(in_quotes("naïve \u20ac \U0001F600"), "\"naïve \u20ac \U0001F600\"");
}

TEST(InQuotes, EscapesWhatCouldBreakALine) {
  EXPECT_EQ(in_quotes("a\nb\x1b[0m\x7f"), "\"a\\x0ab\\x1b[0m\\x7f\"");
  EXPECT_EQ(in_quotes("\xff\xe2\x82"), "\"\\xff\\xe2\\x82\"");
  EXPECT_EQ(in_quotes("\u009b"), "\"\\xc2\\x9b\"");
}

TEST(Printable, EscapesAlikeWithoutQuotes) {
  EXPECT_EQ(printable("a\n\x1b[31m \u20ac"), "a\\x0a\\x1b[31m \u20ac");
  EXPECT_EQ(printable("abcdef", 4), "abcd...");
  EXPECT_EQ(printable(""), "");
}

TEST(InQuotes, CutsLongTextBetweenCharacters) {
  EXPECT_EQ(in_quotes("abcdef", 6), "\"abcdef\"");
  EXPECT_EQ(in_quotes("abcdef", 4), "\"abcd...\"");
  EXPECT_EQ(in_quotes("ab\u20ac", 4), "\"ab...\"");
}

}  // namespace
}  // namespace carat
