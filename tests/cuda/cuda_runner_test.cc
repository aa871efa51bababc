// The CUDA backend against transformers' results and against the reference backend. Without a GPU every test
// skips.
#include "cuda/cuda_runner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "engine/divergence.h"
#include "engine/kv_pages.h"
#include "engine/score.h"
#include "engine/step_builder.h"
#include "model/gemma4_plan.h"
#include "ref/ref_runner.h"
#include "support/golden.h"
#include "support/largest_difference.h"

namespace carat {
namespace {

// Single rows compute with float32 activations and 22-bit keys and values, other steps with 16 and 11 bits.
constexpr float kSingleRow = 5e-3f, kAnyStep = 1e-1f;

std::unique_ptr<Runner> runner_or_null(const ModelPlan& plan, const RunnerOptions& limits,
                                       const CudaOptions& options = {}) {
  try {
    return make_cuda_runner(plan, limits, options);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::unavailable) throw;
    return nullptr;
  }
}

struct Case {
  const char* model;
  KvType kv_type = KvType::automatic;
  bool graph = false;    // single rows as a graph of kernels, not in a single one
  const char* gpu = "";  // as one of this kind, see limits_of_gpu()

  std::string name() const {
    std::string name = model;
    std::ranges::replace(name, '-', '_');
    const char* kv = kv_type == KvType::f16 ? "_f16" : kv_type == KvType::int8 ? "_int8" : "";
    return name + (graph ? "_graph" : "") + kv + (*gpu ? "_as_" : "") + gpu;
  }
};

class CudaRunnerOn : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override;

  /// Models with experts have no kernels of their own for single rows, nor have GPUs before Hopper. With K
  /// and V in f16 single rows read them with 11 bits, as all other steps do.
  float tolerance(int chunk) const {
    constexpr int kHopper = 90;
    const bool single = chunk == 1 && !plan_.layers[0].moe && cuda_capability(options()) >= kHopper;
    if (!single) return any_step();
    return GetParam().kv_type == KvType::automatic ? kSingleRow : kAnyStep;
  }
  /// Activations of 16 bits give some numbers of K and V another byte than the reference's, and then they are
  /// off by a whole step, where int8 itself is off by half a step at most.
  float any_step() const { return kAnyStep + 2 * int8_cost_; }
  RunnerOptions limits() const {
    RunnerOptions limits = size_kv(plan_.kv_groups, 2304, 8, 256);
    limits.kv_type = GetParam().kv_type;
    return limits;
  }
  CudaOptions options(bool fused_single_rows = true) const {
    return {.fused_single_rows = fused_single_rows,
            .persistent = !GetParam().graph,
            .limits = limits_of_gpu(GetParam().gpu)};
  }
  /// The reference keeps K and V in float32, or as int8 numbers.
  std::unique_ptr<Runner> reference() const {
    RunnerOptions options = limits();
    if (options.kv_type == KvType::f16) options.kv_type = KvType::automatic;
    return make_ref_runner(plan_, options);
  }

  ModelPlan plan_;
  std::unique_ptr<Runner> runner_;
  float int8_cost_ = 0.f;  // what the logits are off by when K and V are int8
};

std::vector<int32_t> some_tokens(int count, int step = 37) {
  std::vector<int32_t> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(2 + i * step % 500);
  return tokens;
}

std::vector<float> all_logits(Runner& runner, const ModelPlan& plan, std::span<const int32_t> tokens,
                              int chunk) {
  KvPages pages(plan.kv_groups, runner.info().limits);
  std::vector<float> logits;
  score(runner, pages, tokens, chunk,
        [&](int, std::span<const float> row) { logits.insert(logits.end(), row.begin(), row.end()); });
  return logits;
}

void CudaRunnerOn::SetUp() {
  plan_ = load_test_plan(GetParam().model);
  runner_ = runner_or_null(plan_, limits(), options());
  if (!runner_) GTEST_SKIP() << "no GPU";
  if (GetParam().kv_type != KvType::int8) return;
  const std::vector<int32_t> tokens = some_tokens(150);
  const auto exact = make_ref_runner(plan_, size_kv(plan_.kv_groups, 256, 1, 256));
  int8_cost_ = largest_difference(all_logits(*reference(), plan_, tokens, 150),
                                  all_logits(*exact, plan_, tokens, 150));
}

/// Of a prompt in steps of 256 tokens, the last `single` of which have steps of their own.
std::vector<float> last_logits(Runner& runner, const ModelPlan& plan, std::span<const int32_t> tokens,
                               int single = 0) {
  KvPages pages(plan.kv_groups, runner.info().limits);
  ScopedPages sequence(pages);
  StepBuilder builder;
  const int total = static_cast<int>(tokens.size()), most = runner.info().limits.max_step_tokens;
  for (int past = 0, count; past < total; past += count) {
    count = past < total - single ? std::min(most, total - single - past) : 1;
    EXPECT_TRUE(pages.extend(sequence, past, count));
    builder.clear();
    const int row = builder.add(
        tokens.subspan(static_cast<std::size_t>(past), static_cast<std::size_t>(count)), past, sequence);
    if (past + count == total) builder.want_logits(row + count - 1);
    runner.submit(builder.input());
    const StepResult result = runner.collect();
    if (past + count == total) return {result.logits.begin(), result.logits.end()};
    pages.release_behind_window(sequence, past + count);
  }
  return {};
}

/// The first `most` tokens of the longest one.
std::vector<int32_t> longest_prompt(const std::string& model, std::size_t most) {
  std::vector<int32_t> longest;
  for (const GoldenPrompt& prompt : load_golden(model))
    if (prompt.ids.size() > longest.size()) longest = prompt.ids;
  longest.resize(std::min(longest.size(), most));
  return longest;
}

class CudaRunnerByItself : public CudaRunnerOn {};  // with its own choice of K and V

/// Of the predictions in `got` from those in `expected`, both [rows, vocab].
double mean_divergence(std::span<const float> expected, std::span<const float> got, int vocab) {
  const auto width = static_cast<std::size_t>(vocab);
  double sum = 0;
  for (std::size_t at = 0; at < expected.size(); at += width)
    sum += kl_divergence(expected.subspan(at, width), got.subspan(at, width));
  return sum / (static_cast<double>(expected.size()) / vocab);
}

TEST_P(CudaRunnerByItself, EqualsTransformersRowByRow) {
  for (const GoldenPrompt& prompt : load_golden(GetParam().model)) {
    SCOPED_TRACE(prompt.name);
    if (prompt.ids.size() > 700) continue;  // one step per token
    const GoldenComparison result = compare(*runner_, plan_, prompt, 1, tolerance(1));
    EXPECT_LE(result.max_difference, tolerance(1));
    EXPECT_EQ(result.argmax_mismatches, 0);
    EXPECT_EQ(result.greedy_agree, prompt.greedy.size());
  }
}

TEST_P(CudaRunnerByItself, EqualsTransformersInChunks) {
  for (const GoldenPrompt& prompt : load_golden(GetParam().model)) {
    for (int chunk : {7, 33, 64, 256}) {
      SCOPED_TRACE(prompt.name + ", chunk " + std::to_string(chunk));
      const GoldenComparison result = compare(*runner_, plan_, prompt, chunk, tolerance(chunk));
      EXPECT_LE(result.max_difference, tolerance(chunk));
      EXPECT_EQ(result.argmax_mismatches, 0);
    }
  }
}

// Every count of rows has its own kernels: one row, up to 8, 16, 32, 64 and more.
TEST_P(CudaRunnerOn, EveryStepSizeEqualsTheReference) {
  const auto reference = this->reference();
  const std::vector<int32_t> tokens = some_tokens(150);
  const std::vector<float> expected = all_logits(*reference, plan_, tokens, 150);
  for (int chunk : {1, 2, 8, 9, 16, 17, 32, 40, 64, 65, 128, 150}) {
    EXPECT_LE(largest_difference(all_logits(*runner_, plan_, tokens, chunk), expected), tolerance(chunk))
        << "chunk " << chunk;
  }
}

// A step of one row has kernels of its own, which start before their predecessors end.
TEST_P(CudaRunnerOn, SingleRowsEqualTheGeneralPath) {
  const auto general = make_cuda_runner(plan_, limits(), options(false));
  const std::vector<int32_t> tokens = some_tokens(600);  // past the short contexts
  EXPECT_LE(
      largest_difference(all_logits(*runner_, plan_, tokens, 1), all_logits(*general, plan_, tokens, 1)),
      any_step());
}

// Single rows split long contexts over the GPU; at the longer one every part has several blocks of keys.
TEST_P(CudaRunnerOn, LongContextsEqualTheGeneralPath) {
  RunnerOptions limits = size_kv(plan_.kv_groups, 8448, 1, 256);
  limits.kv_type = GetParam().kv_type;
  const auto single = make_cuda_runner(plan_, limits, options()),
             general = make_cuda_runner(plan_, limits, options(false));
  for (int count : {2055, 8200}) {
    const std::vector<int32_t> tokens = some_tokens(count);
    EXPECT_LE(
        largest_difference(last_logits(*single, plan_, tokens, 9), last_logits(*general, plan_, tokens, 9)),
        any_step())
        << count << " tokens";
  }
}

// A prompt ends with the kernels for single rows; past position 512 they split the keys over the GPU.
TEST_P(CudaRunnerOn, APromptsLastRowEqualsTheReference) {
  const auto reference = this->reference();
  for (int count : {2, 9, 64, 65, 200, 512, 513, 700}) {
    const std::vector<int32_t> tokens = some_tokens(count);
    const std::vector<float> expected = last_logits(*reference, plan_, tokens);
    EXPECT_LE(largest_difference(last_logits(*runner_, plan_, tokens), expected), any_step())
        << count << " tokens";
  }
}

TEST_P(CudaRunnerOn, TwoRunsGiveTheSameBits) {
  const std::vector<int32_t> tokens = some_tokens(120);
  for (int chunk : {1, 5, 120}) {
    EXPECT_EQ(all_logits(*runner_, plan_, tokens, chunk), all_logits(*runner_, plan_, tokens, chunk))
        << "chunk " << chunk;
  }
}

// Prompts that start, prompts that go on and decode rows in one step, each as the reference computes it.
TEST_P(CudaRunnerOn, MixedStepEqualsTheReference) {
  const auto reference = this->reference();
  struct Part {
    int past, count;
  };
  const std::vector<Part> parts{{0, 40}, {33, 1}, {50, 23}, {16, 1}, {0, 1}, {61, 3}};
  std::vector<std::vector<float>> results;
  for (Runner* runner : {reference.get(), runner_.get()}) {
    KvPages pages(plan_.kv_groups, runner->info().limits);
    std::vector<SequencePages> sequences(parts.size());
    StepBuilder builder;
    for (const bool prefix : {true, false}) {
      builder.clear();
      for (std::size_t i = 0; i < parts.size(); ++i) {
        const std::vector<int32_t> tokens =
            some_tokens(parts[i].past + parts[i].count, 31 + 2 * static_cast<int>(i));
        const int first = prefix ? 0 : parts[i].past, count = prefix ? parts[i].past : parts[i].count;
        if (count == 0) continue;
        ASSERT_TRUE(pages.extend(sequences[i], first, count));
        const int row = builder.add(std::span(tokens).subspan(first, count), first, sequences[i]);
        for (int r = 0; r < count; r += prefix ? count : 2) builder.want_logits(row + r);
      }
      runner->submit(builder.input());
      const StepResult result = runner->collect();
      if (!prefix) results.emplace_back(result.logits.begin(), result.logits.end());
    }
  }
  EXPECT_LE(largest_difference(results.at(0), results.at(1)), any_step());
}

// One token of each sequence: attention works on raw q, k and v, in one block of keys, in several, and split.
TEST_P(CudaRunnerOn, DecodingManySequencesEqualsTheReference) {
  const auto reference = this->reference();
  const std::vector<int> lengths{0, 15, 16, 63, 64, 130, 128, 300};
  constexpr int kSteps = 3;
  std::vector<std::vector<float>> results;
  for (Runner* runner : {reference.get(), runner_.get()}) {
    KvPages pages(plan_.kv_groups, runner->info().limits);
    std::vector<SequencePages> sequences(lengths.size());
    StepBuilder builder;
    const auto add = [&](std::size_t s, int past, int count) {
      const std::vector<int32_t> tokens = some_tokens(past + count, 31 + 2 * static_cast<int>(s));
      ASSERT_TRUE(pages.extend(sequences[s], past, count));
      builder.want_logits(
          builder.add(std::span(tokens).last(static_cast<std::size_t>(count)), past, sequences[s]) + count -
          1);
    };
    for (std::size_t s = 0; s < lengths.size(); ++s) {
      for (int past = 0; past < lengths[s]; past += 200) {
        builder.clear();
        add(s, past, std::min(200, lengths[s] - past));
        runner->submit(builder.input());
        runner->collect();
      }
    }
    for (int step = 0; step < kSteps; ++step) {
      builder.clear();
      for (std::size_t s = 0; s < lengths.size(); ++s) add(s, lengths[s] + step, 1);
      runner->submit(builder.input());
      const StepResult result = runner->collect();
      results.emplace_back(result.logits.begin(), result.logits.end());
    }
  }
  // With experts a rounding difference may choose another one, which changes that row.
  const std::size_t vocab = static_cast<std::size_t>(plan_.vocab), rows = kSteps * lengths.size();
  std::size_t close = 0;
  for (std::size_t r = 0; r < rows; ++r) {
    const std::size_t step = r / lengths.size(), at = r % lengths.size() * vocab;
    const auto row = [&](const std::vector<float>& logits) { return std::span(logits).subspan(at, vocab); };
    close += largest_difference(row(results.at(kSteps + step)), row(results.at(step))) <= any_step();
  }
  EXPECT_GE(close, plan_.layers[0].moe ? rows * 3 / 4 : rows);
}

/// Twelve tokens; with `pipelined` the next step starts from tokens that the host has not seen.
std::vector<int32_t> continue_with(Runner& runner, const ModelPlan& plan, const SamplingParams& params,
                                   bool pipelined) {
  const std::vector<int32_t> prompt = some_tokens(20);
  KvPages pages(plan.kv_groups, runner.info().limits);
  SequencePages sequence;
  EXPECT_TRUE(pages.extend(sequence, 0, 40));
  std::vector<int32_t> drawn;
  std::array<StepBuilder, 2> builders;
  int32_t previous = ~0;
  for (int i = 0; i < 12; ++i) {
    StepBuilder& builder = builders[static_cast<std::size_t>(i % 2)];
    builder.clear();
    const int past = i == 0 ? 0 : 19 + i;
    const int row =
        i == 0 ? builder.add(prompt, 0, sequence) + 19 : builder.add({&previous, 1}, past, sequence);
    builder.want_token(row, {&params, past + 1, {}, {}});
    runner.submit(builder.input());
    if (pipelined && i == 0) continue;
    drawn.push_back(runner.collect().tokens.at(0));
    if (!pipelined) previous = drawn.back();
  }
  if (pipelined) drawn.push_back(runner.collect().tokens.at(0));
  return drawn;
}

TEST_P(CudaRunnerOn, PipelinedStepsDrawTheSameTokens) {
  const SamplingParams greedy, warm{.temperature = 1.f, .top_k = 20, .seed = 3};
  EXPECT_EQ(continue_with(*runner_, plan_, greedy, true),
            continue_greedily(*runner_, plan_, some_tokens(20), 12, 20));
  EXPECT_EQ(continue_with(*runner_, plan_, warm, true), continue_with(*runner_, plan_, warm, false));
}

TEST_P(CudaRunnerOn, TimingPhasesChangesNoResult) {
  const auto runner = make_cuda_runner(plan_, limits(), options());
  const std::vector<int32_t> tokens = some_tokens(30);
  const std::vector<float> expected = all_logits(*runner, plan_, tokens, 1);
  runner->time_phases(true);
  EXPECT_EQ(all_logits(*runner, plan_, tokens, 1), expected);
  StepTimes times = runner->phase_times();
  EXPECT_EQ(times.decoding.steps, 30);
  EXPECT_EQ(times.prompts.steps, 0);
  for (const Phase phase : {Phase::qkv, Phase::attention, Phase::output, Phase::gate_up, Phase::down}) {
    EXPECT_EQ(times.decoding[phase].times, 30 * std::ssize(plan_.layers)) << phase_name(phase);
    EXPECT_GT(times.decoding[phase].seconds, 0) << phase_name(phase);
    EXPECT_LT(times.decoding[phase].waiting_seconds, times.decoding[phase].seconds) << phase_name(phase);
  }
  runner->time_phases(false);
  EXPECT_EQ(all_logits(*runner, plan_, tokens, 1), expected);
  EXPECT_EQ(runner->phase_times().decoding.steps, 0);
}

// Whatever draws a row, the token is the one that the host draws from the same logits.
TEST_P(CudaRunnerOn, EveryKindOfRowIsDrawnAsTheHostDrawsIt) {
  const SamplingParams greedy, warm{.temperature = 1.f, .top_k = 64, .top_p = 0.95f, .seed = 4},
      penalised{.temperature = 0.8f, .repetition_penalty = 1.3f, .frequency_penalty = 0.5f};
  const std::vector<int32_t> prompt = some_tokens(20), suppressed{3, 4, 5};
  const std::vector<uint32_t> mask(static_cast<std::size_t>(plan_.vocab) / 32 + 1, 0x0f0f0f0fu);
  const std::vector<RowSampling> rows{{&greedy, 20, prompt, suppressed},
                                      {&warm, 20, prompt, {}},
                                      {&penalised, 20, prompt, {}, 12},
                                      {&warm, 21, prompt, {}, 0, mask},
                                      {&greedy, 20, prompt, {}}};
  for (const bool alone : {false, true}) {
    for (std::size_t first = 0; first < rows.size(); first += alone ? 1 : rows.size()) {
      KvPages pages(plan_.kv_groups, runner_->info().limits);
      std::vector<SequencePages> sequences(rows.size());
      for (int repeat = 0; repeat < 3; ++repeat) {  // the third time from a graph
        StepBuilder builder;
        const std::size_t end = alone ? first + 1 : rows.size();
        for (std::size_t r = first; r < end; ++r) {
          const int past = repeat == 0 ? 0 : 19, count = 20 - past;
          ASSERT_TRUE(pages.extend(sequences[r], past, count));
          const auto tokens = std::span(prompt).last(static_cast<std::size_t>(count));
          builder.want_token(builder.add(tokens, past, sequences[r]) + count - 1, rows[r]);
        }
        builder.return_logits();
        runner_->submit(builder.input());
        const StepResult result = runner_->collect();
        std::vector<float> logits(result.logits.begin(), result.logits.end());
        const auto expected = draw_rows(logits, plan_.vocab, std::span(rows).subspan(first, end - first));
        EXPECT_EQ(result.tokens, expected) << "from row " << first << ", repeat " << repeat;
      }
    }
  }
}

TEST_P(CudaRunnerOn, SuppressedTokensAreNeverDrawn) {
  const std::vector<int32_t> prompt = some_tokens(10);
  KvPages pages(plan_.kv_groups, runner_->info().limits);
  SequencePages sequence;
  ASSERT_TRUE(pages.extend(sequence, 0, 12));
  SamplingParams greedy;
  std::vector<int32_t> suppressed;
  for (int i = 0; i < 3; ++i) {
    StepBuilder builder;
    const int row = builder.add(prompt, 0, sequence) + 9;
    builder.want_token(row, {&greedy, 10, {}, suppressed});
    runner_->submit(builder.input());
    const int32_t token = runner_->collect().tokens.at(0);
    EXPECT_EQ(std::ranges::count(suppressed, token), 0);
    suppressed.push_back(token);
  }
}

// Placeholders of images and sound, alone in a step and among others.
TEST_P(CudaRunnerOn, PlaceholdersReadThePaddingRow) {
  std::vector<int32_t> tokens = some_tokens(20);
  std::vector<int32_t> padded = tokens;
  ModelPlan plan = load_test_plan(GetParam().model);
  plan.soft_tokens = {7, tokens[5], tokens[12]};
  plan.pad_token = 3;
  padded[5] = padded[12] = plan.pad_token;
  const auto soft = make_cuda_runner(plan, limits(), options());
  for (int chunk : {1, 20})
    EXPECT_EQ(all_logits(*soft, plan, tokens, chunk), all_logits(*runner_, plan_, padded, chunk)) << chunk;
}

TEST_P(CudaRunnerOn, CopiedPagesHoldTheSameKeysAndValues) {
  const std::vector<int32_t> tokens = some_tokens(33);
  const RunnerOptions options = limits();
  const auto last_logits = [&](bool copied) {
    std::array<int32_t, 2> table{0, 1};
    std::array<int32_t, 2> moved{2, 3};
    const Segment prompt{0, 32, 0, 0}, next{0, 1, 32, 0};
    const int32_t row = 0;
    StepInput step{.tokens = std::span(tokens).first(32),
                   .segments = {&prompt, 1},
                   .page_tables = {},
                   .logit_rows = {},
                   .sampling = {}};
    for (PageTable& t : step.page_tables) t = {table, 2};
    runner_->submit(step);
    runner_->collect();
    if (copied) {
      const std::array<PageCopy, 4> copies{{{0, 0, 2}, {0, 1, 3}, {1, 0, 2}, {1, 1, 3}}};
      runner_->copy_pages(copies);
      for (PageTable& t : step.page_tables) t = {moved, 2};
    }
    step.tokens = std::span(tokens).last(1);
    step.segments = {&next, 1};
    step.logit_rows = {&row, 1};
    step.return_logits = true;
    runner_->submit(step);
    const StepResult result = runner_->collect();
    return std::vector<float>(result.logits.begin(), result.logits.end());
  };
  ASSERT_GE(options.pages[kFullGroup], 4);
  ASSERT_GE(options.pages[kSlidingGroup], 4);
  EXPECT_EQ(last_logits(false), last_logits(true));
}

std::string name_of(const testing::TestParamInfo<Case>& test) { return test.param.name(); }
Case graph_of(const char* model, const char* gpu = "") { return {model, KvType::automatic, true, gpu}; }
Case f16(const char* model, bool graph = false) { return {model, KvType::f16, graph}; }
Case as(const char* gpu, const char* model, KvType kv = KvType::automatic) { return {model, kv, false, gpu}; }

INSTANTIATE_TEST_SUITE_P(Models, CudaRunnerByItself,
                         testing::Values(Case{"tiny"}, Case{"tiny-dense"}, Case{"tiny-moe"}, Case{"demo"},
                                         graph_of("tiny"), graph_of("tiny-dense"), as("sm_80", "tiny"),
                                         as("sm_86", "demo"), graph_of("tiny", "sm_120")),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Models, CudaRunnerOn,
                         testing::Values(Case{"tiny"}, Case{"tiny-dense"}, Case{"tiny-moe"}, Case{"demo"},
                                         graph_of("tiny"), graph_of("tiny-dense"), f16("tiny"),
                                         f16("tiny-dense"), f16("tiny-moe"), f16("demo"), f16("tiny", true),
                                         Case{"tiny", KvType::int8}, Case{"tiny-dense", KvType::int8},
                                         as("sm_80", "tiny-dense"), as("sm_86", "tiny"),
                                         as("sm_86", "tiny-moe", KvType::f16),
                                         as("sm_86", "tiny", KvType::int8), graph_of("tiny", "sm_120")),
                         name_of);

// The divergence is about half the variance of what the logits are off by: up to 1e-2 with K, V and, in steps
// of many rows, q in f16, and up to 5e-2 with K and V in int8.
TEST(CudaRunner, CoarserKeysAndValuesHardlyChangePredictions) {
  const ModelPlan plan = load_test_plan("demo");
  RunnerOptions limits = size_kv(plan.kv_groups, 512, 1, 256);
  const std::vector<int32_t> text = longest_prompt("demo", 200);
  if (!runner_or_null(plan, limits)) GTEST_SKIP() << "no GPU";
  const std::vector<float> expected = all_logits(*make_ref_runner(plan, limits), plan, text, 200);
  for (const KvType type : {KvType::f16, KvType::int8}) {
    limits.kv_type = type;
    const auto runner = runner_or_null(plan, limits);
    const bool int8 = type == KvType::int8;
    for (int chunk : {1, 64, 200}) {
      const double divergence = mean_divergence(expected, all_logits(*runner, plan, text, chunk), plan.vocab);
      EXPECT_LE(divergence, int8 ? 1.25e-3 : 5e-5) << "chunk " << chunk;
      RecordProperty((int8 ? "int8_" : "f16_") + std::to_string(chunk), std::to_string(divergence * 1e6));
    }
  }
}

}  // namespace
}  // namespace carat
