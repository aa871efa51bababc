#include "cli/line_buffer.h"

#include <gtest/gtest.h>

namespace carat {
namespace {

LineBuffer buffer(const std::string& before, const std::string& after = "") {
  LineBuffer line;
  line.set(before + after);
  while (line.cursor() > before.size()) line.move_left();
  return line;
}

TEST(LineBuffer, KeysEditAtTheCursor) {
  LineBuffer line = buffer("Hello", " world");
  line.insert(",");
  EXPECT_EQ(line.text(), "Hello, world");
  line.erase_before();
  line.erase_after();
  EXPECT_EQ(line.text(), "Helloworld");
  line.move_home();
  line.erase_before();
  line.erase_after();
  EXPECT_EQ(line.text(), "elloworld");
  line.move_end();
  line.erase_after();
  EXPECT_EQ(line.text(), "elloworld");
}

TEST(LineBuffer, CharactersOfSeveralBytesAreWhole) {
  LineBuffer line = buffer("aé漢😀");
  for (const char* left : {"aé漢", "aé", "a", ""}) {
    line.erase_before();
    EXPECT_EQ(line.text(), left);
  }
  line = buffer("é", "漢");
  line.move_left();
  EXPECT_EQ(line.cursor(), 0u);
  line.move_right();
  line.move_right();
  line.move_right();
  EXPECT_EQ(line.cursor(), 5u);
}

TEST(LineBuffer, WordsAndEnds) {
  LineBuffer line = buffer("one two  ", "three four");
  line.move_word_right();
  EXPECT_EQ(line.text().substr(line.cursor()), " four");
  line.move_word_left();
  EXPECT_EQ(line.text().substr(line.cursor()), "three four");
  line.erase_word_before();
  EXPECT_EQ(line.text(), "one three four");
  line.erase_to_end();
  EXPECT_EQ(line.text(), "one ");
  line.move_left();
  line.erase_to_start();
  EXPECT_EQ(line.text(), " ");
}

TEST(LineBuffer, ViewShowsThePartAroundTheCursor) {
  LineBuffer line = buffer("0123456789");
  EXPECT_EQ(line.view(20).text, "0123456789");
  EXPECT_EQ(line.view(20).cursor, 10);
  EXPECT_EQ(line.view(6).text, "56789");
  EXPECT_EQ(line.view(6).cursor, 5);
  line.move_home();
  EXPECT_EQ(line.view(6).text, "01234");
  EXPECT_EQ(line.view(6).cursor, 0);
}

TEST(LineBuffer, WideCharactersTakeTwoColumnsAndNewlinesAreShown) {
  EXPECT_EQ(display_width("漢字"), 4);
  EXPECT_EQ(display_width("e\u0301"), 1);
  const LineBuffer line = buffer("漢\n", "字");
  EXPECT_EQ(line.view(20).text, "漢\u21b5字");
  EXPECT_EQ(line.view(20).cursor, 3);
}

}  // namespace
}  // namespace carat
