// How rows are described to the device, read back the way the kernels do.
#include "cuda/sampling_rows.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>

#include "base/random.h"

namespace carat::cuda {
namespace {

constexpr int kVocab = 100;

SampledRow row_at(std::span<const int32_t> words, std::size_t r) {
  SampledRow row;
  std::memcpy(&row, words.data() + r * kRowWords, sizeof row);
  return row;
}

std::vector<int32_t> list(std::span<const int32_t> words, int place, int count) {
  const auto part = words.subspan(static_cast<std::size_t>(place), static_cast<std::size_t>(count));
  return {part.begin(), part.end()};
}

TEST(SamplingRows, CarryParametersAndTheRandomNumber) {
  SamplingRows rows(kVocab);
  const SamplingParams params{.temperature = 0.5f, .top_k = 7, .top_p = 0.9f, .min_p = 0.1f, .seed = 11};
  const std::vector<RowSampling> sampling{{&params, 3, {}, {}}, {&params, 4, {}, {}}};
  const auto words = rows.pack(sampling);
  for (std::size_t r = 0; r < 2; ++r) {
    const SampledRow row = row_at(words, r);
    EXPECT_EQ(row.temperature, 0.5f);
    EXPECT_EQ(row.top_k, 7);
    EXPECT_EQ(row.top_p, 0.9f);
    EXPECT_EQ(row.min_p, 0.1f);
    EXPECT_EQ(row.uniform, random_uniform(11, 3 + r));
    EXPECT_EQ(row.allowed, -1);
    EXPECT_EQ(row.suppressed_count + row.seen_count + row.bias_count, 0);
  }
}

TEST(SamplingRows, SeenTokensAreDistinctAndCountedInTheReply) {
  SamplingRows rows(kVocab);
  const std::vector<int32_t> history{5, 5, -1, 8, 3, 8, 3, 3, kVocab};  // the reply begins with the first 3
  const SamplingParams all{.repetition_penalty = 1.1f, .frequency_penalty = 1.f},
      reply{.presence_penalty = 1.f}, none;
  const std::vector<RowSampling> sampling{
      {&all, 0, history, {}, 4}, {&reply, 0, history, {}, 4}, {&none, 0, history, {}, 4}};
  for (int repeat = 0; repeat < 2; ++repeat) {
    const auto words = rows.pack(sampling);
    const auto seen = [&](std::size_t r) {
      return list(words, row_at(words, r).seen, 2 * row_at(words, r).seen_count);
    };
    EXPECT_EQ(seen(0), (std::vector<int32_t>{5, 0, 8, 1, 3, 3}));
    EXPECT_EQ(seen(1), (std::vector<int32_t>{3, 3, 8, 1}));
    EXPECT_EQ(seen(2), std::vector<int32_t>());
  }
}

TEST(SamplingRows, BiasesOfATokenAreNeighboursInTheirOrder) {
  SamplingRows rows(kVocab);
  SamplingParams params;
  params.logit_bias = {{9, 1.f}, {2, 2.f}, {-4, 1.f}, {9, 3.f}, {kVocab, 1.f}};
  const auto words = rows.pack(std::vector<RowSampling>{{&params, 0, {}, {}}});
  const auto bits = [](float bias) { return std::bit_cast<int32_t>(bias); };
  EXPECT_EQ(list(words, row_at(words, 0).biases, 2 * row_at(words, 0).bias_count),
            (std::vector<int32_t>{2, bits(2.f), 9, bits(1.f), 9, bits(3.f)}));
}

TEST(SamplingRows, ShareAListOfSuppressedTokensButNotAMask) {
  SamplingRows rows(kVocab);
  const SamplingParams params;
  const std::vector<int32_t> common{1, -1, 200, 4}, other{7};
  const std::vector<uint32_t> mask{1, 2, 3, 0xffffffffu};
  const auto words = rows.pack(std::vector<RowSampling>{
      {&params, 0, {}, common}, {&params, 0, {}, common}, {&params, 0, {}, other, 0, mask}});
  EXPECT_EQ(row_at(words, 0).suppressed, row_at(words, 1).suppressed);
  EXPECT_EQ(list(words, row_at(words, 1).suppressed, row_at(words, 1).suppressed_count),
            (std::vector<int32_t>{1, 4}));
  EXPECT_EQ(list(words, row_at(words, 2).suppressed, row_at(words, 2).suppressed_count), other);
  EXPECT_EQ(list(words, row_at(words, 2).allowed, 4), (std::vector<int32_t>{1, 2, 3, -1}));
}

}  // namespace
}  // namespace carat::cuda
