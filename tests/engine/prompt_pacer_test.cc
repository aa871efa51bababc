#include "engine/prompt_pacer.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace carat {
namespace {

TEST(PromptPacer, GivesPromptsTheWholeStepWhileNothingDecodes) {
  PromptPacer pacer(2.0);
  pacer.report({1}, 0, 0.010);
  pacer.report({1}, 100, 1.010);
  EXPECT_EQ(pacer.prompt_tokens({0}, 512), 512);
  EXPECT_EQ(PromptPacer(0).prompt_tokens({3}, 500), 500) << "no limit wanted";
}

TEST(PromptPacer, ChoosesAsManyTokensAsFitTheSlowdown) {
  PromptPacer pacer(2.0);
  for (int i = 0; i < 30; ++i) pacer.report({1}, 0, 0.010);
  for (int i = 0; i < 30; ++i) pacer.report({1}, 50, 0.030);  // 0.4 ms per prompt token
  EXPECT_EQ(pacer.prompt_tokens({1}, 512), 25);               // 10 ms for them
  EXPECT_EQ(pacer.prompt_tokens({1}, 20), 20);
}

TEST(PromptPacer, StartsSmallAndNeverStops) {
  PromptPacer pacer(2.0);
  pacer.report({1}, 0, 0.001);
  EXPECT_EQ(pacer.prompt_tokens({1}, 512), 8);
  pacer.report({1}, 32, 100.0);
  EXPECT_EQ(pacer.prompt_tokens({1}, 512), 4);
}

TEST(PromptPacer, IsNotThrownOffByOneSlowStep) {
  PromptPacer pacer(2.0);
  for (int i = 0; i < 30; ++i) {
    pacer.report({1}, 0, 0.010);
    pacer.report({1}, 50, 0.030);
  }
  pacer.report({1}, 50, 30.0);
  EXPECT_GE(pacer.prompt_tokens({1}, 512), 14);
}

TEST(PromptPacer, StepsThatWereHeldUpDoNotAllowMore) {
  PromptPacer pacer(2.0);
  for (int i = 0; i < 30; ++i) pacer.report({1}, 0, 0.010);
  for (int i = 0; i < 30; ++i) pacer.report({1}, 50, 0.030);
  for (int i = 0; i < 100; ++i) pacer.report({1}, 0, i % 5 == 0 ? 1.0 : 0.010);
  EXPECT_LE(pacer.prompt_tokens({1}, 512), 32);
  EXPECT_GE(pacer.prompt_tokens({1}, 512), 25);
}

/// What a step of one sequence takes says little about a step of 16.
TEST(PromptPacer, MeasuresDecodingAnewWhenTheBatchHasChanged) {
  PromptPacer pacer(2.0);
  EXPECT_EQ(pacer.prompt_tokens({1}, 512), 0) << "nothing is known yet";
  pacer.report({1}, 0, 0.010);
  for (int i = 0; i < 30; ++i) pacer.report({1}, 10, 0.020);  // 1 ms per prompt token
  EXPECT_EQ(pacer.prompt_tokens({1}, 512), 10);
  EXPECT_EQ(pacer.prompt_tokens({16}, 512), 0);
  pacer.report({16}, 0, 0.040);
  EXPECT_EQ(pacer.prompt_tokens({16}, 512), 20) << "at most twice as many as before";
  pacer.report({16}, 20, 0.060);
  EXPECT_EQ(pacer.prompt_tokens({16}, 512), 40);
  EXPECT_EQ(pacer.prompt_tokens({4}, 512), 0);
  pacer.report({4}, 0, 0.020);
  EXPECT_EQ(pacer.prompt_tokens({4}, 512), 20);
}

/// A prompt that goes on behind a long cached beginning costs more than the one before it.
TEST(PromptPacer, MeasuresPromptTokensAnewBehindAnotherContext) {
  PromptPacer pacer(2.0);
  pacer.report({1, 0}, 0, 0.010);
  for (int i = 0; i < 30; ++i) pacer.report({1, 100}, 50, 0.020);  // 0.2 ms per token
  EXPECT_EQ(pacer.prompt_tokens({1, 200}, 512), 50);
  EXPECT_EQ(pacer.prompt_tokens({1, 20000}, 512), 8);
  pacer.report({1, 20000}, 8, 0.018);  // 1 ms
  EXPECT_EQ(pacer.prompt_tokens({1, 20000}, 512), 10);
  for (int i = 0; i < 30; ++i) pacer.report({1, 20000 + 400 * i}, 10, 0.020);
  EXPECT_EQ(pacer.prompt_tokens({1, 32000}, 512), 10) << "it follows a growing context";
  EXPECT_EQ(pacer.prompt_tokens({1, 100}, 512), 8);
}

TEST(PromptPacer, TakesNoStepForLongerThanTheBatchExplains) {
  PromptPacer pacer(2.0);
  pacer.report({1}, 0, 0.010);
  for (int i = 0; i < 30; ++i) pacer.report({1}, 10, 0.020);
  pacer.report({4}, 0, 5.0);  // held up: at most 40 ms are believed
  pacer.report({4}, 20, 0.060);
  EXPECT_LE(pacer.prompt_tokens({4}, 512), 40);
}

/// The only step without prompt tokens at this batch may be the one that the machine held up.
TEST(PromptPacer, OneDecodeStepThatWasHeldUpDoesNotLetInLongSteps) {
  PromptPacer pacer(2.0);
  pacer.report({1}, 0, 0.0010);
  pacer.report({8}, 0, 0.0050);  // truly 1.5 ms
  int in_a_row = 0, most_in_a_row = 0;
  for (int i = 0; i < 100; ++i) {
    const int tokens = pacer.prompt_tokens({8}, 504);
    const double seconds = 0.0015 + 0.0001 * tokens;
    EXPECT_LE(seconds, 0.0061) << "step " << i;
    in_a_row = seconds > 0.0047 ? in_a_row + 1 : 0;
    most_in_a_row = std::max(most_in_a_row, in_a_row);
    pacer.report({8}, tokens, seconds);
  }
  EXPECT_LE(most_in_a_row, 1);
  EXPECT_GE(pacer.prompt_tokens({8}, 504), 12);
}

/// One lucky step would otherwise be followed by one of 512 tokens.
TEST(PromptPacer, GrowsByDoublingWhilePromptTokensSeemToCostNothing) {
  PromptPacer pacer(2.0);
  pacer.report({1}, 0, 0.010);
  pacer.report({1}, 8, 0.009);
  for (const int expected : {16, 32, 64, 128, 256, 512, 512}) {
    EXPECT_EQ(pacer.prompt_tokens({1}, 512), expected);
    pacer.report({1}, expected, 0.009);
  }
}

}  // namespace
}  // namespace carat
