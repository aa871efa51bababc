#include "engine/kv_pages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "base/random.h"

namespace carat {
namespace {

constexpr std::array<KvGroup, kKvGroups> kGroups{KvGroup{1, 1, 1, 0}, KvGroup{2, 1, 1, 8}};

RunnerOptions limits_of(int page_tokens, int full, int sliding, int step_tokens = 16) {
  RunnerOptions limits;
  limits.page_tokens = page_tokens;
  limits.pages = {full, sliding};
  limits.max_step_tokens = step_tokens;
  return limits;
}

int held(const SequencePages& sequence, int group) {
  int count = 0;
  for (const int32_t page : sequence.table[group]) count += page >= 0 ? 1 : 0;
  return count;
}

TEST(KvPages, ExtendGivesEveryPositionAPageOfItsOwn) {
  KvPages pages(kGroups, limits_of(4, 10, 10));
  SequencePages sequence;
  ASSERT_TRUE(pages.extend(sequence, 0, 5));
  EXPECT_EQ(held(sequence, kFullGroup), 2);
  ASSERT_TRUE(pages.extend(sequence, 5, 3));  // fills the second page
  EXPECT_EQ(held(sequence, kFullGroup), 2);
  ASSERT_TRUE(pages.extend(sequence, 8, 1));
  EXPECT_EQ(held(sequence, kFullGroup), 3);
  EXPECT_EQ(held(sequence, kSlidingGroup), 3);
  EXPECT_EQ(pages.free_pages(kFullGroup), 7);
  EXPECT_TRUE(pages.extend(sequence, 9, 0));
  EXPECT_EQ(pages.free_pages(kFullGroup), 7);
}

TEST(KvPages, ExtendChangesNothingWhenOneGroupRunsOut) {
  for (const auto& [full, sliding] : {std::pair{5, 2}, std::pair{2, 5}}) {
    KvPages pages(kGroups, limits_of(4, full, sliding));
    SequencePages sequence;
    ASSERT_TRUE(pages.extend(sequence, 0, 4));
    const SequencePages before = sequence;
    EXPECT_FALSE(pages.extend(sequence, 4, 8));
    EXPECT_EQ(sequence.table, before.table);
    EXPECT_EQ(pages.free_pages(kFullGroup), full - 1);
    EXPECT_EQ(pages.free_pages(kSlidingGroup), sliding - 1);
    EXPECT_TRUE(pages.extend(sequence, 4, 4));
  }
}

TEST(KvPages, ReleasesExactlyWhatNoLaterPositionSees) {
  constexpr int kPage = 4;
  const int window = kGroups[kSlidingGroup].window;
  for (int past = 0; past < 40; ++past) {
    KvPages pages(kGroups, limits_of(kPage, 20, 20));
    SequencePages sequence;
    ASSERT_TRUE(pages.extend(sequence, 0, 40));
    pages.release_behind_window(sequence, past);
    for (int page = 0; page < 10; ++page) {
      const bool visible = (page + 1) * kPage - 1 > past - window;  // position q sees (q - window, q]
      EXPECT_EQ(sequence.table[kSlidingGroup][page] >= 0, visible) << "past " << past << ", page " << page;
      EXPECT_GE(sequence.table[kFullGroup][page], 0);
    }
    pages.release_all(sequence);
    EXPECT_EQ(pages.free_pages(kSlidingGroup), 20);
    EXPECT_EQ(pages.free_pages(kFullGroup), 20);
  }
}

TEST(KvPages, GroupWithoutLayersNeedsNoPages) {
  const std::array<KvGroup, kKvGroups> groups{KvGroup{1, 1, 1, 0}, KvGroup{}};
  KvPages pages(groups, limits_of(4, 3, 0));
  SequencePages sequence;
  EXPECT_TRUE(pages.extend(sequence, 0, 12));
  EXPECT_TRUE(sequence.table[kSlidingGroup].empty());
  EXPECT_EQ(size_kv(groups, 100, 2, 8).pages[kSlidingGroup], 0);
  EXPECT_EQ(pages.longest_sequence(100), 12);
}

TEST(KvPages, SizesFollowTheContextInFullAndTheWindowInSlidingAttention) {
  const std::array<KvGroup, kKvGroups> groups{KvGroup{7, 1, 512, 0}, KvGroup{28, 1, 256, 512}};
  const RunnerOptions short_context = size_kv(groups, 1024, 4, 512),
                      long_context = size_kv(groups, 131072, 4, 512);
  EXPECT_EQ(short_context.pages[kFullGroup], 4 * 1024 / 32);
  EXPECT_EQ(long_context.pages[kFullGroup], 4 * 131072 / 32);
  EXPECT_EQ(short_context.pages[kSlidingGroup], long_context.pages[kSlidingGroup]);
  EXPECT_LE(long_context.pages[kSlidingGroup], 4 * (512 / 32 + 2) + 512 / 32);
  EXPECT_EQ(size_kv(groups, 1, 1, 1).pages[kFullGroup], 1);
}

TEST(KvPages, SizingRefusesImpossibleNumbers) {
  for (const auto& [context, sequences, step] :
       {std::tuple{0, 1, 1}, std::tuple{1, -1, 1}, std::tuple{1, 1, 0}, std::tuple{1 << 30, 1 << 30, 1}}) {
    EXPECT_THROW(size_kv(kGroups, context, sequences, step), Error);
  }
}

TEST(KvPages, LongestSequenceIsLimitedByTheScarcerGroup) {
  EXPECT_EQ(KvPages(kGroups, limits_of(4, 10, 100)).longest_sequence(1000), 40);
  EXPECT_EQ(KvPages(kGroups, limits_of(4, 10, 100)).longest_sequence(17), 17);
  EXPECT_EQ(KvPages(kGroups, limits_of(4, 1000, 5, 12)).longest_sequence(1000),
            8);  // 5 pages, 3 for the step
  EXPECT_EQ(KvPages(kGroups, limits_of(4, 1000, 3, 12)).longest_sequence(1000), 0);
}

/// A pool of exactly the promised size under random ragged steps: it may never run out, hand a page out
/// twice, drop one that the window still needs or lose one.
class KvPagesUnderRandomSteps : public testing::TestWithParam<std::tuple<int, int, int>> {};

TEST_P(KvPagesUnderRandomSteps, NeverRunOutAndNeverOverlap) {
  const auto [page_tokens, window, step_tokens] = GetParam();
  std::array<KvGroup, kKvGroups> groups = kGroups;
  groups[kSlidingGroup].window = window;
  constexpr int kSequences = 5, kContext = 90;
  RunnerOptions limits = limits_of(page_tokens, 0, 0, step_tokens);
  KvPages arithmetic(groups, limits);
  for (int g = 0; g < kKvGroups; ++g) {
    limits.pages[g] = kSequences * arithmetic.reserved_pages(g, kContext) + arithmetic.step_pages(g);
  }
  KvPages pages(groups, limits);

  uint64_t counter = 0;
  const auto random = [&](int below) { return static_cast<int>(random_bits(17, counter++) % below); };
  std::array<SequencePages, kSequences> sequences;
  std::array<int, kSequences> past{};
  for (int step = 0; step < 400; ++step) {
    std::array<int, kSequences> count{};
    for (int left = step_tokens, i = random(kSequences), visits = 0; visits < kSequences; ++visits) {
      i = (i + 1) % kSequences;
      count[i] = std::min({left, kContext - past[i], random(3) == 0 ? step_tokens : random(4)});
      left -= count[i];
      ASSERT_TRUE(pages.extend(sequences[i], past[i], count[i])) << "step " << step;
    }
    for (int g = 0; g < kKvGroups; ++g) {
      std::set<int32_t> owned;
      std::size_t in_tables = 0;
      for (int i = 0; i < kSequences; ++i) {
        const int first = g == kSlidingGroup ? std::max(past[i] - window + 1, 0) : 0;
        for (int position = first; position < past[i] + count[i]; ++position) {
          ASSERT_GE(sequences[i].table[g].at(position / page_tokens), 0);
        }
        for (const int32_t page : sequences[i].table[g]) {
          if (page < 0) continue;
          EXPECT_LT(page, limits.pages[g]);
          owned.insert(page);
          ++in_tables;
        }
      }
      EXPECT_EQ(owned.size(), in_tables) << "a page has two owners";
      EXPECT_EQ(static_cast<int>(in_tables) + pages.free_pages(g), limits.pages[g]) << "a page is lost";
    }
    for (int i = 0; i < kSequences; ++i) {
      pages.release_behind_window(sequences[i], past[i] += count[i]);
      if (past[i] < kContext && random(60) != 0) continue;
      pages.release_all(sequences[i]);
      past[i] = 0;
    }
  }
  for (SequencePages& sequence : sequences) pages.release_all(sequence);
  for (int g = 0; g < kKvGroups; ++g) EXPECT_EQ(pages.free_pages(g), limits.pages[g]);
}

INSTANTIATE_TEST_SUITE_P(, KvPagesUnderRandomSteps,
                         testing::Combine(testing::Values(1, 3, 4, 32), testing::Values(1, 2, 8, 13),
                                          testing::Values(1, 5, 7, 16, 40)));

}  // namespace
}  // namespace carat
