#include "engine/kv_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "engine/kv_pages.h"

namespace carat {
namespace {

constexpr std::array<KvGroup, kKvGroups> kE2b{KvGroup{3, 1, 512, 0}, KvGroup{12, 1, 256, 512}};
constexpr std::size_t kGibibyte = std::size_t{1} << 30;

std::size_t bytes_of(const RunnerOptions& options, const KvBudget& budget) {
  return kv_bytes(kE2b, options, budget.value_bytes, budget.scale_bytes);
}

TEST(KvBudget, StaysWithinItAndUsesMostOfIt) {
  for (const std::size_t bytes : {kGibibyte / 2, kGibibyte, 3 * kGibibyte}) {
    const KvBudget budget{.bytes = bytes, .context = 32768};
    const RunnerOptions options = size_kv_within(kE2b, budget);
    EXPECT_LE(bytes_of(options, budget), bytes);
    EXPECT_GT(bytes_of(options, budget), bytes * 9 / 10);
    EXPECT_GE(KvPages(kE2b, options).longest_sequence(budget.context), budget.context);
    EXPECT_EQ(options.max_sequences, 16);
  }
}

TEST(KvBudget, CountsScales) {
  EXPECT_EQ(kv_page_bytes({3, 1, 512, 0}, 32, 1, 8), 3u * 32 * (2 * 512 + 2 * 8));
  const KvBudget budget{.bytes = kGibibyte, .value_bytes = 1, .scale_bytes = 100, .context = 131072};
  const RunnerOptions options = size_kv_within(kE2b, budget);
  EXPECT_LE(bytes_of(options, budget), kGibibyte);
  EXPECT_GT(bytes_of(options, budget), kGibibyte * 9 / 10);
}

TEST(KvBudget, TakesNoMoreThanItsSequencesCanUse) {
  const KvBudget budget{.bytes = 100 * kGibibyte, .context = 8192, .sequences = 4};
  const RunnerOptions options = size_kv_within(kE2b, budget);
  EXPECT_EQ(options.pages[kFullGroup], 2 * 4 * 8192 / 32);
  EXPECT_LT(bytes_of(options, budget), kGibibyte);
}

TEST(KvBudget, RunsFewerSequencesWhenTheirWindowsDoNotFit) {
  const KvBudget budget{.bytes = kGibibyte / 20, .context = 4096, .sequences = 64};
  const RunnerOptions options = size_kv_within(kE2b, budget);
  EXPECT_LT(options.max_sequences, 64);
  EXPECT_GE(options.max_sequences, 1);
  EXPECT_GE(KvPages(kE2b, options).longest_sequence(4096), 4096);
}

TEST(KvBudget, SaysWhatAContextNeeds) {
  try {
    size_kv_within(kE2b, {.bytes = kGibibyte / 64, .context = 131072});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                testing::HasSubstr("16 MiB can't hold a context of 131072 tokens, which needs up to"));
  }
  EXPECT_THROW(size_kv_within(kE2b, {.bytes = kGibibyte, .context = 0}), Error);
}

TEST(KvBudget, LongestContextFitsAndIsNotMuchTooShort) {
  for (const std::size_t bytes : {kGibibyte / 16, kGibibyte / 4, kGibibyte}) {
    KvBudget budget{.bytes = bytes, .context = 1 << 20};
    const int longest = longest_context_within(kE2b, budget);
    budget.context = longest;
    EXPECT_GE(KvPages(kE2b, size_kv_within(kE2b, budget)).longest_sequence(longest), longest);
    budget.context = longest + longest / 2;
    EXPECT_THROW(size_kv_within(kE2b, budget), Error);
  }
  const KvBudget enough{.bytes = kGibibyte, .context = 8192};
  EXPECT_EQ(longest_context_within(kE2b, enough), 8192);
}

}  // namespace
}  // namespace carat
