#include "cli/bench_report.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "cli/units.h"

namespace carat {
namespace {

using nlohmann::ordered_json;

template <class... Values>
std::string line(const char* format, Values... values) {
  char text[256];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

double prefill_rate(const BenchOptions& options, const Measurement& m) {
  return static_cast<double>(options.prompt) * options.batch / m.prefill_s;
}

double decode_rate(const BenchOptions& options, const Measurement& m) {
  return m.median_step_ms > 0 ? 1000 * options.batch / m.median_step_ms : 0;
}

ordered_json number(std::optional<double> value) { return value ? ordered_json(*value) : ordered_json(); }

/// A phase in the mean of the steps that had it.
struct PhaseMean {
  const char* name;
  double times, ms, waiting_ms;
};

std::vector<PhaseMean> means_of(const PhaseTimes& times) {
  std::vector<PhaseMean> means;
  for (std::size_t i = 0; i < times.phases.size(); ++i) {
    const PhaseTime& time = times.phases[i];
    if (time.times > 0)
      means.push_back({phase_name(static_cast<Phase>(i)), static_cast<double>(time.times) / times.steps,
                       1000 * time.seconds / times.steps, 1000 * time.waiting_seconds / times.steps});
  }
  return means;
}

bool knows_waiting(const PhaseTimes& times) {
  return std::ranges::any_of(times.phases, [](const PhaseTime& time) { return time.waiting_seconds > 0; });
}

ordered_json phases_of(const PhaseTimes& times) {
  ordered_json phases = ordered_json::object();
  const bool waiting = knows_waiting(times);
  for (const PhaseMean& mean : means_of(times)) {
    phases[mean.name] = {{"times", mean.times}, {"ms", mean.ms}};
    if (waiting) phases[mean.name]["waiting_ms"] = mean.waiting_ms;
  }
  return {{"steps", times.steps}, {"phases", phases}};
}

std::string phase_table(const char* title, const PhaseTimes& times, bool gpu) {
  if (times.steps == 0) return "";
  const std::vector<PhaseMean> means = means_of(times);
  const double total = std::accumulate(means.begin(), means.end(), 0.,
                                       [](double sum, const PhaseMean& mean) { return sum + mean.ms; });
  const bool waiting = knows_waiting(times);
  std::string text = line("\n%s, mean of %d: %.3f ms\n", title, times.steps, total);
  for (const PhaseMean& mean : means) {
    text += line("  %-22s %6.4g x %9.4f = %9.4f ms  %5.1f %%", mean.name, mean.times, mean.ms / mean.times,
                 mean.ms, 100 * mean.ms / total);
    text += waiting ? line(", waiting %9.4f ms\n", mean.waiting_ms) : "\n";
  }
  if (waiting)
    text +=
        "One kernel, by timers of one multiprocessor. It waits until others have ended the phase in front,\n"
        "and for weights.\n";
  else if (gpu)
    text +=
        "Kernels one at a time, with an event around each phase: overlapped in the graph, so the sum "
        "exceeds\n"
        "the step above.\n";
  return text;
}

std::string phase_report(const Measurement& m) {
  const bool gpu = m.threads == 0;
  return phase_table("phases of a step of single tokens", m.phases->decoding, gpu) +
         phase_table("phases of a step with prompt tokens", m.phases->prompts, gpu);
}

std::string weights_line(const Measurement& m) {
  std::string text =
      "weights     " + format_si(static_cast<double>(m.bytes_per_token), "B") + " per step, " + m.format;
  if (m.median_step_ms <= 0) return text;
  text += ": " + format_si(m.decode_bytes_s(), "B/s");
  if (const auto fraction = m.bandwidth_fraction()) {
    text += line(", %.0f %% of the read bandwidth (%s, best %s)", *fraction * 100,
                 format_si(*m.read_bandwidth_bytes_s, "B/s").c_str(),
                 format_si(m.best_read_bandwidth_bytes_s, "B/s").c_str());
  } else if (m.weights_in_cache()) {
    text += "; they fit into a cache, so the read bandwidth of memory is no bound";
  }
  return text;
}

}  // namespace

bool Measurement::weights_in_cache() const {
  if (cache_bytes > 0) return bytes_per_token <= cache_bytes;
  constexpr double kFarAbove = 1.5;  // a plain read varies, but not by this much
  return read_bandwidth_bytes_s && median_step_ms > 0 &&
         decode_bytes_s() > kFarAbove * best_read_bandwidth_bytes_s;
}

std::optional<double> Measurement::bandwidth_fraction() const {
  if (!read_bandwidth_bytes_s || median_step_ms <= 0 || weights_in_cache()) return std::nullopt;
  return decode_bytes_s() / *read_bandwidth_bytes_s;
}

std::optional<double> Measurement::matrix_fraction(int batch) const {
  if (!matrix_rate) return std::nullopt;
  return prompt_operations * batch / prefill_s / *matrix_rate;
}

std::string json_report(const BenchOptions& options, const Measurement& m) {
  ordered_json report{{"load_s", m.load_s},
                      {"first_token_s", m.first_token_s},
                      {"prefill_tok_s", prefill_rate(options, m)},
                      {"decode_tok_s", decode_rate(options, m)},
                      {"ms_per_token", m.median_step_ms},
                      {"median_step_ms", m.median_step_ms},
                      {"mean_step_ms", m.mean_step_ms},
                      {"bytes_per_token", m.bytes_per_token},
                      {"read_bandwidth_bytes_s", number(m.read_bandwidth_bytes_s)},
                      {"best_read_bandwidth_bytes_s", m.best_read_bandwidth_bytes_s},
                      {"bandwidth_fraction", number(m.bandwidth_fraction())},
                      {"cache_bytes", m.cache_bytes},
                      {"prompt_operations", m.prompt_operations},
                      {"matrix_rate_operations_s", number(m.matrix_rate)},
                      {"matrix_fraction", number(m.matrix_fraction(options.batch))},
                      {"peak_rss_bytes", m.memory.resident_bytes},
                      {"anonymous_bytes", m.memory.anonymous_bytes},
                      {"model", options.model},
                      {"device", m.device},
                      {"threads", m.threads},
                      {"format", m.format},
                      {"prompt", options.prompt},
                      {"context", options.context.value_or(options.prompt)},
                      {"tokens", options.tokens},
                      {"batch", options.batch},
                      {"seed", options.seed}};
  if (m.phases)
    report["phases"] = {{"decoding", phases_of(m.phases->decoding)},
                        {"prompts", phases_of(m.phases->prompts)}};
  return report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string text_report(const BenchOptions& options, const Measurement& m) {
  std::string text = "device      " + m.device;
  if (m.threads > 0) text += ", " + std::to_string(m.threads) + (m.threads == 1 ? " thread" : " threads");
  text += line("\nload        %.3f s\nprefill     %.1f tok/s (%d x %d tokens, first token after %.3f s)",
               m.load_s, prefill_rate(options, m), options.batch, options.prompt, m.first_token_s);
  if (const auto fraction = m.matrix_fraction(options.batch))
    text +=
        line(": %s, %.0f %% of the matrix rate (%s)", format_si(*fraction * *m.matrix_rate, "FLOP/s").c_str(),
             *fraction * 100, format_si(*m.matrix_rate, "FLOP/s").c_str());
  text += "\n";
  if (m.median_step_ms > 0)
    text += line("decode      %.1f tok/s (%d x %d tokens, median step %.3g ms, mean %.3g ms)\n",
                 decode_rate(options, m), options.batch, options.tokens, m.median_step_ms, m.mean_step_ms);
  text += weights_line(m);
  text += "\nmemory      " + format_si(static_cast<double>(m.memory.resident_bytes), "B") + " at most";
  if (m.memory.anonymous_bytes > 0)
    text += ", " + format_si(static_cast<double>(m.memory.anonymous_bytes), "B") + " of it not files";
  text += "\n";
  if (m.phases) text += phase_report(m);
  return text;
}

}  // namespace carat
