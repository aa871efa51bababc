#include "grammar/reply_paths.h"

#include <gtest/gtest.h>

namespace carat {
namespace {

/// The sum of a reply's tokens, and how often it was added to.
class ReplyPathsTest : public testing::Test {
 protected:
  int64_t sum(std::span<const int32_t> reply) {
    return paths_.after(reply, [&](int64_t state, int32_t token) {
      ++steps_;
      return state + token;
    });
  }
  static std::vector<int32_t> counted(int count) {
    std::vector<int32_t> tokens;
    for (int i = 1; i <= count; ++i) tokens.push_back(i);
    return tokens;
  }

  ReplyPaths<int64_t> paths_{0};
  int steps_ = 0;
};

TEST_F(ReplyPathsTest, AGrowingReplyCostsOneStepPerToken) {
  const std::vector<int32_t> reply = counted(1000);
  for (std::size_t count = 0; count <= reply.size(); ++count)
    EXPECT_EQ(sum(std::span(reply).first(count)), static_cast<int64_t>(count * (count + 1) / 2));
  EXPECT_EQ(steps_, 1000);
}

TEST_F(ReplyPathsTest, DraftsThatAreDroppedLeaveNothingBehind) {
  std::vector<int32_t> reply = counted(100);
  EXPECT_EQ(sum(reply), 5050);
  reply.resize(103, 7);
  EXPECT_EQ(sum(reply), 5071);
  reply.resize(101);
  reply.back() = 9;
  EXPECT_EQ(sum(reply), 5059);
  EXPECT_EQ(sum(std::span(reply).first(100)), 5050);
  EXPECT_EQ(steps_, 104);
}

TEST_F(ReplyPathsTest, SamplesKeepTheirOwnPaths) {
  constexpr int kSamples = 8, kLength = 1000;
  constexpr int kShort = 64;  // up to here they may take each other's path
  std::vector<std::vector<int32_t>> replies(kSamples);
  for (int length = 1; length <= kLength; ++length)
    for (int sample = 0; sample < kSamples; ++sample) {
      replies[sample].push_back(sample);
      EXPECT_EQ(sum(replies[sample]), static_cast<int64_t>(sample) * length);
    }
  EXPECT_LE(steps_, kSamples * (kLength + kShort * kShort));
}

TEST_F(ReplyPathsTest, MoreSamplesThanPathsOnlyCostMore) {
  std::vector<int32_t> reply = counted(200);
  for (int round = 0; round < 2; ++round)
    for (int sample = 0; sample < 40; ++sample) {
      reply.front() = sample;
      EXPECT_EQ(sum(reply), 20'100 - 1 + sample);
    }
}

}  // namespace
}  // namespace carat
