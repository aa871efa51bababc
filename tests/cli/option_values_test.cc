#include "cli/option_values.h"

#include <gtest/gtest.h>

namespace carat {
namespace {

std::string wrong(const ValueCheck& check, std::string value) { return check(value); }

TEST(OptionValues, WholeNumberTakesItsLimits) {
  const ValueCheck check = whole_number(-1, 1024);
  EXPECT_EQ(wrong(check, "-1"), "");
  EXPECT_EQ(wrong(check, "1024"), "");
  EXPECT_EQ(wrong(check, "-2"), "must be -1 or more, not -2");
  EXPECT_EQ(wrong(check, "1025"), "must be at most 1024, not 1025");
  for (const char* bad : {"", "x", "1x", " 1", "1.0", "0x10", "+1"}) {
    EXPECT_NE(wrong(check, bad).find("must be a whole number"), std::string::npos) << bad;
  }
}

TEST(OptionValues, LeadingZerosAreDecimal) {
  std::string value = "010";
  EXPECT_EQ(whole_number(0, 99)(value), "");
  EXPECT_EQ(value, "10");
}

TEST(OptionValues, MessagesStayShortAndPrintable) {
  EXPECT_LT(wrong(whole_number(0, 9), std::string(100000, '9')).size(), 100u);
  EXPECT_LT(wrong(real_number(0, 9), std::string(100000, 'x')).size(), 120u);
  EXPECT_EQ(wrong(one_of({"a", "b", "c"}), "\x1b"), "must be a, b or c, not \"\\x1b\"");
}

TEST(OptionValues, SeedHas64Bits) {
  EXPECT_EQ(wrong(seed_number(), "18446744073709551615"), "");
  EXPECT_NE(wrong(seed_number(), "18446744073709551616"), "");
  EXPECT_NE(wrong(seed_number(), "-1"), "");
}

TEST(OptionValues, RealNumberIsFinite) {
  const ValueCheck check = real_number(0, 10);
  for (const char* good : {"0", "10", ".5", "1e-3"}) EXPECT_EQ(wrong(check, good), "") << good;
  for (const char* bad : {"nan", "inf", "-inf", "1e999", "-0.1", "10.1"}) {
    EXPECT_EQ(wrong(check, bad), std::string("must be from 0 to 10, not ") + bad);
  }
}

TEST(Nearest, FindsSlipsAndBeginnings) {
  const std::vector<std::string> names{"run", "tokenize", "--temp", "--top-k"};
  EXPECT_EQ(nearest("rum", names), "run");
  EXPECT_EQ(nearest("tokenise", names), "tokenize");
  EXPECT_EQ(nearest("--tem", names), "--temp");
  EXPECT_EQ(nearest("juggle", names), "");
  EXPECT_EQ(nearest("-x", names), "");
}

}  // namespace
}  // namespace carat
