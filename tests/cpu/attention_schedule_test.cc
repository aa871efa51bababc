#include "cpu/attention_schedule.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <utility>

namespace carat {
namespace {

constexpr AttentionShape kFull{8, 1, 512, 0}, kSliding{8, 2, 256, 512};
constexpr int64_t kPlenty = int64_t{1} << 22;

class Schedule {
 public:
  Schedule(const AttentionShape& shape, int threads, const std::vector<Segment>& segments,
           int64_t floats = kPlenty)
      : memory_(static_cast<std::size_t>(floats)), threads_(threads), schedule_(shape, threads, floats) {
    schedule_.build(segments, memory_.data());
  }

  const AttentionSchedule& operator*() const { return schedule_; }

  std::vector<AttentionItem> all_items() const {
    std::vector<AttentionItem> items;
    for (int thread = 0; thread < threads_; ++thread) {
      for (const AttentionItem& item : schedule_.items_of(thread)) items.push_back(item);
    }
    return items;
  }

  /// Positions times tokens that a thread's items read.
  double cost_of(int thread) const {
    double cost = 0;
    for (const AttentionItem& item : schedule_.items_of(thread)) {
      const AttentionBlock& block = schedule_.block(item.block);
      cost += item.chunk < 0 ? double(block.first_position + block.tokens) * block.tokens : kAttentionChunk;
    }
    return cost;
  }

 private:
  std::vector<float> memory_;
  int threads_;
  AttentionSchedule schedule_;
};

TEST(AttentionSchedule, CoversEveryRowAndHeadOnce) {
  const std::vector<Segment> segments{{0, 1, 700, 0}, {1, 100, 0, 1}, {101, 1, 0, 2}};
  for (const AttentionShape& shape : {kFull, kSliding}) {
    for (int threads : {1, 2, 3, 8}) {
      const Schedule schedule(shape, threads, segments);
      std::map<std::pair<int, int>, int> computed;  // (row, KV head) -> whole blocks, or chunks
      std::set<std::pair<int, int>> chunks;
      for (const AttentionItem& item : schedule.all_items()) {
        const AttentionBlock& block = (*schedule).block(item.block);
        EXPECT_EQ(item.chunk < 0, block.partials == 0);
        EXPECT_TRUE(chunks.insert({item.block, item.chunk}).second);
        for (int i = 0; i < block.tokens; ++i) ++computed[{block.first_row + i, block.kv_head}];
      }
      for (int row = 0; row < 102; ++row) {
        for (int head = 0; head < shape.kv_heads; ++head) EXPECT_GE((computed[{row, head}]), 1) << row;
      }
      EXPECT_EQ(computed.size(), 102u * shape.kv_heads);
    }
  }
}

TEST(AttentionSchedule, SplitsALongDecodeIntoTheVisibleChunksAndMergesEachQuery) {
  const Schedule full(kFull, 2, {{0, 1, 16383, 0}}), sliding(kSliding, 2, {{0, 1, 16383, 0}});
  EXPECT_EQ(full.all_items().size(), 64u);
  EXPECT_EQ((*full).merges().size(), 8u);
  EXPECT_EQ((*full).items_of(0).size(), 32u);
  EXPECT_EQ(sliding.all_items().size(), 4u);  // two KV heads, each 512 positions at chunk edges
  EXPECT_EQ((*sliding).merges().size(), 8u);
}

TEST(AttentionSchedule, SplitsNothingForOneThreadOrWithoutMemory) {
  for (const auto& schedule :
       {Schedule(kFull, 1, {{0, 1, 16383, 0}}), Schedule(kFull, 2, {{0, 1, 16383, 0}}, 1000)}) {
    ASSERT_EQ(schedule.all_items().size(), 1u);
    EXPECT_EQ(schedule.all_items()[0].chunk, -1);
    EXPECT_TRUE((*schedule).merges().empty());
  }
}

TEST(AttentionSchedule, BalancesThreads) {
  const Schedule prompt(kFull, 4, {{0, 512, 0, 0}}),
      mixed(kFull, 4, {{0, 1, 20000, 0}, {1, 1, 10, 1}, {2, 64, 0, 2}});
  for (const Schedule* schedule : {&prompt, &mixed}) {
    double total = 0, largest = 0;
    for (int thread = 0; thread < 4; ++thread) {
      total += schedule->cost_of(thread);
      largest = std::max(largest, schedule->cost_of(thread));
    }
    EXPECT_LT(largest, total / 4 * 1.25);
  }
}

TEST(AttentionSchedule, AnEmptyStepHasNoItems) {
  const Schedule schedule(kFull, 2, {});
  EXPECT_TRUE(schedule.all_items().empty());
}

}  // namespace
}  // namespace carat
