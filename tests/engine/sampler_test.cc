#include "engine/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "engine/sampling_weight.h"

namespace carat {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

int32_t sample_at(std::vector<float> logits, const SamplingParams& params, int32_t position = 0,
                  const std::vector<int32_t>& history = {}, const std::vector<int32_t>& suppressed = {}) {
  return sample(logits, {&params, position, history, suppressed});
}

std::vector<int> count_draws(const std::vector<float>& logits, const SamplingParams& params, int draws,
                             const std::vector<int32_t>& history = {}) {
  std::vector<int> counts(logits.size());
  for (int position = 0; position < draws; ++position) {
    const int32_t token = sample_at(logits, params, position, history);
    EXPECT_GE(token, 0);
    if (token >= 0) ++counts[token];
  }
  return counts;
}

/// Fails unless `counts` look drawn from `expected`. Tokens of probability 0 must not occur at all; the bound
/// lies five standard deviations above the mean of the chi-square distribution.
void expect_distribution(const std::vector<int>& counts, const std::vector<double>& expected) {
  double draws = 0, total = 0;
  for (const int count : counts) draws += count;
  for (const double p : expected) total += p;
  double chi_square = 0;
  int freedom = -1;
  for (std::size_t id = 0; id < expected.size(); ++id) {
    if (expected[id] == 0) {
      EXPECT_EQ(counts[id], 0) << "token " << id << " was filtered out";
      continue;
    }
    const double mean = draws * expected[id] / total;
    chi_square += (counts[id] - mean) * (counts[id] - mean) / mean;
    ++freedom;
  }
  EXPECT_LT(chi_square, freedom + 5 * std::sqrt(2. * freedom) + 1e-9);
}

/// Probabilities that the logits processors of transformers 5 leave for kLogits and kHistory.
struct Golden {
  const char* name;
  SamplingParams params;
  std::vector<double> probabilities;
};

const std::vector<float> kLogits{1.328125f,  0.53125f,  0.125f,   1.25f,   -0.90625f, -0.328125f,
                                 -3.046875f, 0.765625f, -2.0625f, -1.125f, -1.78125f, -0.109375f};
const std::vector<int32_t> kHistory{3, 7, 3, 0, 7, 7, 11, 40};  // 40 is outside the row

const Golden kGolden[] = {
    {"temperature",
     {.temperature = 0.7f},
     {0.3168, 0.10148, 0.056798, 0.28334, 0.013017, 0.029731, 0.00061156, 0.14184, 0.0024955, 0.0095238,
      0.0037296, 0.040637}},
    {"top_k", {.temperature = 1.f, .top_k = 4}, {0.33952, 0.15303, 0, 0.314, 0, 0, 0, 0.19345, 0, 0, 0, 0}},
    {"top_p",
     {.temperature = 1.5f, .top_p = 0.8f},
     {0.2279, 0.13398, 0.10219, 0.21634, 0, 0.075547, 0, 0.15664, 0, 0, 0, 0.087408}},
    {"min_p",
     {.temperature = 1.f, .min_p = 0.1f},
     {0.26448, 0.11921, 0.07941, 0.2446, 0.028315, 0.050476, 0, 0.15069, 0, 0, 0, 0.062819}},
    {"repetition_penalty",
     {.temperature = 1.f, .repetition_penalty = 1.8f},
     {0.1889, 0.15364, 0.10235, 0.18088, 0.036493, 0.065055, 0.0042909, 0.1382, 0.011483, 0.029323, 0.015212,
      0.07418}},
    {"reward_then_top_k",
     {.temperature = 1.3f, .top_k = 6, .repetition_penalty = 0.6f},
     {0.32907, 0.090217, 0.066004, 0.29771, 0, 0, 0, 0.15999, 0, 0, 0, 0.057002}},
    {"top_k_then_top_p",
     {.temperature = 2.f, .top_k = 5, .top_p = 0.7f},
     {0.29517, 0.19817, 0, 0.28386, 0, 0, 0, 0.2228, 0, 0, 0, 0}},
    {"top_p_then_min_p",
     {.temperature = 3.f, .top_p = 0.9f, .min_p = 0.35f},
     {0.14913, 0.11434, 0.099859, 0.14529, 0.07081, 0.08586, 0, 0.12363, 0, 0.065831, 0.052897, 0.092354}},
    {"all",
     {.temperature = 1.7f, .top_k = 9, .top_p = 0.85f, .min_p = 0.2f, .repetition_penalty = 1.3f},
     {0.19855, 0.1488, 0.11717, 0.19166, 0, 0.089755, 0, 0.15394, 0, 0, 0, 0.10013}},
    {"tiny_top_p", {.temperature = 1.f, .top_p = 1e-4f}, {1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
};

class SamplerGolden : public testing::TestWithParam<Golden> {};

TEST_P(SamplerGolden, DrawsTheDistributionOfTransformers) {
  SamplingParams params = GetParam().params;
  params.seed = 20;
  expect_distribution(count_draws(kLogits, params, 40000, kHistory), GetParam().probabilities);
}

INSTANTIATE_TEST_SUITE_P(, SamplerGolden, testing::ValuesIn(kGolden),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Sampler, GreedyTakesTheLowestOfEqualLogits) {
  std::vector<float> logits(300, -1.f);
  for (const std::size_t best : {299u, 170u, 33u}) {
    logits[best] = 2.f;
    EXPECT_EQ(sample_at(logits, {}), static_cast<int32_t>(best));
  }
}

TEST(Sampler, GreedyObeysTheRepetitionPenalty) {
  const SamplingParams params{.repetition_penalty = 2.f};
  EXPECT_EQ(sample_at({3.f, 2.f}, params, 0, {0}), 1);               // 1.5 < 2
  EXPECT_EQ(sample_at({3.f, 1.4f}, params, 0, {0, 0, 0}), 0);        // penalised once, not thrice
  EXPECT_EQ(sample_at({-1.f, -1.5f}, params, 0, {0}), 1);            // a negative logit is multiplied: -2
  EXPECT_EQ(sample_at({3.f, 2.f}, params, 0, {-1, 2, 1 << 30}), 0);  // not in the row
}

TEST(Sampler, PresenceAndFrequencyLookAtTheReplyAlone) {
  const std::vector<int32_t> history{0, 0, 1, 2, 2, 2, 99};  // the reply begins with the token 1
  const auto logits_after = [&](const SamplingParams& params) {
    // Greedy between token 3 at 0 and the others: bisect for what is left of each one's logit of 10.
    std::vector<float> left;
    for (int id = 0; id < 3; ++id) {
      float low = -20.f, high = 20.f;
      for (int i = 0; i < 40; ++i) {
        const float middle = (low + high) / 2;
        std::vector<float> logits{-50.f, -50.f, -50.f, middle};
        logits[id] = 10.f;
        (sample(logits, {&params, 0, history, {}, 2}) == id ? low : high) = middle;
      }
      left.push_back(low);
    }
    return left;
  };
  const auto expect_near = [&](const SamplingParams& params, const std::vector<float>& expected) {
    const std::vector<float> left = logits_after(params);
    for (int id = 0; id < 3; ++id) EXPECT_NEAR(left[id], expected[id], 1e-3) << "token " << id;
  };
  SamplingParams params;
  params.presence_penalty = 1.5f;
  expect_near(params, {10.f, 8.5f, 8.5f});
  params.frequency_penalty = 0.5f;
  expect_near(params, {10.f, 8.f, 7.f});
  params.presence_penalty = 0.f;
  expect_near(params, {10.f, 9.5f, 8.5f});
  params.frequency_penalty = -1.f;
  expect_near(params, {10.f, 11.f, 13.f});
}

TEST(Sampler, BiasMovesLogitsAndForbids) {
  SamplingParams params;
  params.logit_bias = {{1, 2.5f}, {77, 9.f}, {-1, 9.f}};
  EXPECT_EQ(sample_at({3.f, 1.f, 2.f}, params), 1);
  params.logit_bias = {{0, -100.f}};
  EXPECT_EQ(sample_at({3.f, 1.f, 2.f}, params), 2);
  params.temperature = 1.f;
  params.logit_bias = {{0, -90.f}, {1, 1.f}};
  expect_distribution(count_draws({90.f, 0.f, 0.f}, params, 4000), {1, M_E, 1});
}

TEST(Sampler, DrawsOnlyWhatTheMaskAllows) {
  std::vector<float> logits(70, 0.f);
  logits[3] = 9.f;
  logits[65] = kNan;                                      // a forbidden token's logit doesn't matter
  const std::vector<uint32_t> allowed{0x6u, 0x1u, 0x4u};  // 1, 2, 32, 66
  for (const float temperature : {0.f, 1.f}) {
    const SamplingParams params{.temperature = temperature};
    std::vector<int> counts(70);
    for (int position = 0; position < 400; ++position) {
      std::vector<float> row = logits;
      ++counts[sample(row, {&params, position, {}, {}, 0, allowed})];
    }
    EXPECT_EQ(counts[1] + counts[2] + counts[32] + counts[66], 400);
  }
  const std::vector<uint32_t> nothing(3, 0u);
  const SamplingParams greedy;
  EXPECT_EQ(sample(logits, {&greedy, 0, {}, {}, 0, nothing}), -1);
}

TEST(Sampler, SaysWhichRowsADeviceMayDraw) {
  SamplingParams params;
  const std::vector<uint32_t> mask{1u};
  EXPECT_TRUE(draws_largest_logit({&params, 0, {}, {}}));
  EXPECT_FALSE(draws_largest_logit({&params, 0, {}, {}, 0, mask}));
  const auto plain = [](auto change) {
    SamplingParams changed;
    change(changed);
    return draws_largest_logit({&changed, 0, {}, {}});
  };
  EXPECT_FALSE(plain([](SamplingParams& p) { p.temperature = 1.f; }));
  EXPECT_FALSE(plain([](SamplingParams& p) { p.repetition_penalty = 2.f; }));
  EXPECT_FALSE(plain([](SamplingParams& p) { p.presence_penalty = 1.f; }));
  EXPECT_FALSE(plain([](SamplingParams& p) { p.frequency_penalty = 1.f; }));
  EXPECT_FALSE(plain([](SamplingParams& p) { p.logit_bias = {{1, 1.f}}; }));
}

TEST(Sampler, SamplesOfARequestHaveSeedsOfTheirOwn) {
  EXPECT_EQ(sample_seed(7, 0), 7u);
  EXPECT_NE(sample_seed(7, 1), sample_seed(7, 2));
  EXPECT_NE(sample_seed(7, 1), sample_seed(8, 1));
}

TEST(Sampler, TopKKeepsTheLowerIdsOfATie) {
  const SamplingParams params{.temperature = 1.f, .top_k = 3};
  expect_distribution(count_draws({0.f, 1.f, 0.f, 0.f, 1.f, 0.f}, params, 8000), {1, M_E, 0, 0, M_E, 0});
}

TEST(Sampler, TopPKeepsTheLowerIdsOfATie) {
  const SamplingParams params{.temperature = 1.f, .top_p = 0.5f};
  expect_distribution(count_draws({0.f, 0.f, 0.f, 0.f, 0.f, 0.f}, params, 8000), {1, 1, 1, 0, 0, 0});
}

TEST(Sampler, TopPOfZeroKeepsOneToken) {
  const SamplingParams params{.temperature = 1.f, .top_p = 0.f};
  expect_distribution(count_draws({0.f, 2.f, 2.f}, params, 100), {0, 1, 0});
}

TEST(Sampler, NeverDrawsASuppressedToken) {
  for (const float temperature : {0.f, 5.f}) {
    const SamplingParams params{.temperature = temperature};
    for (int position = 0; position < 200; ++position) {
      EXPECT_EQ(sample_at({9.f, 1.f, 8.f, kNan}, params, position, {}, {0, 2, 3, -1, 99}), 1);
    }
  }
}

TEST(Sampler, RefusesRowsThatAreNotFinite) {
  for (const float temperature : {0.f, 1.f}) {
    const SamplingParams params{.temperature = temperature, .top_k = 2, .top_p = 0.9f};
    for (std::size_t bad = 0; bad < 40; ++bad) {
      std::vector<float> logits(40, 1.f);
      logits[bad] = kNan;
      EXPECT_EQ(sample_at(logits, params), -1);
      logits[bad] = kInfinity;
      EXPECT_EQ(sample_at(logits, params), -1);
      logits[bad] = -kInfinity;
      EXPECT_GE(sample_at(logits, params), 0);
    }
    EXPECT_EQ(sample_at({-kInfinity, -kInfinity}, params), -1);
    EXPECT_EQ(sample_at({1.f, 2.f}, params, 0, {}, {0, 1}), -1);
  }
}

TEST(Sampler, SurvivesExtremeTemperaturesAndLogits) {
  const float big = std::numeric_limits<float>::max();
  EXPECT_EQ(sample_at({1.f, 1.5f, 1.f}, {.temperature = 1e-38f}), 1);
  EXPECT_EQ(sample_at({-big, big, 0.f}, {.temperature = 1.f, .top_p = 0.99f}), 1);
  expect_distribution(count_draws({5.f, -5.f}, {.temperature = big}, 4000), {1, 1});
}

TEST(Sampler, DrawDependsOnSeedAndPositionAlone) {
  std::vector<float> logits(1000);
  for (std::size_t id = 0; id < logits.size(); ++id) logits[id] = random_uniform(5, id);
  const auto draws = [&](uint64_t seed) {
    std::vector<int32_t> tokens;
    for (int position = 0; position < 50; ++position) {
      tokens.push_back(sample_at(logits, {.temperature = 1.f, .seed = seed}, position));
    }
    return tokens;
  };
  EXPECT_EQ(draws(7), draws(7));
  EXPECT_NE(draws(7), draws(8));
  EXPECT_NE(draws(0), draws(~uint64_t{0}));
}

/// The definition of top-k, top-p and the draw, with a sort.
int32_t sample_by_sorting(const std::vector<float>& logits, const SamplingParams& params, int32_t position) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::ranges::stable_sort(ids, std::ranges::greater(), [&](int32_t id) { return logits[id]; });
  if (params.top_k > 0) ids.resize(params.top_k);
  const auto weight = [&, most = logits[ids[0]]](int32_t id) {
    return sampling_weight(sampling_distance(most, logits[id], params.temperature));
  };
  uint64_t total = 0, mass = 0, sum = 0;
  for (const int32_t id : ids) total += weight(id);
  std::size_t kept = 0;
  while (kept < ids.size() && mass < share_of(params.top_p, total)) mass += weight(ids[kept++]);
  ids.resize(params.top_p < 1.f ? kept : ids.size());
  std::ranges::sort(ids);
  total = 0;
  for (const int32_t id : ids) total += weight(id);
  const uint64_t target = share_of(random_uniform(params.seed, position), total);
  for (const int32_t id : ids) {
    if ((sum += weight(id)) > target) return id;
  }
  return ids.back();
}

TEST(SamplingWeight, IsTheExponentialToTheLastBitsOfAFloat) {
  double largest_error = 0;
  for (float distance = 0.f; distance < 32.f; distance += 0.000731f) {
    const double exact = std::exp(-double{distance}) * static_cast<double>(kLargestWeight);
    const double error = std::abs(static_cast<double>(sampling_weight(distance)) - exact);
    largest_error = std::max(largest_error, (error - 1) / exact);  // the fraction is cut off
  }
  EXPECT_LT(largest_error, 3e-7);
  EXPECT_EQ(sampling_weight(0.f), kLargestWeight);
  EXPECT_EQ(sampling_weight(kInfinity), 0u);
}

TEST(SamplingWeight, IsTheSameOnEveryMachine) {
  uint64_t hash = 0;
  for (int i = 0; i < 4096; ++i) hash = random_bits(hash, sampling_weight(static_cast<float>(i) * 0x1p-7f));
  EXPECT_EQ(hash, 0x865239e2ed493516u);  // other with fused multiply-adds
}

TEST(SamplingWeight, TheLastBucketWeighsNothing) {
  int last = 0;
  for (float distance = 0.f; distance < 40.f; distance += 0.01f) {
    const int bucket = sampling_bucket(distance);
    EXPECT_GE(bucket, last);
    last = bucket;
    if (bucket == kSamplingBuckets - 1) {
      EXPECT_EQ(sampling_weight(distance), 0u);
    }
  }
  EXPECT_EQ(last, kSamplingBuckets - 1);
  EXPECT_EQ(sampling_bucket(kInfinity), last);
}

// The filters work with buffers, buckets and pivots; neither may show in what is drawn.
TEST(Sampler, SelectionEqualsSortingForAnyOrderOfLogits) {
  for (const int order : {-1, 0, 1}) {
    std::vector<float> logits(5000);
    for (std::size_t id = 0; id < logits.size(); ++id) logits[id] = 4.f * random_uniform(3, id) - 2.f;
    if (order > 0) std::ranges::sort(logits);
    if (order < 0) std::ranges::sort(logits, std::ranges::greater());
    for (const SamplingParams& params : {SamplingParams{.temperature = 0.05f, .top_k = 64},
                                         SamplingParams{.temperature = 0.05f, .top_p = 0.6f},
                                         SamplingParams{.temperature = 0.1f, .top_k = 3000, .top_p = 0.7f},
                                         SamplingParams{.temperature = 1.f}}) {
      for (int position = 0; position < 150; ++position) {
        ASSERT_EQ(sample_at(logits, params, position), sample_by_sorting(logits, params, position))
            << "order " << order << ", position " << position << ", top_k " << params.top_k;
      }
    }
  }
}

TEST(Sampler, MinPOfOneKeepsTheMostLikelyTokens) {
  const SamplingParams params{.temperature = 1.f, .min_p = 1.f};
  expect_distribution(count_draws({3.f, 2.9f, 3.f}, params, 4000), {1, 0, 1});
}

TEST(Sampler, DrawRowsEqualsSamplingEachRow) {
  constexpr int kVocab = 50;
  const SamplingParams greedy, warm{.temperature = 1.f, .top_k = 10, .seed = 3};
  std::vector<float> logits(3 * kVocab);
  for (std::size_t i = 0; i < logits.size(); ++i) logits[i] = random_uniform(11, i);
  const std::vector<RowSampling> rows{{&warm, 4, {}, {}}, {&greedy, 9, {}, {}}, {&warm, 5, {}, {}}};
  std::vector<int32_t> expected;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const auto first = logits.begin() + static_cast<std::ptrdiff_t>(r * kVocab);
    expected.push_back(sample_at({first, first + kVocab}, *rows[r].params, rows[r].position));
  }
  EXPECT_EQ(draw_rows(logits, kVocab, rows), expected);
}

TEST(SamplingParams, NamesTheParameterThatIsOutOfRange) {
  const auto message = [](const SamplingParams& params) {
    try {
      params.validate();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(message({}), "accepted");
  EXPECT_EQ(
      message({.temperature = 1.f, .top_k = 64, .top_p = 0.95f, .min_p = 0.1f, .repetition_penalty = 1.1f}),
      "accepted");
  EXPECT_EQ(message({.temperature = -1.f}), "temperature is -1, must be a number >= 0");
  EXPECT_EQ(message({.temperature = kNan}), "temperature is nan, must be a number >= 0");
  EXPECT_EQ(message({.top_k = -3}), "top_k is -3, must be >= 0 (0: off)");
  EXPECT_EQ(message({.top_p = 1.5f}), "top_p is 1.5, must be between 0 and 1");
  EXPECT_EQ(message({.min_p = kNan}), "min_p is nan, must be between 0 and 1");
  EXPECT_EQ(message({.repetition_penalty = 0.f}), "repetition_penalty is 0, must be a number > 0 (1: off)");
}

}  // namespace
}  // namespace carat
