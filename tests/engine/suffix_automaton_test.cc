#include "engine/suffix_automaton.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/random.h"

namespace carat {
namespace {

using Tokens = std::vector<int32_t>;

/// The length of the longest end of the text that also ends at an earlier place.
int longest_repeat(const Tokens& text) {
  for (int length = static_cast<int>(text.size()) - 1; length > 0; --length) {
    const auto end = text.end() - 1;
    if (std::search(text.begin(), end, text.end() - length, text.end()) != end) return length;
  }
  return 0;
}

TEST(SuffixAutomaton, FindsTheLongestRepeatOfRandomTexts) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const uint64_t letters = 1 + seed % 5;
    SuffixAutomaton automaton;
    Tokens text;
    for (int i = 0; i < 80; ++i) {
      text.push_back(static_cast<int32_t>(random_bits(seed, i) % letters));
      automaton.append(text.back());
      const auto [length, next] = automaton.longest_repeat();
      ASSERT_EQ(length, longest_repeat(text)) << "seed " << seed << ", position " << i;
      if (length == 0) continue;
      ASSERT_LE(length, next);
      ASSERT_LT(next, static_cast<int>(text.size()));
      EXPECT_TRUE(std::equal(text.end() - length, text.end(), text.begin() + next - length));
    }
  }
}

TEST(SuffixDrafter, ContinuesTheLongestMatchRatherThanTheNewest) {
  SuffixDrafter drafter;
  const Tokens text{1, 2, 3, 4, 5, 6, 7, /**/ 9, 3, 4, 5, 8, /**/ 1, 2, 3, 4, 5};
  EXPECT_EQ(drafter.draft(text, 2), (Tokens{6, 7}));
}

TEST(SuffixDrafter, FollowsAGrowingText) {
  SuffixDrafter drafter;
  Tokens text{1, 2, 3, 9, 1};
  EXPECT_EQ(drafter.draft(text, 3), Tokens{}) << "one token is no match";
  text.push_back(2);
  EXPECT_EQ(drafter.draft(text, 3), (Tokens{3, 9, 1}));
  text.insert(text.end(), {3, 9, 1, 2, 3});
  EXPECT_EQ(drafter.draft(text, 2), (Tokens{9, 1}));
}

}  // namespace
}  // namespace carat
