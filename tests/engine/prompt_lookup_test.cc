#include "engine/prompt_lookup.h"

#include <gtest/gtest.h>

#include <vector>

namespace carat {
namespace {

using Tokens = std::vector<int32_t>;

Tokens draft(const Tokens& text, int most) { return PromptLookup().draft(text, most); }

TEST(PromptLookup, ContinuesAnEarlierOccurrenceOfTheLastTokens) {
  EXPECT_EQ(draft({1, 2, 3, 4, 5, 1, 2}, 3), (Tokens{3, 4, 5}));
  EXPECT_EQ(draft({1, 2, 3, 4, 5, 1, 2}, 1), (Tokens{3}));
}

TEST(PromptLookup, TakesTheLongestMatchAndOfThoseTheNewest) {
  EXPECT_EQ(draft({1, 2, 3, 7, 2, 3, 8, 1, 2, 3}, 1), (Tokens{7}));
  EXPECT_EQ(draft({2, 3, 7, 2, 3, 8, 2, 3}, 1), (Tokens{8}));
}

TEST(PromptLookup, TakesATextThatRunsIntoItsEndToRepeatItself) {
  EXPECT_EQ(draft({5, 6, 5, 6, 5, 6}, 5), (Tokens{5, 6, 5, 6, 5}));
  EXPECT_EQ(draft({7, 7, 7}, 4), (Tokens{7, 7, 7, 7}));
}

TEST(PromptLookup, HasNothingToSayAboutANewText) {
  for (const Tokens& text : {Tokens{1}, Tokens{1, 1}, Tokens{1, 2, 3, 4}, Tokens{1, 2, 9, 3, 2}}) {
    EXPECT_EQ(draft(text, 4), Tokens{});
  }
}

}  // namespace
}  // namespace carat
