#include "cli/units.h"

#include <gtest/gtest.h>

namespace carat {
namespace {

TEST(Units, KeepThreeDigitsAndChooseThePrefix) {
  EXPECT_EQ(format_si(0, "B"), "0 B");
  EXPECT_EQ(format_si(999, "B"), "999 B");
  EXPECT_EQ(format_si(1000, "B"), "1.00 kB");
  EXPECT_EQ(format_si(17900, "B"), "17.9 kB");
  EXPECT_EQ(format_si(999600, "B"), "1.00 MB");
  EXPECT_EQ(format_si(9.3e9, "B"), "9.30 GB");
  EXPECT_EQ(format_si(29.04e9, "B/s"), "29.0 GB/s");
}

TEST(Units, CountsUseTheFieldsLetters) {
  EXPECT_EQ(format_count(512), "512");
  EXPECT_EQ(format_count(521000), "521K");
  EXPECT_EQ(format_count(4.627e9), "4.63B");
}

}  // namespace
}  // namespace carat
