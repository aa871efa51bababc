#include "cpu/work_shares.h"

#include <gtest/gtest.h>

#include <vector>

namespace carat {
namespace {

TEST(WorkShares, EveryUnitIsTakenOnceWhoeverTakesIt) {
  ThreadPool pool(4);
  WorkShares shares(pool.size());
  for (const bool in_pieces : {false, true}) {
    for (const int64_t total : {0, 1, 3, 5, 97, 8192}) {
      std::vector<int> taken(static_cast<std::size_t>(total));
      shares.divide(total, in_pieces);
      pool.run([&](int thread) {
        for (IndexRange range = shares.take(thread); range.count() > 0; range = shares.take(thread)) {
          for (int64_t i = range.first; i < range.last; ++i) ++taken[static_cast<std::size_t>(i)];
        }
      });
      EXPECT_EQ(taken, std::vector<int>(static_cast<std::size_t>(total), 1)) << total;
    }
  }
}

TEST(WorkShares, AThreadTakesItsOwnShareInOrderThenFromTheEndOfOthers) {
  WorkShares shares(2);
  shares.divide(32, true);
  int64_t next = 0, end = 32;
  while (next < 16) {
    const IndexRange piece = shares.take(0);
    EXPECT_EQ(piece.first, next);
    next = piece.last;
  }
  while (end > 16) {
    const IndexRange piece = shares.take(0);
    EXPECT_EQ(piece.last, end);
    end = piece.first;
  }
  EXPECT_EQ(shares.take(0).count(), 0);
  EXPECT_EQ(shares.take(1).count(), 0);
}

TEST(WorkShares, WholeSharesAreOnePieceEach) {
  WorkShares shares(3);
  shares.divide(30, false);
  EXPECT_EQ(shares.take(1).first, 10);
  EXPECT_EQ(shares.take(1).count(), 10);
  EXPECT_EQ(shares.take(1).count(), 10);
  EXPECT_EQ(shares.take(1).count(), 0);
}

}  // namespace
}  // namespace carat
