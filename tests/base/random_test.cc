#include "base/random.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <set>

namespace carat {
namespace {

TEST(Random, ValuesAreFixedForever) {
  // Recorded once: a seed must give the same text with every later version.
  static_assert(random_bits(0, 0) == 0xa706dd2f4d197e6fu);
  static_assert(random_bits(1, 0) == 0x46b73e79f0c37c00u);
  static_assert(random_bits(42, 7) == 0x5141e8f869f1b173u);
  EXPECT_EQ(random_uniform(42, 7), static_cast<float>(0x5141e8f869f1b173u >> 40) / 16777216.f);
}

TEST(Random, UniformStaysInItsRange) {
  double sum = 0;
  constexpr int kCount = 100000;
  for (int i = 0; i < kCount; ++i) {
    const float x = random_uniform(3, static_cast<uint64_t>(i));
    ASSERT_GE(x, 0.f);
    ASSERT_LT(x, 1.f);
    sum += x;
  }
  EXPECT_NEAR(sum / kCount, 0.5, 5 * std::sqrt(1. / 12 / kCount));
}

TEST(Random, FillsItsRangeEvenly) {
  constexpr int kBins = 256, kCount = 256 * 400;
  int histogram[kBins] = {};
  for (uint64_t i = 0; i < kCount; ++i) ++histogram[static_cast<int>(random_uniform(9, i) * kBins)];
  double chi_squared = 0;
  for (const int n : histogram) chi_squared += (n - 400.) * (n - 400.) / 400.;
  EXPECT_LT(chi_squared, 255 + 5 * std::sqrt(2. * 255));
}

TEST(Random, NeighbouringSeedsAndCountersShareNothing) {
  std::set<uint64_t> seen;
  int different_bits = 0;
  for (uint64_t seed = 0; seed < 64; ++seed) {
    for (uint64_t counter = 0; counter < 64; ++counter) {
      seen.insert(random_bits(seed, counter));
      different_bits += std::popcount(random_bits(seed, counter) ^ random_bits(seed, counter + 1));
    }
  }
  EXPECT_EQ(seen.size(), 64u * 64u);
  EXPECT_NEAR(different_bits / 4096., 32., 1.);
}

}  // namespace
}  // namespace carat
