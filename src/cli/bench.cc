// `carat bench`: the time to load, to read a prompt and to generate, beside what bounds them.
#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/engine_setup.h"
#include "api/loaded_model.h"
#include "base/error.h"
#include "base/random.h"
#include "cli/bench_report.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "cli/read_bandwidth.h"
#include "cli/streams.h"
#include "engine/engine.h"
#include "model/formats.h"
#include "model/operations.h"

namespace carat {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// bos, then random ids: throughput doesn't depend on what the text says.
std::vector<int32_t> random_prompt(int tokens, int vocab, int32_t bos, uint64_t seed) {
  std::vector<int32_t> ids{bos};
  for (int i = 1; i < tokens; ++i)
    ids.push_back(
        static_cast<int32_t>(random_bits(seed, static_cast<uint64_t>(i)) % static_cast<uint64_t>(vocab)));
  return ids;
}

/// Of this process, now; zeros when unknown.
MemoryUse memory_use() {
  MemoryUse memory;
  std::ifstream status("/proc/self/status");
  std::string rest;
  for (std::string key; status >> key; std::getline(status, rest)) {
    std::size_t kib = 0;
    if (key == "VmRSS:" && status >> kib) memory.resident_bytes = kib * 1024;
    if (key == "RssAnon:" && status >> kib) memory.anonymous_bytes = kib * 1024;
  }
  return memory;
}

struct Timings {
  double first_token_s = 0;     // of the first sequence
  double prefill_s = 0;         // until every sequence has a token
  double decode_s = 0;          // from then on
  int decoded = 0;              // tokens drawn from then on
  std::vector<double> steps_s;  // between the tokens of the sequence that had its first one last
  MemoryUse memory;             // with all prompts read; nothing grows after that
};

/// Takes the time of generation apart by when the engine drew each token; here they may arrive in bunches.
class Stopwatch {
 public:
  explicit Stopwatch(int sequences) : started_(static_cast<std::size_t>(sequences)), waiting_(sequences) {}

  void token(std::size_t sequence, double now) {
    last_ = now;
    if (waiting_ == 0) {
      ++timings_.decoded;
      if (sequence != last_started_) return;
      timings_.steps_s.push_back(now - step_start_);
    } else {
      if (started_[sequence]) return;
      started_[sequence] = true;
      if (waiting_ == static_cast<int>(started_.size())) timings_.first_token_s = now;
      if (--waiting_ > 0) return;
      last_started_ = sequence;
      timings_.prefill_s = now;
      timings_.memory = memory_use();
    }
    step_start_ = now;
  }

  Timings stop() {
    timings_.decode_s = last_ - timings_.prefill_s;
    return std::move(timings_);
  }

 private:
  std::vector<bool> started_;
  int waiting_;  // sequences without a token
  std::size_t last_started_ = 0;
  double step_start_ = 0, last_ = 0;
  Timings timings_;
};

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// Prefills `batch` prompts of `prompt_tokens` and draws `tokens` for each.
Timings generate(Engine& engine, const BenchOptions& options, int prompt_tokens, int tokens, int32_t bos,
                 Progress& progress) {
  std::vector<Request> requests(static_cast<std::size_t>(options.batch));
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i].prompt = random_prompt(prompt_tokens, engine.runner().info().vocab, bos, options.seed + i);
    requests[i].max_tokens = tokens;
    requests[i].ignore_eos = true;
  }
  int drawn = 0;
  Stopwatch stopwatch(options.batch);
  const auto replies = engine.generate(requests, [&](const TokenEvent& event) {
    progress.update(static_cast<double>(++drawn) / (static_cast<double>(tokens) * options.batch));
    stopwatch.token(event.request, event.drawn_s);
    return true;
  });
  const Timings timings = stopwatch.stop();
  for (const Reply& reply : replies)
    if (reply.finish == FinishReason::error) fail(ErrorKind::corrupt, reply.error);
  return timings;
}

/// Tokens of the longest sequence of the measurement.
int longest_sequence(const BenchOptions& options, int max_positions) {
  const int cached = std::max(options.prompt, options.context.value_or(0));
  const int64_t needed = int64_t{cached} + options.tokens;
  if (needed > max_positions) {
    fail(ErrorKind::invalid_argument, cached > options.prompt ? "--context " : "--prompt ", cached,
         " and --tokens ", options.tokens, " need ", needed, " positions; the model has only ",
         max_positions);
  }
  return static_cast<int>(needed);
}

/// Of the memory that the weights lie in, one or several measurements.
std::vector<double> bandwidth_of(const DeviceOptions& device) {
  const int threads = reading_threads(device);
  if (threads > 0) return sample_read_bandwidth(threads);
  const std::optional<double> gpu = gpu_read_bandwidth(device);
  return gpu ? std::vector<double>{*gpu} : std::vector<double>();
}

Measurement measure_model(const BenchOptions& options) {
  const int context = options.context.value_or(options.prompt);
  Measurement m;
  const auto start = Clock::now();
  LoadedModel model = load_model(options.model, warning_printer(false));
  const int32_t bos = bos_token(model);
  m.format = options.device.format.empty() ? format_name(stored_format(model.plan)) : options.device.format;
  m.prompt_operations = prompt_operations(model.plan, options.prompt);
  const int longest = longest_sequence(options, model.plan.max_positions);
  const auto prompts = int64_t{options.prompt} * options.batch;
  const int step_tokens = static_cast<int>(std::min<int64_t>(prompts, prompt_step_tokens(options.device)));
  const RunnerOptions limits =
      exact_kv(model.plan, options.device, longest, options.batch, std::max(options.batch, step_tokens));
  EngineOptions settings = engine_options(model);
  settings.slowdown = 0;  // prefill is timed by itself
  settings.prefix_cache = false;
  Engine engine(make_runner(std::move(model.plan), limits, options.device, loading_bar(options.quiet)),
                nullptr, settings);
  m.load_s = seconds_since(start);
  if (options.phases) engine.runner().time_phases(false);  // whether it can, before all the rest
  m.threads = reading_threads(options.device);
  const MemoryUse loaded = memory_use();
  std::vector<double> bandwidth = bandwidth_of(options.device);
  m.matrix_rate = gpu_matrix_rate(options.device);
  m.cache_bytes = cache_bytes(options.device);

  Timings prefill, decode;
  {
    Progress progress("bench", options.quiet);
    const bool apart = context != options.prompt;
    // A GPU loads a kernel when it is first used, and records a step's launches when its shape comes again.
    const int untimed = m.threads == 0 ? 2 : 0;
    for (int i = 0; i < untimed; ++i) generate(engine, options, options.prompt, 1, bos, progress);
    prefill = generate(engine, options, options.prompt, apart ? 1 : options.tokens, bos, progress);
    decode = apart ? generate(engine, options, context, options.tokens, bos, progress) : prefill;
    if (options.phases) {
      engine.runner().time_phases(true);
      generate(engine, options, context, options.tokens, bos, progress);
      m.phases = engine.runner().phase_times();
    }
  }
  std::ranges::copy(bandwidth_of(options.device), std::back_inserter(bandwidth));
  const RunnerInfo& info = engine.runner().info();
  m.device = info.device;
  m.first_token_s = prefill.first_token_s;
  m.prefill_s = prefill.prefill_s;
  if (decode.decoded > 0) {
    m.median_step_ms = 1000 * median(decode.steps_s);
    m.mean_step_ms = 1000 * options.batch * decode.decode_s / decode.decoded;
  }
  if (!bandwidth.empty()) {
    m.read_bandwidth_bytes_s = median(bandwidth);
    m.best_read_bandwidth_bytes_s = *std::ranges::max_element(bandwidth);
  }
  m.bytes_per_token = info.weight_bytes_per_token;
  m.memory.resident_bytes = std::max(loaded.resident_bytes, decode.memory.resident_bytes);
  m.memory.anonymous_bytes = std::max(loaded.anonymous_bytes, decode.memory.anonymous_bytes);
  return m;
}

}  // namespace

int bench_command(const BenchOptions& options) {
  const Measurement m = measure_model(options);
  write_stdout(options.json ? json_report(options, m) : text_report(options, m));
  return 0;
}

}  // namespace carat
