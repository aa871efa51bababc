// Pages that several sequences hold: samples of one prompt, and beginnings that are kept for later.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/random.h"
#include "engine/kv_pages.h"

namespace carat {
namespace {

constexpr int kPage = 4, kWindow = 8;
constexpr std::array<KvGroup, kKvGroups> kGroups{KvGroup{1, 1, 1, 0}, KvGroup{2, 1, 1, kWindow}};

KvPages make_pages(int full, int sliding, KeepPrefixes keep = KeepPrefixes::yes) {
  RunnerOptions limits;
  limits.page_tokens = kPage;
  limits.pages = {full, sliding};
  limits.max_step_tokens = 16;
  return KvPages(kGroups, limits, keep);
}

std::vector<int32_t> text(int count, uint64_t seed = 1) {
  std::vector<int32_t> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>(random_bits(seed, i) % 100));
  return tokens;
}

/// A sequence that has run `tokens` in steps of `chunk` and is still there.
SequencePages run(KvPages& pages, const std::vector<int32_t>& tokens, const std::string& salt = "",
                  int chunk = 5) {
  SequencePages sequence;
  int past = pages.reuse(sequence, tokens, salt);
  for (const int size = static_cast<int>(tokens.size()); past < size;) {
    const int count = std::min(chunk, size - past);
    EXPECT_TRUE(pages.extend(sequence, past, count));
    past += count;
    pages.remember(sequence, std::span(tokens).first(past), salt);
    pages.release_behind_window(sequence, past);
  }
  return sequence;
}

int reusable(KvPages& pages, const std::vector<int32_t>& tokens, const std::string& salt = "") {
  SequencePages sequence;
  const int length = pages.reuse(sequence, tokens, salt);
  pages.release_all(sequence);
  return length;
}

TEST(KvSharing, WritersOfASharedPageGetTheirOwnCopy) {
  KvPages pages = make_pages(10, 10, KeepPrefixes::no);
  SequencePages a, b;
  ASSERT_TRUE(pages.extend(a, 0, 6));
  pages.share(a, b, 6);
  EXPECT_EQ(b.table, a.table);
  EXPECT_EQ(pages.free_pages(kFullGroup), 8);
  std::vector<PageCopy> copies;
  ASSERT_TRUE(pages.extend(b, 6, 1, copies));
  ASSERT_EQ(copies.size(), 2u);  // one page in each group
  for (const PageCopy& copy : copies) {
    EXPECT_EQ(copy.from, a.table[copy.group][1]);
    EXPECT_EQ(copy.to, b.table[copy.group][1]);
    EXPECT_NE(copy.from, copy.to);
    EXPECT_EQ(b.table[copy.group][0], a.table[copy.group][0]) << "nobody writes there";
  }
  copies.clear();
  ASSERT_TRUE(pages.extend(a, 6, 1, copies));
  EXPECT_TRUE(copies.empty()) << "a is alone on its page again";
  pages.release_all(a);
  EXPECT_EQ(pages.free_pages(kFullGroup), 8);
  pages.release_all(b);
  EXPECT_EQ(pages.free_pages(kFullGroup), 10);
  EXPECT_EQ(pages.free_pages(kSlidingGroup), 10);
}

TEST(KvSharing, ASharedPageThatCannotBeCopiedChangesNothing) {
  KvPages pages = make_pages(2, 10, KeepPrefixes::no);
  SequencePages a, b;
  ASSERT_TRUE(pages.extend(a, 0, 6));
  pages.share(a, b, 6);
  const SequencePages before = b;
  std::vector<PageCopy> copies;
  EXPECT_FALSE(pages.extend(b, 6, 1, copies));
  EXPECT_TRUE(copies.empty());
  EXPECT_EQ(b.table, before.table);
}

TEST(KvSharing, SharesOnlyWhatTheWindowStillSees) {
  KvPages pages = make_pages(20, 20, KeepPrefixes::no);
  SequencePages a, b;
  ASSERT_TRUE(pages.extend(a, 0, 30));
  pages.share(a, b, 29);
  EXPECT_EQ(pages.held_pages(b, kFullGroup), 8);
  EXPECT_EQ(b.table[kSlidingGroup][4], -1);  // positions 16 to 19; 29 sees from 22 on
  EXPECT_EQ(b.table[kSlidingGroup][5], a.table[kSlidingGroup][5]);
}

TEST(KvSharing, RoomForRefusedDraftsReturns) {
  KvPages pages = make_pages(10, 10);
  SequencePages a;
  ASSERT_TRUE(pages.extend(a, 0, 5));
  ASSERT_TRUE(pages.extend(a, 5, 12));
  pages.release_beyond(a, 6);
  EXPECT_EQ(pages.held_pages(a, kFullGroup), 2);
  EXPECT_EQ(pages.held_pages(a, kSlidingGroup), 2);
  EXPECT_EQ(pages.free_pages(kFullGroup), 8);
}

TEST(KvSharing, TheSameTextIsReusedUpToItsLastPage) {
  for (const int length : {3, 4, 5, 8, 9, 12, 13, 40}) {  // below, at and above the window
    KvPages pages = make_pages(20, 20);
    SequencePages first = run(pages, text(length));
    pages.release_all(first);
    EXPECT_EQ(pages.free_pages(kFullGroup), 20);
    EXPECT_EQ(reusable(pages, text(length)), (length - 1) / kPage * kPage) << length;
    EXPECT_EQ(reusable(pages, text(length), "other"), 0);
  }
}

TEST(KvSharing, TextsThatPartAreReusedUpToThere) {
  KvPages pages = make_pages(40, 40);
  SequencePages first = run(pages, text(40));
  pages.release_all(first);
  for (const int at : {0, 1, 4, 7, 8, 21, 39}) {
    std::vector<int32_t> other = text(40);
    other[at] = 101;
    EXPECT_EQ(reusable(pages, other), at / kPage * kPage) << at;
  }
}

// The full group remembers all of the text; only where the sliding group still has a window can it go on.
TEST(KvSharing, AHitNeedsTheWindowsPagesInTheSlidingGroupAndNoMore) {
  KvPages pages = make_pages(40, 5);  // a window, and what a step adds
  SequencePages first = run(pages, text(40), "", 4);
  pages.release_all(first);
  SequencePages again;
  EXPECT_EQ(pages.reuse(again, text(44), ""), 40);
  EXPECT_EQ(pages.held_pages(again, kFullGroup), 10);
  EXPECT_EQ(pages.held_pages(again, kSlidingGroup), 2);  // 33 to 39, in pages 8 and 9
  pages.release_all(again);
  std::vector<int32_t> early = text(40);
  early[20] = 101;
  EXPECT_LT(reusable(pages, early), 20);
}

TEST(KvSharing, EqualPagesBecomeOne) {
  KvPages pages = make_pages(20, 20);
  SequencePages a = run(pages, text(12)), b;
  ASSERT_TRUE(pages.extend(b, 0, 12));  // did not look into the cache
  EXPECT_EQ(pages.free_pages(kFullGroup), 14);
  pages.remember(b, text(12), "");
  EXPECT_EQ(b.table[kFullGroup], a.table[kFullGroup]);
  EXPECT_EQ(pages.free_pages(kFullGroup), 17);
}

TEST(KvSharing, TheTextUnusedLongestGoesFirstAndFromItsEnd) {
  KvPages pages = make_pages(10, 10);
  SequencePages old = run(pages, text(16, 1));
  pages.release_all(old);
  SequencePages recent = run(pages, text(16, 2));
  pages.release_all(recent);
  EXPECT_EQ(reusable(pages, text(17, 1)), 16);
  EXPECT_EQ(reusable(pages, text(17, 2)), 16);  // used last
  SequencePages next = run(pages, text(16, 3));
  EXPECT_EQ(reusable(pages, text(17, 2)), 16);
  EXPECT_LT(reusable(pages, text(17, 1)), 16);
  pages.release_all(next);
  EXPECT_EQ(pages.free_pages(kFullGroup), 10);
}

/// Random texts of few beginnings: whatever reuse() hands out must hold exactly the positions' tokens. The
/// "content" of a page is written down whenever a sequence writes it.
TEST(KvSharing, ReusedPagesHoldTheTokensTheyStandFor) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    uint64_t counter = 0;
    const auto random = [&](int below) { return static_cast<int>(random_bits(seed, counter++) % below); };
    KvPages pages = make_pages(12 + random(20), 8 + random(20));
    std::array<std::vector<std::vector<int32_t>>, kKvGroups> content;
    for (auto& group : content) group.resize(40);
    std::vector<SequencePages> live;
    for (int turn = 0; turn < 60; ++turn) {
      std::vector<int32_t> tokens = text(1 + random(40), random(3));
      if (random(2) == 0) tokens[random(static_cast<int>(tokens.size()))] = random(100);
      SequencePages sequence;
      const int past = pages.reuse(sequence, tokens, ""), size = static_cast<int>(tokens.size());
      for (int g = 0; g < kKvGroups; ++g) {
        for (int position = g == kSlidingGroup ? std::max(0, past - kWindow + 1) : 0; position < past;
             ++position) {
          const int32_t page = sequence.table[g].at(position / kPage);
          ASSERT_GE(page, 0);
          ASSERT_EQ(content[g][page].at(position), tokens[position]) << "seed " << seed << ", turn " << turn;
        }
      }
      bool room = true;
      for (int at = past; at < size && room; at += 3) {
        const int count = std::min(3, size - at);
        room = pages.extend(sequence, at, count);
        if (!room) break;
        for (int g = 0; g < kKvGroups; ++g) {
          for (int position = at; position < at + count; ++position) {
            auto& cells = content[g][sequence.table[g][position / kPage]];
            if (position % kPage == 0) cells.assign(60, -1);
            cells[position] = tokens[position];
          }
        }
        pages.remember(sequence, std::span(tokens).first(at + count), "");
        pages.release_behind_window(sequence, at + count);
      }
      live.push_back(std::move(sequence));
      while (!live.empty() && (!room || random(3) > 0)) {
        const auto victim = live.begin() + random(static_cast<int>(live.size()));
        pages.release_all(*victim);
        live.erase(victim);
      }
    }
    for (SequencePages& sequence : live) pages.release_all(sequence);
    for (int g = 0; g < kKvGroups; ++g)
      ASSERT_EQ(pages.free_pages(g), pages.total_pages(g)) << "seed " << seed;
  }
}

}  // namespace
}  // namespace carat
