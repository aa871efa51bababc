#include "engine/logit_comparison.h"

#include <gtest/gtest.h>

#include <array>

namespace carat {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(TwoBest, FindsTokenAndRunnerUpWhereverTheyAre) {
  const std::array<float, 5> logits{1.f, 3.f, -2.f, 2.5f, 0.f};
  const TwoBest best = two_best(logits);
  EXPECT_EQ(best.token, 1);
  EXPECT_EQ(best.logit, 3.f);
  EXPECT_EQ(best.second, 2.5f);
  EXPECT_TRUE(best.near_tie(0.6));
  EXPECT_FALSE(best.near_tie(0.4));
}

TEST(TwoBest, RowOfNansHasNoTokenAndIsNoTie) {
  const std::array<float, 2> logits{kNan, kNan};
  EXPECT_EQ(two_best(logits).token, -1);
  EXPECT_FALSE(two_best(logits).near_tie(1000));
}

TEST(LogitDifference, NanNeverPasses) {
  EXPECT_EQ(logit_difference(1.5f, 2.f), 0.5);
  EXPECT_GT(logit_difference(kNan, 2.f), 1e300);
  EXPECT_GT(logit_difference(2.f, kNan), 1e300);
}

}  // namespace
}  // namespace carat
