// `carat bench`: the time to load, to read a prompt and to generate, beside the memory bandwidth that bounds
// the latter.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/random.h"
#include "cli/commands.h"
#include "cli/loaded_model.h"
#include "cli/progress.h"
#include "cli/read_bandwidth.h"
#include "cli/streams.h"
#include "cli/units.h"

namespace carat {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Measurement {
  double load_s = 0;
  double first_token_s = 0;  // of the first sequence to have one, from the start of the prompt
  double prefill_tok_s = 0, decode_tok_s = 0;  // of all sequences together
  double ms_per_token = 0;                     // of one sequence
  std::size_t bytes_per_token = 0;
  std::optional<double> read_bandwidth_bytes_s;  // absent when it can't be measured from here
  std::size_t peak_rss_bytes = 0;
  std::string device;
  int threads = 0;

  /// Of the read bandwidth that decoding achieves; a step reads the weights once for all sequences.
  std::optional<double> bandwidth_fraction() const {
    if (!read_bandwidth_bytes_s || ms_per_token <= 0) return std::nullopt;
    return static_cast<double>(bytes_per_token) / (ms_per_token / 1000) / *read_bandwidth_bytes_s;
  }
};

/// bos, then random ids: throughput doesn't depend on what the text says.
std::vector<int32_t> random_prompt(int tokens, int vocab, int32_t bos, uint64_t seed) {
  std::vector<int32_t> ids{bos};
  for (int i = 1; i < tokens; ++i)
    ids.push_back(
        static_cast<int32_t>(random_bits(seed, static_cast<uint64_t>(i)) % static_cast<uint64_t>(vocab)));
  return ids;
}

struct Timings {
  double first_token_s = 0;  // of the first sequence
  double prefill_s = 0;      // until every sequence has a token
  double decode_s = 0;       // from then on
  int decoded = 0;           // tokens drawn from then on
};

/// Prefills `batch` prompts of `prompt_tokens` and draws `tokens` for each.
Timings generate(Engine& engine, const BenchOptions& options, int prompt_tokens, int tokens, int32_t bos,
                 Progress& progress) {
  std::vector<Request> requests(static_cast<std::size_t>(options.batch));
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i].prompt = random_prompt(prompt_tokens, engine.runner().info().vocab, bos, options.seed + i);
    requests[i].max_tokens = tokens;
    requests[i].ignore_eos = true;
  }
  Timings timings;
  std::vector<bool> started(requests.size());
  int waiting = options.batch, drawn = 0;
  const auto start = Clock::now();
  const auto replies = engine.generate(requests, [&](const TokenEvent& event) {
    progress.update(static_cast<double>(++drawn) / (static_cast<double>(tokens) * options.batch));
    if (waiting == 0) {
      ++timings.decoded;
    } else if (!started[event.request]) {
      started[event.request] = true;
      const double now = seconds_since(start);
      if (waiting == options.batch) timings.first_token_s = now;
      if (--waiting == 0) timings.prefill_s = now;
    }
    return true;
  });
  timings.decode_s = seconds_since(start) - timings.prefill_s;
  for (const Reply& reply : replies)
    if (reply.finish == FinishReason::error) fail(ErrorKind::corrupt, reply.error);
  return timings;
}

std::size_t peak_rss_bytes() {
  struct rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::size_t>(usage.ru_maxrss) * 1024;
}

/// Of the model alone: returns with its memory freed, so that the bandwidth is measured on a quiet machine.
Measurement measure_model(const BenchOptions& options) {
  const int context = options.context.value_or(options.prompt);
  Measurement m;
  const auto start = Clock::now();
  LoadedModel model = load_model(options.model);
  const int32_t bos = bos_token(model);
  const int longest = static_cast<int>(std::min<int64_t>(
      int64_t{std::max(options.prompt, context)} + options.tokens, model.plan.max_positions));
  const RunnerOptions limits = size_kv(model.plan.kv_groups, longest, options.batch,
                                       std::max(options.batch, std::min(options.prompt, 512)));
  EngineOptions settings = engine_options(model);
  Engine engine(make_runner(std::move(model.plan), limits, options.device, options.quiet), nullptr, settings);
  m.load_s = seconds_since(start);

  Timings prefill, decode;
  {
    Progress progress("bench", options.quiet);
    const bool apart = context != options.prompt;
    prefill = generate(engine, options, options.prompt, apart ? 1 : options.tokens, bos, progress);
    decode = apart ? generate(engine, options, context, options.tokens, bos, progress) : prefill;
  }
  const RunnerInfo& info = engine.runner().info();
  m.device = info.device;
  m.first_token_s = prefill.first_token_s;
  m.prefill_tok_s = static_cast<double>(options.prompt) * options.batch / prefill.prefill_s;
  if (decode.decoded > 0) {
    m.decode_tok_s = decode.decoded / decode.decode_s;
    m.ms_per_token = 1000 * options.batch / m.decode_tok_s;
  }
  m.bytes_per_token = info.weight_bytes_per_token;
  m.peak_rss_bytes = peak_rss_bytes();
  return m;
}

std::string json_report(const BenchOptions& options, const Measurement& m) {
  const auto number = [](std::optional<double> value) {
    return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
  };
  const nlohmann::ordered_json report{{"load_s", m.load_s},
                                      {"first_token_s", m.first_token_s},
                                      {"prefill_tok_s", m.prefill_tok_s},
                                      {"decode_tok_s", m.decode_tok_s},
                                      {"ms_per_token", m.ms_per_token},
                                      {"bytes_per_token", m.bytes_per_token},
                                      {"read_bandwidth_bytes_s", number(m.read_bandwidth_bytes_s)},
                                      {"bandwidth_fraction", number(m.bandwidth_fraction())},
                                      {"peak_rss_bytes", m.peak_rss_bytes},
                                      {"model", options.model},
                                      {"device", m.device},
                                      {"threads", m.threads},
                                      {"format", options.device.format},
                                      {"prompt", options.prompt},
                                      {"context", options.context.value_or(options.prompt)},
                                      {"tokens", options.tokens},
                                      {"batch", options.batch},
                                      {"seed", options.seed}};
  return report.dump(2) + "\n";
}

std::string text_report(const BenchOptions& options, const Measurement& m) {
  char line[256];
  std::string text = "device      " + m.device;
  if (m.threads > 0) text += ", " + std::to_string(m.threads) + (m.threads == 1 ? " thread" : " threads");
  std::snprintf(line, sizeof line,
                "\nload        %.3f s\nprefill     %.1f tok/s (%d x %d tokens, first token after %.3f s)\n",
                m.load_s, m.prefill_tok_s, options.batch, options.prompt, m.first_token_s);
  text += line;
  if (m.ms_per_token > 0) {
    std::snprintf(line, sizeof line, "decode      %.1f tok/s (%d x %d tokens, %.2f ms per token)\n",
                  m.decode_tok_s, options.batch, options.tokens, m.ms_per_token);
    text += line;
  }
  text += "weights     " + format_si(static_cast<double>(m.bytes_per_token), "B") + " per step";
  if (const auto fraction = m.bandwidth_fraction()) {
    std::snprintf(line, sizeof line, ": %s of %s, %.0f %% of the read bandwidth",
                  format_si(*fraction * *m.read_bandwidth_bytes_s, "B/s").c_str(),
                  format_si(*m.read_bandwidth_bytes_s, "B/s").c_str(), *fraction * 100);
    text += line;
  }
  return text + "\npeak memory " + format_si(static_cast<double>(m.peak_rss_bytes), "B") + "\n";
}

}  // namespace

int bench_command(const BenchOptions& options) {
  Measurement m = measure_model(options);
  m.threads = reading_threads(options.device);
  if (m.threads > 0) {
    const double measured = measure_read_bandwidth(m.threads);
    if (measured > 0) m.read_bandwidth_bytes_s = measured;
  }
  write_stdout(options.json ? json_report(options, m) : text_report(options, m));
  return 0;
}

}  // namespace carat
