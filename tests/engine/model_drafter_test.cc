// Drafter models on all backends, against what transformers' drafter guesses.
#include "engine/model_drafter.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "cpu/cpu_runner.h"
#include "cuda/cuda_runner.h"
#include "engine/engine.h"
#include "engine/step_builder.h"
#include "ref/ref_runner.h"
#include "support/golden.h"

namespace carat {
namespace {

using Case = std::pair<const char*, const char*>;  // checkpoint, device

class ModelDrafts : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    try {
      make_runner(plan_);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::unavailable) throw;
      GTEST_SKIP() << error.what();
    }
  }

  std::unique_ptr<Runner> make_runner(const ModelPlan& plan) const {
    const RunnerOptions limits = size_kv(plan.kv_groups, 160, 8, 256);
    const std::string device = GetParam().second;
    if (device == "ref") return make_ref_runner(plan, limits);
    if (device == "cuda") return make_cuda_runner(plan, limits, {});
    CpuOptions options;
    options.threads = 3;
    return make_cpu_runner(plan, limits, options);
  }

  const ModelPlan plan_ = load_drafting_plan(GetParam().first);
  const std::vector<GoldenDrafts> golden_ = load_golden_drafts(GetParam().first);
};

/// All prompts in one step, then guesses for all of them at once and for each alone.
TEST_P(ModelDrafts, AreThoseOfTransformersAloneAndTogether) {
  const auto runner = make_runner(plan_);
  ASSERT_TRUE(runner->info().drafts);
  KvPages pages(plan_.kv_groups, runner->info().limits);
  std::vector<std::unique_ptr<ScopedPages>> sequences;
  const SamplingParams greedy;
  StepBuilder builder;
  for (const GoldenDrafts& prompt : golden_) {
    const int count = static_cast<int>(prompt.ids.size());
    sequences.push_back(std::make_unique<ScopedPages>(pages));
    ASSERT_TRUE(pages.extend(*sequences.back(), 0, count));
    const int first = builder.add(prompt.ids, 0, *sequences.back());
    builder.want_token(first + count - 1, {&greedy, count, {}, {}});
  }
  runner->submit(builder.input());
  const std::vector<int32_t> tokens = runner->collect().tokens;
  // What the window has left behind is gone, and nobody misses it.
  std::vector<int32_t> past, rows;
  for (std::size_t i = 0; i < golden_.size(); ++i) {
    EXPECT_EQ(tokens[i], golden_[i].token);
    past.push_back(static_cast<int32_t>(golden_[i].ids.size()));
    rows.push_back(static_cast<int32_t>(i));
    pages.release_behind_window(*sequences[i], past.back());
  }
  const auto page_tables = builder.input().page_tables;
  const std::vector<int32_t> together = runner->draft({tokens, rows, past, page_tables}, 4);
  for (std::size_t i = 0; i < golden_.size(); ++i) {
    SCOPED_TRACE(golden_[i].name);
    const std::span all(together);
    const auto mine = all.subspan(4 * i, 4);
    EXPECT_EQ(std::vector<int32_t>(mine.begin(), mine.end()), golden_[i].drafts);
    std::array<PageTable, kKvGroups> own = page_tables;
    for (PageTable& table : own)
      table.pages = table.pages.subspan(i * static_cast<std::size_t>(table.stride));
    const std::span one_token = std::span(tokens).subspan(i, 1);
    EXPECT_EQ(
        runner->draft({one_token, std::span(rows).subspan(i, 1), std::span(past).subspan(i, 1), own}, 4),
        golden_[i].drafts);
  }
}

TEST_P(ModelDrafts, LeaveTheGreedyTextOfAssistedGeneration) {
  Engine engine(make_runner(plan_), nullptr, {.draft = DraftMethod::model, .draft_tokens = 4});
  std::vector<Request> requests;
  for (const GoldenDrafts& prompt : golden_)
    requests.push_back({.prompt = prompt.ids, .max_tokens = static_cast<int>(prompt.greedy.size())});
  const std::vector<Reply> replies = engine.generate(requests, {});
  for (std::size_t i = 0; i < golden_.size(); ++i) EXPECT_EQ(replies[i].tokens, golden_[i].greedy);
  EXPECT_GT(engine.stats().drafted_tokens, 20);
}

TEST(ModelDrafter, AnEngineWithoutOneRefusesToDraftWithIt) {
  const ModelPlan plan = load_test_plan("tiny");
  const RunnerOptions limits = size_kv(plan.kv_groups, 64, 1, 64);
  try {
    Engine(make_ref_runner(plan, limits), nullptr, {.draft = DraftMethod::model});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "the device ref has no drafter model; draft with ngram or suffix, or not at all");
  }
}

INSTANTIATE_TEST_SUITE_P(, ModelDrafts,
                         testing::Values(Case{"tiny", "ref"}, Case{"tiny", "cpu"}, Case{"tiny", "cuda"},
                                         Case{"tiny-dense", "ref"}, Case{"tiny-dense", "cpu"},
                                         Case{"tiny-dense", "cuda"}),
                         [](const auto& test) {
                           std::string name = std::string(test.param.first) + test.param.second;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace carat
