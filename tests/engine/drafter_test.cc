#include "engine/drafter.h"

#include <gtest/gtest.h>

namespace carat {
namespace {

TEST(DraftLength, GrowsWhileAllIsAcceptedAndShrinksToWhatWas) {
  DraftLength length(16);
  EXPECT_EQ(length.next(), 4);
  length.report(4, 4);
  EXPECT_EQ(length.next(), 8);
  length.report(8, 8);
  length.report(16, 16);
  EXPECT_EQ(length.next(), 16);
  length.report(16, 5);
  EXPECT_EQ(length.next(), 6);
  length.report(6, 0);
  EXPECT_EQ(length.next(), 1);
}

TEST(DraftLength, PausesLongerTheLongerDraftsAreUseless) {
  DraftLength length(8);
  const auto pause = [&] {
    int steps = 0;
    while (length.next() == 0) ++steps;
    return steps;
  };
  length.report(4, 0);
  length.report(1, 0);
  EXPECT_EQ(pause(), 0);
  length.report(1, 0);
  EXPECT_EQ(pause(), 2);
  length.report(1, 0);
  EXPECT_EQ(pause(), 4);
  for (int i = 0; i < 20; ++i) length.report(1, 0);
  EXPECT_EQ(pause(), 32);
  length.report(1, 1);
  EXPECT_EQ(pause(), 0);
}

TEST(DraftLength, NeverExceedsItsLimit) {
  DraftLength length(2);
  EXPECT_EQ(length.next(), 2);
  length.report(2, 2);
  EXPECT_EQ(length.next(), 2);
  length.report(0, 0);
  EXPECT_EQ(length.next(), 2) << "nothing drafted, nothing learnt";
}

}  // namespace
}  // namespace carat
