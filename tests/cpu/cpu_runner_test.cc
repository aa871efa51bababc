// The CPU backend against transformers and, step by step, against the reference backend; and what it promises
// beyond that: the same bits for any number of threads, any batch, any cut of a prompt, repacked or read in
// place.
#include "cpu/cpu_runner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <thread>

#include "base/error.h"
#include "base/random.h"
#include "cpu/isa.h"
#include "engine/kv_pages.h"
#include "engine/score.h"
#include "engine/step_builder.h"
#include "ref/ref_runner.h"
#include "support/golden.h"
#include "support/quantized_plan.h"

namespace carat {
namespace {

constexpr std::array<const char*, 4> kModels{"tiny", "tiny-dense", "tiny-moe", "demo"};

std::vector<std::string> available_isas() {
  std::vector<std::string> names;
  for (const Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512, Isa::neon}) {
    if (isa_available(isa)) names.emplace_back(isa_name(isa));
  }
  return names;
}

std::string test_name(std::string text) {
  std::ranges::replace_if(text, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return text;
}

std::unique_ptr<Runner> make_runner(const ModelPlan& plan, const CpuOptions& cpu, int max_step_tokens = 64) {
  return make_cpu_runner(plan, size_kv(plan.kv_groups, 2304, 4, max_step_tokens), cpu);
}

CpuOptions with_threads(int threads) { return {.threads = threads, .isa = {}, .format = {}, .progress = {}}; }

/// Ragged steps over a few sequences, made from a seed: prompts in odd pieces beside decode steps, some rows
/// with logits. A sequence that reaches kLongest starts again.
class RaggedSteps {
 public:
  RaggedSteps(const ModelPlan& plan, const RunnerOptions& limits, uint64_t seed)
      : pages_(plan.kv_groups, limits),
        max_tokens_(limits.max_step_tokens),
        vocab_(plan.vocab),
        seed_(seed) {}

  StepInput next() {
    builder_.clear();
    counts_ = {};
    for (std::size_t s = 0; s < kSequences; ++s) {
      if (draw(4) == 0 && s > 0) continue;
      const int room = max_tokens_ - builder_.tokens();
      counts_[s] = std::min(draw(3) == 0 ? 1 + draw(40) : 1, room);
      if (counts_[s] > 0) add_segment(s, counts_[s]);
    }
    return builder_.input();
  }

  void finish() {
    for (std::size_t s = 0; s < kSequences; ++s) {
      past_[s] += counts_[s];
      pages_.release_behind_window(sequences_[s], past_[s]);
    }
  }

 private:
  static constexpr std::size_t kSequences = 4;
  static constexpr int kLongest = 300;

  int draw(int bound) {
    return static_cast<int>(random_bits(seed_, counter_++) % static_cast<uint64_t>(bound));
  }

  void add_segment(std::size_t s, int count) {
    if (past_[s] + count > kLongest) {
      pages_.release_all(sequences_[s]);
      past_[s] = 0;
    }
    ASSERT_TRUE(pages_.extend(sequences_[s], past_[s], count));
    std::vector<int32_t> tokens;
    for (int i = 0; i < count; ++i) tokens.push_back(draw(vocab_));
    const int first = builder_.add(tokens, past_[s], sequences_[s]);
    for (int i = 0; i < count; ++i) {
      if (i + 1 == count ? draw(4) > 0 : draw(8) == 0) builder_.want_logits(first + i);
    }
  }

  KvPages pages_;
  int max_tokens_, vocab_;
  uint64_t seed_, counter_ = 0;
  std::array<SequencePages, kSequences> sequences_;
  std::array<int, kSequences> past_{}, counts_{};  // tokens cached, and those of the step
  StepBuilder builder_;
};

std::vector<float> logits_of(Runner& runner, const StepInput& step) {
  runner.submit(step);
  const StepResult result = runner.collect();
  return {result.logits.begin(), result.logits.end()};
}

float largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return INFINITY;
  float largest = 0.f;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!(std::abs(a[i] - b[i]) <= largest)) largest = std::abs(a[i] - b[i]);  // a NaN is a difference
  }
  return largest;
}

std::vector<int32_t> some_tokens(int count, int stride) {
  std::vector<int32_t> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(2 + i * stride % 500);
  return tokens;
}

std::vector<float> score_all(Runner& runner, const ModelPlan& plan, const std::vector<int32_t>& tokens,
                             int chunk) {
  std::vector<float> logits;
  KvPages pages(plan.kv_groups, runner.info().limits);
  score(runner, pages, tokens, chunk,
        [&](int, std::span<const float> row) { logits.insert(logits.end(), row.begin(), row.end()); });
  return logits;
}

class CpuRunnerOn : public testing::TestWithParam<const char*> {
 protected:
  const ModelPlan plan_ = load_test_plan(GetParam());
};

TEST_P(CpuRunnerOn, EqualsTransformersWithEveryInstructionSet) {
  for (const std::string& isa : available_isas()) {
    CpuOptions options = with_threads(2);
    options.isa = isa;
    const auto runner = make_runner(plan_, options, 256);
    for (const GoldenPrompt& prompt : load_golden(GetParam())) {
      SCOPED_TRACE(isa + ", " + prompt.name);
      const GoldenComparison result = compare(*runner, plan_, prompt, 256, 2e-3f);
      EXPECT_LE(result.max_difference, 2e-3f);
      EXPECT_EQ(result.argmax_mismatches, 0);
      EXPECT_EQ(result.greedy_agree, prompt.greedy.size());
    }
  }
}

TEST_P(CpuRunnerOn, EqualsTheReferenceInRaggedStepsWithAnyNumberOfThreads) {
  const RunnerOptions limits = size_kv(plan_.kv_groups, 512, 4, 64);
  const auto reference = make_ref_runner(plan_, limits);
  std::vector<std::unique_ptr<Runner>> runners;
  for (int threads = 1; threads <= 4; ++threads) {
    runners.push_back(make_cpu_runner(plan_, limits, with_threads(threads)));
  }
  RaggedSteps steps(plan_, limits, 7);
  for (int i = 0; i < 60; ++i) {
    SCOPED_TRACE("step " + std::to_string(i));
    const StepInput step = steps.next();
    const std::vector<float> expected = logits_of(*reference, step),
                             one_thread = logits_of(*runners[0], step);
    EXPECT_LE(largest_difference(one_thread, expected), 2e-3f);
    for (std::size_t r = 1; r < runners.size(); ++r) {
      EXPECT_EQ(logits_of(*runners[r], step), one_thread) << r + 1 << " threads";
    }
    steps.finish();
  }
}

TEST_P(CpuRunnerOn, GivesTheSameBitsHoweverAPromptIsCut) {
  const auto runner = make_runner(plan_, with_threads(2));
  const std::vector<int32_t> tokens = some_tokens(60, 37);
  const std::vector<float> whole = score_all(*runner, plan_, tokens, 64);
  for (int chunk : {1, 3, 15, 16, 17, 32}) {
    EXPECT_EQ(score_all(*runner, plan_, tokens, chunk), whole) << "chunk " << chunk;
  }
}

TEST_P(CpuRunnerOn, GivesTheSameBitsBesideOtherSequences) {
  const RunnerOptions limits = size_kv(plan_.kv_groups, 512, 4, 64);
  const auto alone = make_cpu_runner(plan_, limits, with_threads(1));
  const auto batched = make_cpu_runner(plan_, limits, with_threads(2));
  RaggedSteps steps(plan_, limits, 11);
  for (int i = 0; i < 30; ++i) {
    const StepInput step = steps.next();
    const std::vector<float> together = logits_of(*batched, step);
    std::vector<float> one_by_one;
    for (const Segment& segment : step.segments) {
      std::vector<int32_t> rows;
      for (const int32_t row : step.logit_rows) {
        if (row >= segment.first && row < segment.first + segment.count) rows.push_back(row - segment.first);
      }
      const Segment only{0, segment.count, segment.past, segment.sequence};
      StepInput part = step;
      part.tokens = step.tokens.subspan(static_cast<std::size_t>(segment.first),
                                        static_cast<std::size_t>(segment.count));
      part.segments = {&only, 1};
      part.logit_rows = rows;
      const std::vector<float> logits = logits_of(*alone, part);
      one_by_one.insert(one_by_one.end(), logits.begin(), logits.end());
    }
    EXPECT_EQ(together, one_by_one) << "step " << i;
    steps.finish();
  }
}

TEST_P(CpuRunnerOn, ReadsTheCheckpointInPlaceWithTheSameBits) {
  CpuOptions in_place = with_threads(2);
  in_place.mmap = true;
  const auto repacked = make_runner(plan_, with_threads(2)), mapped = make_runner(plan_, in_place);
  const std::vector<int32_t> tokens = some_tokens(40, 29);
  EXPECT_EQ(score_all(*mapped, plan_, tokens, 33), score_all(*repacked, plan_, tokens, 33));
}

/// The size of a - b relative to that of b, around b's mean.
double relative_difference(std::span<const float> a, std::span<const float> b) {
  double mean = 0, difference = 0, spread = 0;
  for (const float value : b) mean += value / static_cast<double>(b.size());
  for (std::size_t i = 0; i < b.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    spread += (b[i] - mean) * (b[i] - mean);
  }
  return std::sqrt(difference / spread);
}

void add_differences(const ModelPlan& plan, const std::vector<float>& a, const std::vector<float>& b,
                     std::vector<double>& differences) {
  ASSERT_EQ(a.size(), b.size());
  const auto vocab = static_cast<std::size_t>(plan.vocab);
  for (std::size_t row = 0; row < a.size(); row += vocab) {
    differences.push_back(
        relative_difference(std::span(a).subspan(row, vocab), std::span(b).subspan(row, vocab)));
  }
}

TEST_P(CpuRunnerOn, ComputesWithTheQuantisedWeights) {
  for (const char* format : {"int8", "int4"}) {
    SCOPED_TRACE(format);
    EncodedMatrices storage;
    const ModelPlan quantized = quantized_plan(plan_, parse_format(format), storage);
    const RunnerOptions limits = size_kv(plan_.kv_groups, 512, 4, 64);
    const auto reference = make_ref_runner(quantized, limits);
    for (const std::string& isa : available_isas()) {
      SCOPED_TRACE(isa);
      const auto from_format =
          make_cpu_runner(plan_, limits, {.threads = 2, .isa = isa, .format = format, .progress = {}});
      const auto as_stored =
          make_cpu_runner(quantized, limits, {.threads = 3, .isa = isa, .format = {}, .progress = {}});
      RaggedSteps steps(plan_, limits, 5);
      std::vector<double> differences;
      for (int i = 0; i < 8; ++i) {
        const StepInput step = steps.next();
        const std::vector<float> logits = logits_of(*from_format, step);
        add_differences(plan_, logits, logits_of(*reference, step), differences);
        EXPECT_EQ(logits_of(*as_stored, step), logits) << "step " << i;
        steps.finish();
      }
      // The runner rounds the inputs of products to 8 bits, which small random models magnify; where that
      // turns a close choice of experts, a row comes out different. Wrong weights would change all rows.
      std::ranges::sort(differences);
      EXPECT_LE(differences[differences.size() / 2], 0.1);
      if (!plan_.layers.back().moe) {
        EXPECT_LE(differences.back(), 0.25);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, CpuRunnerOn, testing::ValuesIn(kModels),
                         [](const auto& model) { return test_name(model.param); });

TEST(CpuRunner, CopiesPages) {
  const ModelPlan plan = load_test_plan("tiny");
  const auto runner = make_runner(plan, with_threads(2));
  const std::vector<int32_t> prompt = some_tokens(32, 31), next{17};
  KvPages pages(plan.kv_groups, runner->info().limits);
  SequencePages sequence;
  ASSERT_TRUE(pages.extend(sequence, 0, 33));
  const Segment first{0, 32, 0, 0}, second{0, 1, 32, 0};
  const std::vector<int32_t> row{0};
  StepInput step{
      .tokens = prompt, .segments = {&first, 1}, .page_tables = {}, .logit_rows = {}, .sampling = {}};
  const auto set_tables = [&] {
    for (std::size_t g = 0; g < kKvGroups; ++g) {
      step.page_tables[g] = {sequence.table[g], static_cast<int>(sequence.table[g].size())};
    }
  };
  set_tables();
  logits_of(*runner, step);
  step.tokens = next;
  step.segments = {&second, 1};
  step.logit_rows = row;
  step.return_logits = true;
  const std::vector<float> expected = logits_of(*runner, step);

  SequencePages moved = sequence;
  for (int g = 0; g < kKvGroups; ++g) {
    for (int32_t& page : moved.table[static_cast<std::size_t>(g)]) {
      const PageCopy copy{g, page, page + 40};
      page += 40;
      runner->copy_pages({&copy, 1});
    }
  }
  sequence = moved;
  set_tables();
  EXPECT_EQ(logits_of(*runner, step), expected);
}

TEST(CpuRunner, ReportsProgressUpToTheEnd) {
  std::vector<double> fractions;
  const auto caller = std::this_thread::get_id();
  CpuOptions options = with_threads(2);
  options.progress = [&](double fraction) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    fractions.push_back(fraction);
  };
  make_runner(load_test_plan("tiny"), options);
  ASSERT_FALSE(fractions.empty());
  EXPECT_TRUE(std::ranges::is_sorted(fractions));
  EXPECT_EQ(fractions.back(), 1.0);
}

TEST(CpuRunner, DescribesWhatAStepReads) {
  const ModelPlan plan = load_test_plan("tiny-moe");
  const auto stored = make_runner(plan, {}),
             int4 = make_runner(plan, {.isa = {}, .format = "int4", .progress = {}});
  EXPECT_EQ(stored->info().device, "cpu");
  EXPECT_GE(stored->info().weight_bytes_per_token, bytes_per_token(plan));
  EXPECT_LE(stored->info().weight_bytes_per_token,
            bytes_per_token(plan) * 5 / 4);  // panels are padded to 32 rows
  EXPECT_LT(int4->info().weight_bytes_per_token, stored->info().weight_bytes_per_token / 2);
}

TEST(CpuRunner, DamagedWeightsNeverGiveNumbers) {
  const std::vector<int32_t> tokens{1, 2, 3};
  for (const std::string& isa : available_isas()) {
    ModelPlan plan = load_test_plan("tiny");
    Linear& q = plan.layers[0].attention.q;
    std::vector<std::byte> damaged(q.data, q.data + size_bytes(q));
    damaged[0] = std::byte{0xc0};
    damaged[1] = std::byte{0x7f};  // NaN in bf16
    q.data = damaged.data();
    const auto runner = make_runner(plan, {.isa = isa, .format = {}, .progress = {}});
    KvPages pages(plan.kv_groups, runner->info().limits);
    EXPECT_THROW(score(*runner, pages, tokens, 8, [](int, std::span<const float>) {}), Error) << isa;
  }
}

void expect_refusal(const CpuOptions& options, RunnerOptions limits, ErrorKind kind,
                    const std::string& text) {
  try {
    make_cpu_runner(load_test_plan("tiny"), limits, options);
    FAIL() << "accepted; expected an error with \"" << text << '"';
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
  }
}

TEST(CpuRunner, RefusesOptionsThatCannotBe) {
  const RunnerOptions limits;
  expect_refusal({.isa = "mmx", .format = {}, .progress = {}}, limits, ErrorKind::invalid_argument, "mmx");
  expect_refusal({.isa = {}, .format = "int3", .progress = {}}, limits, ErrorKind::invalid_argument, "int3");
  expect_refusal({.isa = {}, .format = "int8", .mmap = true, .progress = {}}, limits,
                 ErrorKind::invalid_argument, "mmap");
  expect_refusal({}, {.page_tokens = 24}, ErrorKind::invalid_argument, "24");
}

}  // namespace
}  // namespace carat
