#include "engine/host_runner.h"

#include <gtest/gtest.h>

#include <vector>

#include "engine/scripted_runner.h"
#include "engine/step_builder.h"

namespace carat {
namespace {

constexpr int kVocab = 37;
constexpr std::array<KvGroup, kKvGroups> kGroups{KvGroup{1, 1, 1, 0}, KvGroup{2, 1, 1, 8}};

// The second step is submitted before anybody has seen the tokens of the first.
TEST(HostRunner, StepsCanReferToTokensStillInFlight) {
  const RunnerOptions limits = size_kv(kGroups, 20, 2, 16);
  ScriptedRunner runner(kGroups, limits, kVocab);
  KvPages pages(kGroups, limits);
  ScopedPages a(pages), b(pages);
  const std::vector<int32_t> prompt_a{1, 2, 3}, prompt_b{4, 5};
  const SamplingParams greedy;
  ASSERT_TRUE(pages.extend(a, 0, 4));
  ASSERT_TRUE(pages.extend(b, 0, 3));

  StepBuilder first;
  first.add(prompt_a, 0, a);
  first.add(prompt_b, 0, b);
  first.want_token(2, {&greedy, 3, {}, {}});
  first.want_token(4, {&greedy, 2, {}, {}});
  runner.submit(first.input());
  const std::vector<int32_t> drawn_for_b{~1}, drawn_for_a{~0};
  StepBuilder second;  // in another order
  second.add(drawn_for_b, 2, b);
  second.add(drawn_for_a, 3, a);
  second.want_logits(0);
  second.want_logits(1);
  runner.submit(second.input());

  const StepResult tokens = runner.collect(), logits = runner.collect();
  ASSERT_EQ(tokens.tokens.size(), 2u);
  EXPECT_TRUE(tokens.logits.empty());
  EXPECT_TRUE(logits.tokens.empty());
  ASSERT_EQ(logits.logits.size(), 2u * kVocab);
  const auto expected = [&](const std::vector<int32_t>& prompt, int32_t token) {
    ScriptedSequence sequence(kGroups);
    for (const int32_t id : prompt) sequence.push(id, kVocab);
    return sequence.push(token, kVocab);
  };
  const auto row = [&](int r) {
    const std::span<const float> part = logits.logits.subspan(r * kVocab, kVocab);
    return std::vector<float>(part.begin(), part.end());
  };
  EXPECT_EQ(row(0), expected(prompt_b, tokens.tokens[1]));
  EXPECT_EQ(row(1), expected(prompt_a, tokens.tokens[0]));
}

}  // namespace
}  // namespace carat
