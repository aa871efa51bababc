// The guesses of drafters on the CUDA backend against the reference backend's, behind every kind of step.
// Without a GPU every test skips.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "cuda/cuda_runner.h"
#include "engine/kv_pages.h"
#include "engine/step_builder.h"
#include "model/drafter.h"
#include "model/gemma4_plan.h"
#include "ref/ref_runner.h"
#include "support/golden.h"
#include "support/quantized_plan.h"
#include "support/random_weights.h"

namespace carat {
namespace {

constexpr int kGuesses = 5, kSequences = 16;

RunnerOptions limits_of(const ModelPlan& plan) { return size_kv(plan.kv_groups, 1024, kSequences, 256); }

/// Empty without a GPU.
std::unique_ptr<Runner> cuda_runner(const ModelPlan& plan, const CudaOptions& options = {},
                                    KvType kv_type = KvType::automatic) {
  RunnerOptions limits = limits_of(plan);
  limits.kv_type = kv_type;
  try {
    return make_cuda_runner(plan, limits, options);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::unavailable) throw;
    return nullptr;
  }
}

/// Sequences whose last `last` tokens are one step, which returns logits of the last `wanted` of them.
/// Guesses go on from the first of these.
struct Scenario {
  const char* name;
  std::vector<int> lengths;
  int last, wanted;
};

std::vector<int32_t> some_tokens(int count, int variant) {
  std::vector<int32_t> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(2 + (i * (31 + 2 * variant) + variant) % 500);
  return tokens;
}

/// One row of guesses per sequence; asked `times` times, which may change nothing.
std::vector<std::vector<int32_t>> guesses_of(Runner& runner, const ModelPlan& plan, const Scenario& scenario,
                                             int variant, int times) {
  KvPages pages(plan.kv_groups, runner.info().limits);
  std::vector<std::unique_ptr<ScopedPages>> sequences;
  StepBuilder builder;
  const auto add = [&](std::size_t s, int past, int count) {
    const auto tokens = some_tokens(past + count, variant + static_cast<int>(s));
    EXPECT_TRUE(pages.extend(*sequences[s], past, count));
    return builder.add(std::span(tokens).last(static_cast<std::size_t>(count)), past, *sequences[s]);
  };
  constexpr int kPiece = 200;
  for (std::size_t s = 0; s < scenario.lengths.size(); ++s) {
    sequences.push_back(std::make_unique<ScopedPages>(pages));
    for (int past = 0, end = scenario.lengths[s] - scenario.last; past < end; past += kPiece) {
      builder.clear();
      add(s, past, std::min(kPiece, end - past));
      runner.submit(builder.input());
      runner.collect();
    }
  }
  builder.clear();
  std::vector<int32_t> tokens, logit_rows, past;
  for (std::size_t s = 0; s < scenario.lengths.size(); ++s) {
    const int length = scenario.lengths[s];
    const int first = add(s, length - scenario.last, scenario.last);
    for (int i = scenario.last - scenario.wanted; i < scenario.last; ++i) builder.want_logits(first + i);
    tokens.push_back(3 + static_cast<int32_t>(s) * 7);
    logit_rows.push_back(static_cast<int32_t>(s) * scenario.wanted);
    past.push_back(length - scenario.wanted + 1);
  }
  runner.submit(builder.input());
  runner.collect();
  const DraftRows rows{tokens, logit_rows, past, builder.input().page_tables};
  const std::vector<int32_t> guesses = runner.draft(rows, kGuesses);
  for (int i = 1; i < times; ++i) EXPECT_EQ(runner.draft(rows, kGuesses), guesses);
  std::vector<std::vector<int32_t>> result;
  for (auto at = guesses.begin(); at != guesses.end(); at += kGuesses) result.emplace_back(at, at + kGuesses);
  return result;
}

/// Rounding may swap two tokens that are equally likely, and what follows: most rows have to be equal.
void expect_reference(const ModelPlan& plan, Runner& runner, const Scenario& scenario) {
  SCOPED_TRACE(scenario.name);
  constexpr int kVariants = 6, kTimes = 3;  // the third time from a graph
  const auto reference = make_ref_runner(plan, limits_of(plan));
  int rows = 0, equal = 0;
  for (int variant = 0; variant < kVariants; ++variant) {
    const auto expected = guesses_of(*reference, plan, scenario, variant, 1);
    const auto guesses = guesses_of(runner, plan, scenario, variant, kTimes);
    for (std::size_t s = 0; s < expected.size(); ++s, ++rows) equal += guesses.at(s) == expected[s] ? 1 : 0;
  }
  EXPECT_GE(equal, rows * 3 / 4) << "of " << rows << " rows";
}

class CudaDrafts : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    runner_ = cuda_runner(plan_);
    if (!runner_) GTEST_SKIP() << "no CUDA device";
  }

  const ModelPlan plan_ = load_drafting_plan(GetParam());
  std::unique_ptr<Runner> runner_;
};

// One row has kernels of its own; a prompt that ends with one row ends with them; other steps keep the rows
// that need logits, or all.
TEST_P(CudaDrafts, EqualTheReferencesBehindEveryKindOfStep) {
  ASSERT_TRUE(runner_->info().drafts);
  for (const Scenario& scenario : {Scenario{"one row", {40}, 1, 1}, Scenario{"the only token", {1}, 1, 1},
                                   Scenario{"a prompt", {60}, 60, 1}, Scenario{"checked guesses", {33}, 5, 5},
                                   Scenario{"some rows of a prompt", {80}, 30, 4}}) {
    expect_reference(plan_, *runner_, scenario);
  }
}

TEST_P(CudaDrafts, OfOneRowTakeTheGeneralPathToo) {
  const auto general = cuda_runner(plan_, {.fused_single_rows = false});
  for (const Scenario& scenario : {Scenario{"one row", {40}, 1, 1}, Scenario{"long", {900}, 1, 1}})
    expect_reference(plan_, *general, scenario);
}

TEST_P(CudaDrafts, EqualTheReferencesOnOtherGpus) {
  for (const char* gpu : {"sm_80", "sm_86", "sm_120"}) {
    SCOPED_TRACE(gpu);
    const auto runner = cuda_runner(plan_, {.limits = limits_of_gpu(gpu)});
    for (const Scenario& scenario : {Scenario{"one row", {40}, 1, 1}, Scenario{"long", {900}, 1, 1},
                                     Scenario{"three", {20, 300, 17}, 1, 1}})
      expect_reference(plan_, *runner, scenario);
  }
}

TEST_P(CudaDrafts, ReadKeysAndValuesOfOneHalf) {
  const auto runner = cuda_runner(plan_, {}, KvType::f16);
  for (const Scenario& scenario : {Scenario{"one row", {40}, 1, 1}, Scenario{"three", {20, 300, 17}, 1, 1}})
    expect_reference(plan_, *runner, scenario);
}

// Keys split over the GPU, and more rows than the narrow products take.
TEST_P(CudaDrafts, EqualTheReferencesForLongContextsAndManySequences) {
  std::vector<int> lengths;
  for (int s = 0; s < kSequences; ++s) lengths.push_back(5 + 9 * s);
  for (const Scenario& scenario :
       {Scenario{"long", {900}, 1, 1}, Scenario{"three", {20, 300, 17}, 1, 1},
        Scenario{"many", lengths, 1, 1}, Scenario{"many with checked guesses", lengths, 3, 3}}) {
    expect_reference(plan_, *runner_, scenario);
  }
}

// The drafter's weights stay as they are stored, also in blocks.
TEST_P(CudaDrafts, ReadQuantisedWeights) {
  for (const WeightFormat format : {WeightFormat::int8, WeightFormat::int4}) {
    EncodedMatrices storage;
    ModelPlan plan = plan_;
    auto drafter = std::make_shared<DrafterPlan>(*plan.drafter);
    const auto encode = [&](Linear& w) {
      if (w) w = encoded(w, format, storage);
    };
    for_each_linear(drafter->model, [&](const char*, Linear& w) { encode(w); });
    for (Linear* w : {&drafter->pre, &drafter->post, &drafter->ordered.centroids, &drafter->ordered.embed})
      encode(*w);
    encode(plan.embed);
    plan.drafter = drafter;
    expect_reference(plan, *cuda_runner(plan),
                     {format == WeightFormat::int8 ? "int8" : "int4", {40, 7}, 1, 1});
  }
}

/// The plan's drafter with another width and random weights.
std::shared_ptr<const DrafterPlan> widened(const ModelPlan& target, int width, RandomWeights& weights) {
  auto drafter = std::make_shared<DrafterPlan>(*target.drafter);
  ModelPlan& model = drafter->model;
  model.d_model = width;
  drafter->pre = weights.matrix(width, 2 * target.d_model);
  drafter->post = weights.matrix(target.d_model, width);
  model.first_norm = weights.gains(width);
  for (LayerPlan& l : model.layers) {
    l.attention.q = weights.matrix(l.attention.q.rows, width);
    l.attention.o = weights.matrix(width, l.attention.o.cols);
    l.gate = weights.matrix(l.intermediate_size, width);
    l.up = weights.matrix(l.intermediate_size, width);
    l.down = weights.matrix(width, l.intermediate_size);
    for (Vec* v : {&l.post_attention, &l.pre_ffn, &l.post_ffn, &l.tail.next_norm}) *v = weights.gains(width);
  }
  OrderedHead& ordered = drafter->ordered;
  if (!ordered.centroids) {
    model.head = weights.matrix(model.vocab, width, 1.f);
    return drafter;
  }
  ordered.centroids = weights.matrix(ordered.centroids.rows, width, 1.f);
  ordered.embed = weights.matrix(model.vocab, width, 1.f);
  return drafter;
}

// Wide enough for each kernel to walk over its columns more than once, and not in whole blocks of them.
TEST_P(CudaDrafts, OfOddWidthsEqualTheReferences) {
  for (const int width : {520, 1544}) {
    RandomWeights weights;
    ModelPlan plan = plan_;
    plan.drafter = widened(plan_, width, weights);
    const auto runner = cuda_runner(plan);
    SCOPED_TRACE(width);
    for (const Scenario& scenario : {Scenario{"one row", {40}, 1, 1}, Scenario{"three", {20, 70, 17}, 1, 1}})
      expect_reference(plan, *runner, scenario);
  }
}

INSTANTIATE_TEST_SUITE_P(, CudaDrafts, testing::Values("tiny", "tiny-dense"), [](const auto& test) {
  std::string name = test.param;
  std::ranges::replace(name, '-', '_');
  return name;
});

/// Empty in a build without CUDA.
std::string refusal_of(const DrafterPlan& drafter) {
  ModelPlan plan = load_drafting_plan("tiny");
  plan.drafter = std::make_shared<DrafterPlan>(drafter);
  try {
    EXPECT_EQ(cuda_runner(plan), nullptr) << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    return error.what();
  }
  return "";
}

TEST(CudaDrafter, WhatItsKernelsCantDoIsSaidAtLoad) {
  DrafterPlan odd = *load_drafting_plan("tiny").drafter, scattered = odd;
  odd.model.layers[1].attention.q.cols = 36;
  scattered.ordered.centroids.rows = 20000;
  const std::string refusal = refusal_of(odd);
  if (refusal.empty()) GTEST_SKIP() << "this build has no CUDA backend";
  EXPECT_EQ(refusal, "the drafter: matrix q has 36 columns: the CUDA backend needs a multiple of 8");
  EXPECT_EQ(refusal_of(scattered),
            "the drafter: 20000 clusters of tokens: the CUDA backend takes up to 16384");
}

}  // namespace
}  // namespace carat
