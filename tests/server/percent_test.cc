#include "server/percent.h"

#include <gtest/gtest.h>

namespace carat {
namespace {

TEST(Percent, ReadsTheByteAtTheBeginning) {
  EXPECT_EQ(percent_byte("%4a"), 'J');
  EXPECT_EQ(percent_byte("%FFrest"), 255);
  EXPECT_EQ(percent_byte("%00"), 0);
}

TEST(Percent, NothingElseIsAByte) {
  for (const char* text : {"", "%", "%4", "%4g", "%g4", "J", "J%4a", "%%4a", "% 4"})
    EXPECT_EQ(percent_byte(text), -1) << text;
}

}  // namespace
}  // namespace carat
