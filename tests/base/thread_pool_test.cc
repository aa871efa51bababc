#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <numeric>
#include <vector>

#include "base/cpu_count.h"

namespace carat {
namespace {

class ThreadPoolOfSize : public testing::TestWithParam<int> {};

TEST_P(ThreadPoolOfSize, CallsEveryPartOncePerRegion) {
  ThreadPool pool(GetParam());
  ASSERT_EQ(pool.size(), GetParam());
  std::vector<int> calls(static_cast<std::size_t>(pool.size()));
  for (int region = 1; region <= 2000; ++region) {
    pool.run([&](int thread) { ++calls[static_cast<std::size_t>(thread)]; });
    for (const int count : calls) ASSERT_EQ(count, region);
  }
}

// Otherwise a region would last until the machine has given every sleeping worker a core.
TEST(ThreadPool, TheCallerTakesOverPartsWhoseWorkersAreLate) {
  ThreadPool pool(32);
  const auto caller = std::this_thread::get_id();
  int taken_over = 0;
  for (int region = 0; region < 200 && taken_over == 0; ++region) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));  // the workers fall asleep
    std::vector<std::thread::id> ran_on(32);
    pool.run([&](int part) { ran_on[static_cast<std::size_t>(part)] = std::this_thread::get_id(); });
    taken_over = static_cast<int>(std::count(ran_on.begin() + 1, ran_on.end(), caller));
  }
  EXPECT_GT(taken_over, 0);
}

TEST_P(ThreadPoolOfSize, ShowsARegionWhatEarlierOnesWrote) {
  ThreadPool pool(GetParam());
  const int n = pool.size();
  std::vector<int> values(static_cast<std::size_t>(n), 1), next(values);
  for (int region = 0; region < 1000; ++region) {
    pool.run([&](int thread) {
      const auto neighbour = static_cast<std::size_t>((thread + 1) % n);
      next[static_cast<std::size_t>(thread)] = values[neighbour] + 1;
    });
    values.swap(next);
  }
  for (const int value : values) EXPECT_EQ(value, 1001);
}

TEST_P(ThreadPoolOfSize, WakesThreadsThatWentToSleep) {
  ThreadPool pool(GetParam());
  for (int region = 0; region < 3; ++region) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::atomic<int> calls{0};
    pool.run([&](int thread) {
      if (thread == pool.size() - 1) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      ++calls;
    });
    EXPECT_EQ(calls, pool.size());
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, ThreadPoolOfSize, testing::Values(1, 2, 3, 8));

TEST(ThreadPool, TakesTheUsableCoresByDefault) { EXPECT_EQ(ThreadPool(0).size(), usable_cpu_count()); }

TEST(ThreadPool, StopsWithoutEverHavingRun) { ThreadPool pool(4); }

TEST(ShareOf, CoversEverythingOnceAtGrainEdges) {
  for (const int64_t total : {0, 1, 15, 16, 17, 100, 1536}) {
    for (const int parts : {1, 2, 3, 7}) {
      for (const int64_t grain : {1, 16}) {
        int64_t next = 0;
        for (int part = 0; part < parts; ++part) {
          const IndexRange range = share_of(total, part, parts, grain);
          EXPECT_EQ(range.first, next);
          EXPECT_GE(range.count(), 0);
          EXPECT_TRUE(range.first % grain == 0 || range.first == total);
          next = range.last;
        }
        EXPECT_EQ(next, total);
      }
    }
  }
}

}  // namespace
}  // namespace carat
