// How exact steps of many rows are on a checkpoint: their logits against those of single rows, which compute
// with float32 activations and agree with transformers in float32 to 1e-3. Prints the largest difference of
// the 20 largest logits and the mean Kullback-Leibler divergence over all positions of a text. "kv": the same
// of K and V in f16 and int8. "sm_80" and the like: of steps as a GPU of that kind would run them.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/error.h"
#include "cuda/cuda_runner.h"
#include "engine/kv_pages.h"
#include "engine/score.h"
#include "engine/step_builder.h"
#include "io/model_config.h"
#include "io/safetensors.h"
#include "model/gemma4_plan.h"

namespace carat {
namespace {

constexpr int kPositions = 2000, kTop = 20;

std::vector<int32_t> some_text(int vocab) {
  std::vector<int32_t> tokens;
  for (int i = 0; i < kPositions; ++i) tokens.push_back((i * 104729 + i * i % 7919 * 31 + 11) % vocab);
  return tokens;
}

/// [positions, vocab]
std::vector<float> all_logits(Runner& runner, std::span<const int32_t> tokens, int chunk) {
  const auto vocab = static_cast<std::size_t>(runner.info().vocab);
  KvPages pages(runner.info().kv_groups, runner.info().limits);
  std::vector<float> logits(tokens.size() * vocab);
  score(runner, pages, tokens, chunk, [&](int position, std::span<const float> row) {
    std::memcpy(logits.data() + static_cast<std::size_t>(position) * vocab, row.data(), row.size_bytes());
  });
  return logits;
}

/// The same of the text in `kParts` parts, each a sequence of its own: one after another in steps of one row,
/// or all of them in every step.
std::vector<float> decoded_logits(Runner& runner, std::span<const int32_t> tokens, bool together) {
  constexpr int kParts = 4, kEach = kPositions / kParts;
  const auto vocab = static_cast<std::size_t>(runner.info().vocab);
  std::vector<float> logits(tokens.size() * vocab);
  KvPages pages(runner.info().kv_groups, runner.info().limits);
  std::vector<SequencePages> sequences(kParts);
  StepBuilder builder;
  const auto step = [&](int first, int count, int position) {
    builder.clear();
    for (int part = first; part < first + count; ++part) {
      SequencePages& sequence = sequences[static_cast<std::size_t>(part)];
      if (!pages.extend(sequence, position, 1)) fail(ErrorKind::out_of_memory, "too few pages");
      builder.want_logits(builder.add(tokens.subspan(static_cast<std::size_t>(part * kEach + position), 1),
                                      position, sequence));
    }
    runner.submit(builder.input());
    const StepResult result = runner.collect();
    for (int i = 0; i < count; ++i)
      std::memcpy(logits.data() + static_cast<std::size_t>((first + i) * kEach + position) * vocab,
                  result.logits.data() + static_cast<std::size_t>(i) * vocab, vocab * sizeof(float));
  };
  const int count = together ? kParts : 1;
  for (int first = 0; first < kParts; first += count)
    for (int position = 0; position < kEach; ++position) step(first, count, position);
  return logits;
}

struct Difference {
  double top = 0, divergence = 0;
  int argmax_differs = 0;
};

double log_sum(std::span<const float> logits, float largest) {
  double sum = 0;
  for (float v : logits) sum += std::exp(v - largest);
  return std::log(sum) + largest;
}

Difference compare_row(std::span<const float> exact, std::span<const float> other) {
  std::vector<int> order(exact.size());
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(order.begin(), order.begin() + kTop, order.end(), [&](int a, int b) {
    return exact[static_cast<std::size_t>(a)] > exact[static_cast<std::size_t>(b)];
  });
  Difference d;
  for (int i = 0; i < kTop; ++i) {
    const auto at = static_cast<std::size_t>(order[static_cast<std::size_t>(i)]);
    d.top = std::max(d.top, std::abs(double{exact[at]} - other[at]));
  }
  const auto best = std::max_element(other.begin(), other.end());
  d.argmax_differs = best - other.begin() != order[0];
  const float largest = exact[static_cast<std::size_t>(order[0])];
  const double exact_sum = log_sum(exact, largest), other_sum = log_sum(other, *best);
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double log_p = exact[i] - exact_sum;
    d.divergence += std::exp(log_p) * (log_p - (other[i] - other_sum));
  }
  return d;
}

/// The largest difference and the mean divergence over all positions.
Difference compare(std::span<const float> exact, std::span<const float> other, std::size_t vocab) {
  const std::size_t rows = exact.size() / vocab;
  std::vector<Difference> each(rows);
  std::atomic<std::size_t> next{0};
  {
    std::vector<std::jthread> threads;
    for (unsigned t = 0; t < std::max(1u, std::thread::hardware_concurrency()); ++t)
      threads.emplace_back([&] {
        for (std::size_t r = next++; r < rows; r = next++)
          each[r] = compare_row(exact.subspan(r * vocab, vocab), other.subspan(r * vocab, vocab));
      });
  }
  Difference total;
  for (const Difference& d : each) {
    total.top = std::max(total.top, d.top);
    total.divergence += d.divergence / static_cast<double>(rows);
    total.argmax_differs += d.argmax_differs;
  }
  return total;
}

int run(const char* directory, std::string_view variant) {
  constexpr int kMostRows = 512;
  ModelPlan plan = make_plan(load_model_config(directory), Checkpoint::open(directory));
  RunnerOptions limits = size_kv(plan.kv_groups, kPositions, 4, kMostRows);
  const auto runner = make_cuda_runner(plan, limits, {.fast_prompts = variant == "fast"});
  const auto vocab = static_cast<std::size_t>(runner->info().vocab);
  const std::vector<int32_t> tokens = some_text(runner->info().vocab);
  const std::vector<float> exact = all_logits(*runner, tokens, 1);
  const auto print = [&](const std::string& steps, std::span<const float> from,
                         std::span<const float> other) {
    const Difference d = compare(from, other, vocab);
    std::printf("%s: top %d logits differ by at most %.2e, mean divergence %.2e, ", steps.c_str(), kTop,
                d.top, d.divergence);
    std::printf("argmax differs at %d of %d positions\n", d.argmax_differs, kPositions);
  };
  for (const KvType type : variant == "kv" ? std::vector{KvType::f16, KvType::int8} : std::vector<KvType>{}) {
    limits.kv_type = type;
    const auto coarser = make_cuda_runner(plan, limits, {});
    for (int chunk : {1, kMostRows})
      print("steps of " + std::to_string(chunk) + (type == KvType::f16 ? " rows, f16" : " rows, int8"), exact,
            all_logits(*coarser, tokens, chunk));
  }
  if (variant == "kv") return 0;
  const CudaLimits gpu = limits_of_gpu(variant);
  const auto limited = gpu.capability > 0 ? make_cuda_runner(plan, limits, {.limits = gpu}) : nullptr;
  Runner& tested = limited ? *limited : *runner;
  for (int chunk : {1, 8, 32, 64, kMostRows}) {
    if (chunk > 1 || limited)
      print("steps of " + std::to_string(chunk) + " rows", exact, all_logits(tested, tokens, chunk));
  }
  print("4 sequences decoded together", decoded_logits(*runner, tokens, false),
        decoded_logits(tested, tokens, true));
  return 0;
}

}  // namespace
}  // namespace carat

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: bench_cuda_exactness CHECKPOINT [fast | kv | sm_80 | sm_86 | sm_120]\n");
    return 2;
  }
  try {
    return carat::run(argv[1], argc < 3 ? "" : argv[2]);
  } catch (const carat::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
