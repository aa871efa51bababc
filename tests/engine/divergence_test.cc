#include "engine/divergence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace carat {
namespace {

TEST(Divergence, LogSumOfEqualLogits) {
  const std::vector<float> logits(8, 100.f);
  EXPECT_NEAR(log_sum(logits), 100 + std::log(8.0), 1e-6);
}

TEST(Divergence, LogSumOfLargeLogitsStaysFinite) {
  EXPECT_NEAR(log_sum(std::vector<float>{1e4f, -1e4f}), 1e4, 1e-3);
}

TEST(Divergence, IsZeroForDistributionsThatDifferByAConstantLogit) {
  const std::vector<float> p{1.f, 2.f, -3.f}, q{5.f, 6.f, 1.f};
  EXPECT_NEAR(kl_divergence(p, q), 0.0, 1e-6);
}

TEST(Divergence, EqualsTheDefinition) {
  const std::vector<float> p{std::log(0.5f), std::log(0.25f), std::log(0.25f)};
  const std::vector<float> q{std::log(0.25f), std::log(0.25f), std::log(0.5f)};
  const double expected = 0.5 * std::log(2.0) + 0.25 * std::log(0.5);
  EXPECT_NEAR(kl_divergence(p, q), expected, 1e-6);
  const std::vector<float> impossible{0.f, -INFINITY}, fair{0.f, 0.f};
  EXPECT_NEAR(kl_divergence(impossible, fair), std::log(2.0), 1e-6);
  EXPECT_EQ(kl_divergence(fair, impossible), INFINITY);
}

TEST(Divergence, OfNotANumberIsNotANumber) {
  EXPECT_TRUE(std::isnan(kl_divergence(std::vector<float>{0.f, 1.f}, std::vector<float>{NAN, 1.f})));
}

}  // namespace
}  // namespace carat
