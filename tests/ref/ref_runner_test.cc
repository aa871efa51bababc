// The reference backend against transformers, and its own invariances: chunking, narrowing, batching.
#include "ref/ref_runner.h"

#include <gtest/gtest.h>

#include "engine/kv_pages.h"
#include "engine/score.h"
#include "engine/step_builder.h"
#include "support/golden.h"

namespace carat {
namespace {

class RefRunnerOn : public testing::TestWithParam<const char*> {
 protected:
  const ModelPlan plan_ = load_test_plan(GetParam());
  std::unique_ptr<Runner> make_runner(int max_step_tokens = 256) const {
    return make_ref_runner(plan_, size_kv(plan_.kv_groups, 2304, 2, max_step_tokens));
  }
};

TEST_P(RefRunnerOn, EqualsTransformers) {
  const auto runner = make_runner();
  for (const GoldenPrompt& prompt : load_golden(GetParam())) {
    SCOPED_TRACE(prompt.name);
    const GoldenComparison result = compare(*runner, plan_, prompt, 256, 5e-4f);
    EXPECT_LE(result.max_difference, 5e-4f);
    EXPECT_EQ(result.argmax_mismatches, 0);
    EXPECT_EQ(result.greedy_agree, prompt.greedy.size());
  }
}

// Narrowing may not change a logit: rows that need none are dropped only after they have written their K/V.
TEST_P(RefRunnerOn, NarrowedPromptGivesTheLogitsOfTheFullComputation) {
  const auto runner = make_runner();
  std::vector<int32_t> tokens;
  for (int i = 0; i < 61; ++i) tokens.push_back(2 + i * 37 % 500);
  KvPages pages(plan_.kv_groups, runner->info().limits);
  std::vector<float> full;
  score(*runner, pages, tokens, 64,
        [&](int, std::span<const float> row) { full.assign(row.begin(), row.end()); });

  SequencePages sequence;
  ASSERT_TRUE(pages.extend(sequence, 0, 61));
  StepBuilder builder;
  builder.add(tokens, 0, sequence);
  builder.want_logits(60);
  runner->submit(builder.input());
  const StepResult narrowed = runner->collect();
  ASSERT_EQ(narrowed.logits.size(), full.size());
  EXPECT_EQ(std::vector<float>(narrowed.logits.begin(), narrowed.logits.end()), full);
}

TEST_P(RefRunnerOn, ChunkedPromptContinuesAsTheWholePrompt) {
  const auto runner = make_runner();
  std::vector<int32_t> tokens;
  for (int i = 0; i < 150; ++i) tokens.push_back(2 + i * 53 % 500);
  const auto whole = continue_greedily(*runner, plan_, tokens, 8, 150);
  for (int chunk : {1, 3, 15, 16, 17, 32}) {
    EXPECT_EQ(continue_greedily(*runner, plan_, tokens, 8, chunk), whole) << "chunk " << chunk;
  }
}

// Two sequences in one ragged step, cut around the window and the page edge, give each row the bits it has
// alone.
TEST_P(RefRunnerOn, RaggedStepEqualsSequencesAlone) {
  const auto runner = make_runner();
  for (int length : {1, 15, 16, 17, 31, 32, 33, 48}) {
    std::vector<std::vector<int32_t>> prompts(2);
    for (int i = 0; i < length; ++i) prompts[0].push_back(2 + i * 31 % 500);
    for (int i = 0; i < 20; ++i) prompts[1].push_back(2 + i * 17 % 500);
    std::vector<float> alone;
    KvPages pages(plan_.kv_groups, runner->info().limits);
    for (const auto& prompt : prompts) {
      score(*runner, pages, prompt, 64,
            [&](int, std::span<const float> row) { alone.insert(alone.end(), row.begin(), row.end()); });
    }
    std::array<SequencePages, 2> sequences;
    ASSERT_TRUE(pages.extend(sequences[0], 0, length) && pages.extend(sequences[1], 0, 20));
    StepBuilder builder;
    for (int i : {0, 1}) builder.add(prompts[i], 0, sequences[i]);
    for (int row = 0; row < length + 20; ++row) builder.want_logits(row);
    runner->submit(builder.input());
    const StepResult together = runner->collect();
    EXPECT_EQ(std::vector<float>(together.logits.begin(), together.logits.end()), alone)
        << "length " << length;
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, RefRunnerOn, testing::Values("tiny", "tiny-dense", "tiny-moe", "demo"),
                         [](const auto& variant) {
                           std::string name = variant.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace carat
