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

}  // namespace
}  // namespace carat
