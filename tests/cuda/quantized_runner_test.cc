// int8 and int4 weights on the CUDA backend against the reference backend on the decoded weights. Without a
// GPU every test skips.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "cuda/cuda_runner.h"
#include "engine/kv_pages.h"
#include "engine/score.h"
#include "engine/step_builder.h"
#include "ref/ref_runner.h"
#include "support/expect_error.h"
#include "support/golden.h"
#include "support/largest_difference.h"
#include "support/quantized_plan.h"
#include "support/random_weights.h"

namespace carat {
namespace {

// Activations have 16 bits, keys and values 11: of float32's logits the toy models keep about two digits.
constexpr float kSingleRow = 3e-2f, kAnyStep = 1e-1f;

std::vector<int32_t> some_tokens(int count) {
  std::vector<int32_t> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(2 + i * 37 % 500);
  return tokens;
}

/// [tokens][vocab], the prompt in pieces of `chunk`.
std::vector<std::vector<float>> all_logits(Runner& runner, const ModelPlan& plan, int tokens, int chunk) {
  KvPages pages(plan.kv_groups, runner.info().limits);
  std::vector<std::vector<float>> logits;
  score(runner, pages, some_tokens(tokens), chunk,
        [&](int, std::span<const float> row) { logits.emplace_back(row.begin(), row.end()); });
  return logits;
}

/// Every row within the tolerance. With experts a rounding difference may choose another expert, which
/// changes that row: then most rows.
void expect_close(const ModelPlan& plan, const std::vector<std::vector<float>>& ours,
                  const std::vector<std::vector<float>>& reference, float tolerance) {
  ASSERT_EQ(ours.size(), reference.size());
  std::size_t close = 0;
  float worst = 0.f;
  for (std::size_t r = 0; r < ours.size(); ++r) {
    const float difference = largest_difference(ours[r], reference[r]);
    worst = difference <= worst ? worst : difference;
    close += difference <= tolerance;
  }
  const bool experts = plan.layers.back().moe.has_value();
  EXPECT_GE(close, experts ? ours.size() * 3 / 4 : ours.size()) << "largest difference " << worst;
  EXPECT_FALSE(std::isnan(worst));
}

/// Empty without a GPU. Single rows in one kernel, or as a graph of kernels.
std::unique_ptr<Runner> cuda_runner(const ModelPlan& plan, const std::string& format, bool graph = false,
                                    int context = 512) {
  try {
    return make_cuda_runner(plan, size_kv(plan.kv_groups, context, 2, 160),
                            {.format = format, .persistent = !graph});
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::unavailable) throw;
    return nullptr;
  }
}

void expect_reference(const ModelPlan& plan, Runner& runner, std::initializer_list<int> chunks, int tokens) {
  const auto reference = make_ref_runner(plan, size_kv(plan.kv_groups, 512, 2, 160));
  const auto expected = all_logits(*reference, plan, tokens, tokens);
  for (const int chunk : chunks) {
    SCOPED_TRACE("chunk " + std::to_string(chunk));
    const bool single = chunk == 1 && !plan.layers[0].moe && cuda_capability({}) >= 90;
    expect_close(plan, all_logits(runner, plan, tokens, chunk), expected, single ? kSingleRow : kAnyStep);
  }
}

class QuantizedCudaRunner : public testing::TestWithParam<std::tuple<const char*, const char*, bool>> {
 protected:
  bool graph() const { return std::get<2>(GetParam()); }
  std::string format() const { return std::get<1>(GetParam()); }
  ModelPlan plan() const { return load_test_plan(std::get<0>(GetParam())); }
};

// Every count of rows has its own kernels: one row, up to 8, 32, 64 and more.
TEST_P(QuantizedCudaRunner, ComputesWithTheQuantisedWeights) {
  const auto runner = cuda_runner(plan(), format(), graph());
  if (!runner) GTEST_SKIP() << "no CUDA device";
  EncodedMatrices storage;
  expect_reference(quantized_plan(plan(), parse_format(format()), storage), *runner,
                   {1, 2, 8, 9, 33, 64, 65, 128, 150}, 150);
}

TEST_P(QuantizedCudaRunner, LoadsAQuantisedCheckpointToTheSameBits) {
  EncodedMatrices storage;
  const ModelPlan quantized = quantized_plan(plan(), parse_format(format()), storage);
  const auto at_load = cuda_runner(plan(), format(), graph()),
             as_stored = cuda_runner(quantized, "", graph());
  if (!at_load) GTEST_SKIP() << "no CUDA device";
  for (const int chunk : {1, 7, 40})
    EXPECT_EQ(all_logits(*at_load, quantized, 40, chunk), all_logits(*as_stored, quantized, 40, chunk));
  EXPECT_EQ(at_load->info().weight_bytes_per_token, bytes_per_token(quantized));
  expect_error(ErrorKind::invalid_argument, {"already quantised"}, [&] { cuda_runner(quantized, format()); });
}

TEST_P(QuantizedCudaRunner, ReadsQuantisedTables) {
  EncodedMatrices storage;
  ModelPlan quantized = quantized_plan(plan(), parse_format(format()), storage);
  const WeightFormat tables = parse_format(format());  // int4 too, which format_of_role() never chooses
  quantized.embed = encoded(quantized.embed, tables, storage);
  if (quantized.ple_dim > 0) quantized.ple_table = encoded(quantized.ple_table, tables, storage);
  const auto runner = cuda_runner(quantized, "", graph());
  if (!runner) GTEST_SKIP() << "no CUDA device";
  expect_reference(quantized, *runner, {1, 30}, 30);
}

TEST_P(QuantizedCudaRunner, TwoRunsGiveTheSameBits) {
  const auto runner = cuda_runner(plan(), format(), graph());
  if (!runner) GTEST_SKIP() << "no CUDA device";
  for (const int chunk : {1, 5, 100})
    EXPECT_EQ(all_logits(*runner, plan(), 100, chunk), all_logits(*runner, plan(), 100, chunk)) << chunk;
}

/// Of tokens behind the `skipped` first ones, each in a step of its own.
std::vector<std::vector<float>> logits_behind(Runner& runner, const ModelPlan& plan, int skipped, int count) {
  KvPages pages(plan.kv_groups, runner.info().limits);
  ScopedPages sequence(pages);
  StepBuilder builder;
  const std::vector<int32_t> tokens = some_tokens(skipped + count);
  std::vector<std::vector<float>> logits;
  for (int past = 0, now; past < skipped + count; past += now) {
    now = past < skipped ? std::min(160, skipped - past) : 1;
    EXPECT_TRUE(pages.extend(sequence, past, now));
    builder.clear();
    const int row =
        builder.add(std::span(tokens).subspan(static_cast<std::size_t>(past), static_cast<std::size_t>(now)),
                    past, sequence);
    builder.want_logits(row + now - 1);
    runner.submit(builder.input());
    const StepResult result = runner.collect();
    if (past >= skipped) logits.emplace_back(result.logits.begin(), result.logits.end());
    pages.release_behind_window(sequence, past + now);
  }
  return logits;
}

// Contexts that one CTA reads for each head, and contexts that are split over the GPU.
TEST_P(QuantizedCudaRunner, LongContextsInOneKernelEqualTheGraph) {
  if (graph()) GTEST_SKIP() << "is compared with itself";
  const auto runner = cuda_runner(plan(), format(), false, 2304);
  if (!runner) GTEST_SKIP() << "no CUDA device";
  const auto other = cuda_runner(plan(), format(), true, 2304);
  for (const int skipped : {300, 508, 700, 2055})
    expect_close(plan(), logits_behind(*runner, plan(), skipped, 8),
                 logits_behind(*other, plan(), skipped, 8), kSingleRow);
}

INSTANTIATE_TEST_SUITE_P(Models, QuantizedCudaRunner,
                         testing::Combine(testing::Values("tiny", "tiny-dense", "tiny-moe", "demo"),
                                          testing::Values("int8", "int4"), testing::Bool()),
                         [](const auto& test) {
                           std::string name = std::string(std::get<0>(test.param)) + "_" +
                                              std::get<1>(test.param) +
                                              (std::get<2>(test.param) ? "_graph" : "");
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

/// The tiny model with other widths and random weights.
class OddPlan {
 public:
  OddPlan(int d_model, int intermediate, int ple_dim, int vocab) : plan_(load_test_plan("tiny")) {
    const auto layers = static_cast<int64_t>(plan_.layers.size());
    plan_.d_model = d_model;
    plan_.ple_dim = ple_dim;
    plan_.vocab = vocab;
    plan_.embed = weights_.matrix(vocab, d_model, 1.f);
    plan_.head = weights_.matrix(vocab, d_model);
    plan_.ple_table = weights_.matrix(vocab, layers * ple_dim, 1.f);
    plan_.ple_project = weights_.matrix(layers * ple_dim, d_model);
    plan_.ple_norm = weights_.gains(ple_dim);
    plan_.first_norm = weights_.gains(d_model);
    for (LayerPlan& l : plan_.layers) {
      AttentionPlan& a = l.attention;
      for (Linear* w : {&a.q, &a.k, &a.v})
        if (*w) *w = weights_.matrix(w->rows, d_model);
      a.o = weights_.matrix(d_model, a.o.cols);
      l.intermediate_size = intermediate;
      l.gate = weights_.matrix(intermediate, d_model);
      l.up = weights_.matrix(intermediate, d_model);
      l.down = weights_.matrix(d_model, intermediate);
      l.per_layer->gate = weights_.matrix(ple_dim, d_model);
      l.per_layer->proj = weights_.matrix(d_model, ple_dim);
      for (Vec* v : {&l.post_attention, &l.pre_ffn, &l.post_ffn, &l.per_layer->post, &l.tail.next_norm})
        *v = weights_.gains(d_model);
    }
  }
  const ModelPlan& plan() const { return plan_; }

 private:
  RandomWeights weights_;
  ModelPlan plan_;
};

// Groups, blocks and slices that end in the middle: 8 columns after whole groups, a block cut in two, rows
// that no tile divides, more columns than a CTA keeps of x.
TEST(QuantizedCudaProducts, OddShapesEqualTheReference) {
  struct Widths {
    int d_model, intermediate, ple_dim, vocab;
  };
  for (const Widths& w :
       {Widths{1544, 1560, 24, 531}, Widths{520, 2568, 40, 517}, Widths{2056, 136, 24, 515}}) {
    const OddPlan odd(w.d_model, w.intermediate, w.ple_dim, w.vocab);
    SCOPED_TRACE(w.d_model);
    if (const auto runner = cuda_runner(odd.plan(), ""))
      expect_reference(odd.plan(), *runner, {2, 8, 20}, 20);
    for (const char* format : {"int8", "int4"}) {
      SCOPED_TRACE(format);
      const auto runner = cuda_runner(odd.plan(), format);
      if (!runner) GTEST_SKIP() << "no CUDA device";
      EncodedMatrices storage;
      expect_reference(quantized_plan(odd.plan(), parse_format(format), storage), *runner, {1, 3, 8, 13, 20},
                       20);
    }
  }
}

}  // namespace
}  // namespace carat
