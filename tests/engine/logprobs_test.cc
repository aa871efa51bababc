#include "engine/logprobs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

#include "base/random.h"

namespace carat {
namespace {

TEST(Logprobs, AreThoseOfTheWholeDistribution) {
  const std::vector<float> logits{0.f, std::log(2.f), std::log(5.f)};
  const TokenLogprobs result = logprobs_of(logits, 1, 2);
  EXPECT_NEAR(result.drawn, std::log(2. / 8), 1e-6);
  ASSERT_EQ(result.best.size(), 2u);
  EXPECT_EQ(result.best[0].token, 2);
  EXPECT_NEAR(result.best[0].logprob, std::log(5. / 8), 1e-6);
  EXPECT_EQ(result.best[1].token, 1);
  EXPECT_EQ(result.best[1].logprob, result.drawn);
}

TEST(Logprobs, BestTokensEqualASort) {
  std::vector<float> logits(500);
  for (std::size_t id = 0; id < logits.size(); ++id) logits[id] = std::floor(20 * random_uniform(3, id));
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::ranges::stable_sort(ids, std::ranges::greater(), [&](int32_t id) { return logits[id]; });
  const TokenLogprobs result = logprobs_of(logits, 0, 20);
  ASSERT_EQ(result.best.size(), 20u);
  for (std::size_t i = 0; i < 20; ++i) EXPECT_EQ(result.best[i].token, ids[i]) << i;
}

TEST(Logprobs, OfTheTokenAloneWhenNoOthersAreWanted) {
  EXPECT_TRUE(logprobs_of(std::vector<float>{1.f, 2.f}, 0, 0).best.empty());
  EXPECT_EQ(logprobs_of(std::vector<float>{1.f, 2.f}, 0, 9).best.size(), 2u);
}

}  // namespace
}  // namespace carat
