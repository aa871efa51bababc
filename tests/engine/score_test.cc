#include "engine/score.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "base/error.h"
#include "engine/scripted_runner.h"

namespace carat {
namespace {

constexpr int kVocab = 37, kWindow = 8;
constexpr std::array<KvGroup, kKvGroups> kGroups{KvGroup{1, 1, 1, 0}, KvGroup{2, 1, 1, kWindow}};

class ScoreTest : public testing::Test {
 protected:
  ScoreTest()
      : limits_(size_kv(kGroups, 200, 1, 20)), runner_(kGroups, limits_, kVocab), pages_(kGroups, limits_) {
    for (int i = 0; i < 200; ++i) tokens_.push_back(i * i % kVocab);
  }
  void expect_all_pages_free() const {
    for (int g = 0; g < kKvGroups; ++g) EXPECT_EQ(pages_.free_pages(g), limits_.pages[g]);
  }

  const RunnerOptions limits_;
  ScriptedRunner runner_;
  KvPages pages_;
  std::vector<int32_t> tokens_;
};

TEST_F(ScoreTest, GivesEveryPositionInOrderWhateverTheChunk) {
  for (const int chunk : {1, 3, kWindow - 1, kWindow, kWindow + 1, 20, 1000}) {
    SCOPED_TRACE(chunk);
    ScriptedSequence expected(kGroups);
    int next = 0;
    score(runner_, pages_, tokens_, chunk, [&](int position, std::span<const float> logits) {
      ASSERT_EQ(position, next++);
      ASSERT_EQ(std::vector(logits.begin(), logits.end()), expected.push(tokens_[position], kVocab));
    });
    EXPECT_EQ(next, 200);
    EXPECT_LE(runner_.largest_step(), 20);
    expect_all_pages_free();
  }
}

TEST_F(ScoreTest, AnEmptyTextHasNoPositions) {
  score(runner_, pages_, {}, 8, [](int, std::span<const float>) { FAIL(); });
}

TEST_F(ScoreTest, RefusesWhatItCannotRunBeforeTheFirstStep) {
  const auto nothing = [](int, std::span<const float>) { FAIL(); };
  std::vector<int32_t> too_long(300, 1), unknown{1, kVocab}, negative{-1};
  EXPECT_THROW(score(runner_, pages_, too_long, 8, nothing), Error);
  EXPECT_THROW(score(runner_, pages_, unknown, 8, nothing), Error);
  EXPECT_THROW(score(runner_, pages_, negative, 8, nothing), Error);
  EXPECT_THROW(score(runner_, pages_, tokens_, 0, nothing), Error);
}

TEST_F(ScoreTest, ReturnsItsPagesWhenTheCallbackThrows) {
  EXPECT_THROW(score(runner_, pages_, tokens_, 8,
                     [](int position, std::span<const float>) {
                       if (position == 30) throw std::runtime_error("enough");
                     }),
               std::runtime_error);
  expect_all_pages_free();
}

}  // namespace
}  // namespace carat
