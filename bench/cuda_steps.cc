// Times the steps of the CUDA backend on a checkpoint: one row at several contexts, batches, prompts. Median
// wall time of a step with the next one already in flight, as the engine runs it.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "cuda/cuda_runner.h"
#include "io/model_config.h"
#include "io/safetensors.h"
#include "model/gemma4_plan.h"

namespace carat {
namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// `sequences` sequences of `past` cached tokens that each take `count` tokens more; pages are handed out in
/// order.
class Step {
 public:
  Step(const Runner& runner, int sequences, int past, int count)
      : last_(static_cast<std::size_t>(sequences)) {
    const int vocab = runner.info().vocab, page_tokens = runner.info().limits.page_tokens;
    const int stride = (past + count + page_tokens - 1) / page_tokens;
    for (int s = 0; s < sequences; ++s) {
      segments_.push_back({s * count, count, past, s});
      for (int i = 0; i < count; ++i) tokens_.push_back((s * 7919 + i * 104729 + 11) % vocab);
      last_[static_cast<std::size_t>(s)] = s * count + count - 1;
      sampling_.push_back({&greedy_, past + count, {}, {}});
    }
    for (int g = 0; g < kKvGroups; ++g) {
      const int pages = runner.info().limits.pages[static_cast<std::size_t>(g)];
      for (int i = 0; i < sequences * stride; ++i) pages_[static_cast<std::size_t>(g)].push_back(i % pages);
      input_.page_tables[static_cast<std::size_t>(g)] = {pages_[static_cast<std::size_t>(g)], stride};
    }
    input_.tokens = tokens_;
    input_.segments = segments_;
    input_.logit_rows = last_;
    input_.sampling = sampling_;
  }

  /// Median of `runs` steps.
  double time_ms(Runner& runner, int runs) const {
    std::vector<double> times;
    add_times(runner, runs, times);
    return median(times);
  }

  /// Each step is submitted before its predecessor is collected.
  void add_times(Runner& runner, int runs, std::vector<double>& times) const {
    constexpr int kWarmUp = 3;
    runner.submit(input_);
    auto start = Clock::now();
    for (int i = 0; i < runs + kWarmUp; ++i) {
      runner.submit(input_);
      runner.collect();
      if (i >= kWarmUp) times.push_back(ms_since(start));
      start = Clock::now();
    }
    runner.collect();
  }

  static double median(std::vector<double> times) {
    const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
    std::nth_element(times.begin(), middle, times.end());
    return *middle;
  }

 private:
  SamplingParams greedy_;
  std::vector<int32_t> tokens_, last_;
  std::vector<Segment> segments_;
  std::vector<RowSampling> sampling_;
  std::array<std::vector<int32_t>, kKvGroups> pages_;
  StepInput input_{};
};

void time_steps(Runner& runner, double bandwidth) {
  const auto bytes = static_cast<double>(runner.info().weight_bytes_per_token);
  for (int past : {100, 500, 600, 1000, 4000, 16000, 32000}) {
    const double ms = Step(runner, 1, past, 1).time_ms(runner, 100);
    std::printf("one row   context %5d: %7.3f ms per token, %5.1f %% of the read bandwidth\n", past, ms,
                bytes / ms * 1e3 / bandwidth * 100);
  }
  for (int batch : {2, 4, 8, 16, 32, 64, 128, 256}) {
    const double ms = Step(runner, batch, 100, 1).time_ms(runner, 20);
    std::printf("batch %4d context   100: %7.3f ms per step, %8.0f tokens/s\n", batch, ms, batch / ms * 1e3);
  }
  for (int tokens : {16, 64, 128, 512, 2048, 4096}) {
    const double ms = Step(runner, 1, 0, tokens).time_ms(runner, 7);
    std::printf("prompt %5d            : %7.3f ms, %8.0f tokens/s\n", tokens, ms, tokens / ms * 1e3);
  }
}

/// Single rows in one kernel beside single rows in a graph of kernels, in turns.
void time_persistent(Runner& graph, Runner& persistent) {
  for (int past : {0, 100, 250, 500, 1000, 2000}) {
    const Step step(graph, 1, past, 1);
    std::array<std::vector<double>, 2> times;
    for (int turn = 0; turn < 10; ++turn) {
      step.add_times(graph, 20, times[0]);
      step.add_times(persistent, 20, times[1]);
    }
    std::printf("one row   context %5d: graph %7.3f ms, persistent %7.3f ms per token\n", past,
                Step::median(times[0]), Step::median(times[1]));
  }
}

/// What the command line asks for: everything, or one step of `sequences` times `count` tokens after `past`.
struct Options {
  const char* directory;
  std::string_view variant;
  int sequences = 0, past = 0, count = 0;
};

int run(const Options& options) {
  const double bandwidth = measure_cuda_read_bandwidth({});
  std::printf("plain read: %.2f TB/s\n", bandwidth / 1e12);
  const auto start = Clock::now();
  ModelPlan plan = make_plan(load_model_config(options.directory), Checkpoint::open(options.directory));
  const RunnerOptions limits{
      .page_tokens = 32, .pages = {2048, 2048}, .max_step_tokens = 4096, .max_sequences = 256};
  const bool quantized = options.variant == "int8" || options.variant == "int4";
  const auto runner = make_cuda_runner(std::move(plan), limits,
                                       {.format = quantized ? std::string(options.variant) : std::string(),
                                        .fast_prompts = options.variant == "fast",
                                        .fused_single_rows = options.variant != "general",
                                        .persistent = options.variant != "persistent",
                                        .phase_report = options.variant == "phases" ? stdout : nullptr});
  std::printf("loaded in %.3f s\n", ms_since(start) / 1e3);
  if (options.variant == "persistent") {
    const auto persistent = make_cuda_runner(
        make_plan(load_model_config(options.directory), Checkpoint::open(options.directory)), limits, {});
    time_persistent(*runner, *persistent);
  } else if (options.variant == "phases") {
    std::printf("%.3f ms\n", Step(*runner, 1, 100, 1).time_ms(*runner, 100));
  } else if (options.sequences == 0) {
    time_steps(*runner, bandwidth);
  } else {
    const double ms = Step(*runner, options.sequences, options.past, options.count).time_ms(*runner, 20);
    std::printf("%7.3f ms per step\n", ms);
  }
  return 0;
}

}  // namespace
}  // namespace carat

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr,
                 "usage: bench_cuda_steps CHECKPOINT [default | general | fast | int8 | int4 | persistent "
                 "| phases [SEQUENCES PAST COUNT]]\n");
    return 2;
  }
  try {
    carat::Options options{argv[1], argc < 3 ? "" : argv[2]};
    if (argc == 6) {
      options.sequences = std::atoi(argv[3]);
      options.past = std::atoi(argv[4]);
      options.count = std::atoi(argv[5]);
    }
    return carat::run(options);
  } catch (const carat::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
