// Times the steps of the CUDA backend on a checkpoint: one row at several contexts, batches, prompts. Median
// wall time of a step with the next one already in flight. With a drafter: of its guesses, and of the steps
// that check them, one after the other as the engine runs them. "sm_80" and the like: as a GPU of that kind
// would run them, with its shared memory and without what it lacks.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
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

double median(std::vector<double>& times) {
  std::ranges::nth_element(times, times.begin() + std::ssize(times) / 2);
  return times[times.size() / 2];
}

/// `sequences` sequences of `past` cached tokens that each take `count` tokens more; pages are handed out in
/// order.
class Step {
 public:
  /// Tokens are drawn from the last `drawn` rows of each.
  Step(const Runner& runner, int sequences, int past, int count, int drawn = 1) {
    const int vocab = runner.info().vocab, page_tokens = runner.info().limits.page_tokens;
    const int stride = (past + count + page_tokens - 1) / page_tokens;
    for (int s = 0; s < sequences; ++s) {
      segments_.push_back({s * count, count, past, s});
      for (int i = 0; i < count; ++i) tokens_.push_back((s * 7919 + i * 104729 + 11) % vocab);
      for (int i = count - drawn; i < count; ++i) {
        last_.push_back(s * count + i);
        sampling_.push_back({&greedy_, past + i + 1, {}, {}});
      }
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

  const std::array<PageTable, kKvGroups>& page_tables() const { return input_.page_tables; }
  void run(Runner& runner) const {
    runner.submit(input_);
    runner.collect();
  }
  /// Of the rows that others are drawn from.
  std::vector<float> logits(Runner& runner) const {
    StepInput input = input_;
    input.sampling = {};
    input.return_logits = true;
    runner.submit(input);
    const StepResult result = runner.collect();
    return {result.logits.begin(), result.logits.end()};
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

/// How far logits of single rows in one kernel are from those in a graph of kernels.
void compare_persistent(Runner& graph, Runner& persistent) {
  constexpr int kStep = 4000;
  for (int past : {20, 300, 700, 2000, 6000}) {
    for (Runner* runner : {&graph, &persistent})
      for (int first = 0; first < past; first += kStep)
        Step(*runner, 1, first, std::min(kStep, past - first)).run(*runner);
    const Step step(graph, 1, past, 1);
    const std::vector<float> expected = step.logits(graph), got = step.logits(persistent);
    float difference = 0.f, largest = 0.f;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      difference = std::max(difference, std::abs(got[i] - expected[i]));
      largest = std::max(largest, std::abs(expected[i]));
    }
    std::printf("one row   context %5d: logits differ by %.2g of up to %.3g\n", past, difference, largest);
  }
}

/// Takes the format off a variant that is one, or ends with one.
std::string take_format(std::string_view& variant) {
  for (const std::string_view format : {"int8", "int4"}) {
    if (variant == "kv-int8" || !variant.ends_with(format)) continue;
    variant.remove_suffix(format.size());
    if (variant.ends_with('-')) variant.remove_suffix(1);
    return std::string(format);
  }
  return {};
}

/// Single rows in one kernel beside single rows in a graph of kernels, in turns.
void time_persistent(Runner& graph, Runner& persistent, const std::vector<int>& contexts) {
  for (int past : contexts) {
    const Step step(graph, 1, past, 1);
    std::array<std::vector<double>, 2> times;
    for (int turn = 0; turn < 6; ++turn) {
      step.add_times(graph, 20, times[0]);
      step.add_times(persistent, 20, times[1]);
    }
    std::printf("one row   context %5d: graph %7.3f ms, persistent %7.3f ms per token\n", past,
                median(times[0]), median(times[1]));
  }
}

/// Steps of one token and `guesses` of each sequence, and as many guesses behind them.
void time_guesses(Runner& runner, int sequences, int past, int guesses) {
  constexpr int kRuns = 60, kWarmUp = 4;
  const Step step(runner, sequences, past, 1 + guesses, 1 + guesses);
  const auto rows = static_cast<std::size_t>(sequences);
  std::vector<int32_t> tokens(rows, 11), logit_rows(rows), pasts(rows, past + 1);
  for (int s = 0; s < sequences; ++s) logit_rows[static_cast<std::size_t>(s)] = s * (1 + guesses);
  std::vector<double> step_times, draft_times;
  for (int i = 0; i < kRuns + kWarmUp; ++i) {
    const auto start = Clock::now();
    step.run(runner);
    const double step_ms = ms_since(start);
    if (guesses > 0) runner.draft({tokens, logit_rows, pasts, step.page_tables()}, guesses);
    if (i < kWarmUp) continue;
    step_times.push_back(step_ms);
    draft_times.push_back(ms_since(start) - step_ms);
  }
  std::printf("%3d sequences, context %5d, %d guesses: step %6.3f ms, guesses %6.3f ms\n", sequences, past,
              guesses, median(step_times), median(draft_times));
}

void time_all_guesses(Runner& runner) {
  for (int past : {100, 1000, 4000, 16000})
    for (int guesses : {0, 1, 2, 4, 8, 15}) time_guesses(runner, 1, past, guesses);
  for (int guesses : {0, 1, 2, 4}) time_guesses(runner, 8, 100, guesses);
}

/// One step of `sequences` times `count` tokens after `past`.
struct Shape {
  int sequences, past, count;
};

/// What the command line asks for: some steps, the rounds of a drafter, or everything.
struct Options {
  const char* directory;
  std::string_view variant;
  std::string format{};
  const char* drafter = nullptr;
  std::vector<Shape> shapes{};
};

int run(const Options& options) {
  const double bandwidth = measure_cuda_read_bandwidth({});
  std::printf("plain read: %.2f TB/s\n", bandwidth / 1e12);
  const auto start = Clock::now();
  ModelPlan plan = make_plan(load_model_config(options.directory), Checkpoint::open(options.directory));
  if (options.drafter)
    plan.drafter =
        make_drafter_plan(plan, load_drafter_config(options.drafter), Checkpoint::open(options.drafter));
  const RunnerOptions limits{.page_tokens = 32,
                             .pages = {2048, 2048},
                             .max_step_tokens = 4096,
                             .max_sequences = 256,
                             .kv_type = options.variant == "kv-f16"    ? KvType::f16
                                        : options.variant == "kv-int8" ? KvType::int8
                                                                       : KvType::automatic};
  const auto runner = make_cuda_runner(std::move(plan), limits,
                                       {.format = options.format,
                                        .fast_prompts = options.variant == "fast",
                                        .fused_single_rows = options.variant != "general",
                                        .persistent = options.variant != "persistent",
                                        .phase_report = options.variant == "phases" ? stdout : nullptr,
                                        .limits = limits_of_gpu(options.variant)});
  std::printf("loaded in %.3f s\n", ms_since(start) / 1e3);
  if (options.variant == "persistent") {
    const auto persistent =
        make_cuda_runner(make_plan(load_model_config(options.directory), Checkpoint::open(options.directory)),
                         limits, {.format = options.format});
    std::vector<int> contexts;
    for (const Shape& s : options.shapes) contexts.push_back(s.past);
    if (contexts.empty()) {
      contexts = {0, 100, 500, 1000, 2000, 4000, 16000, 60000};
      compare_persistent(*runner, *persistent);
    }
    time_persistent(*runner, *persistent, contexts);
    return 0;
  } else if (options.variant == "phases") {
    std::printf("%.3f ms\n", Step(*runner, 1, 100, 1).time_ms(*runner, 100));
  } else if (options.drafter) {
    time_all_guesses(*runner);
  } else if (options.shapes.empty()) {
    time_steps(*runner, bandwidth);
  }
  for (const Shape& s : options.shapes) {
    const double ms = Step(*runner, s.sequences, s.past, s.count).time_ms(*runner, 20);
    std::printf("%d x %d after %d: %7.3f ms per step\n", s.sequences, s.count, s.past, ms);
  }
  return 0;
}

}  // namespace
}  // namespace carat

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr,
                 "usage: bench_cuda_steps CHECKPOINT [default | general | fast | int8 | int4 | kv-f16 | "
                 "kv-int8 | persistent | phases | sm_80 | sm_86 | sm_120 [-int8 | -int4] [DRAFTER | "
                 "SEQUENCES PAST COUNT ...]]\n");
    return 2;
  }
  try {
    carat::Options options{argv[1], argc < 3 ? "" : argv[2]};
    options.format = carat::take_format(options.variant);
    if (argc == 4) options.drafter = argv[3];
    for (int i = 3; i + 2 < argc; i += 3)
      options.shapes.push_back({std::atoi(argv[i]), std::atoi(argv[i + 1]), std::atoi(argv[i + 2])});
    return carat::run(options);
  } catch (const carat::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
