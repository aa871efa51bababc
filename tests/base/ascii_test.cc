#include "base/ascii.h"

#include <gtest/gtest.h>

namespace carat {
namespace {

TEST(Ascii, LowersLettersAndNothingElse) {
  EXPECT_EQ(ascii_lower("AMZ amz @[`{ 09 \xc3\x84"), "amz amz @[`{ 09 \xc3\x84");
}

TEST(Ascii, ComparesWithoutCase) {
  EXPECT_TRUE(equal_ignoring_case("Content-Type", "cONTENT-tYPE"));
  EXPECT_FALSE(equal_ignoring_case("Basic", "Basi"));
  EXPECT_FALSE(equal_ignoring_case("@", "`"));
}

}  // namespace
}  // namespace carat
