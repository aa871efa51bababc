// What Prometheus is told: names and meanings are vLLM's, so that dashboards and autoscalers fit. Counted by
// any thread without locks.
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "engine/request.h"
#include "engine/step_loop.h"

namespace carat {

/// Counts in buckets of rising upper limits, and their sum.
class Histogram {
 public:
  explicit Histogram(std::span<const double> limits) : limits_(limits) {}
  void observe(double value);
  /// The lines of metric `name`, each with `label`.
  std::string text(const std::string& name, const std::string& label) const;

 private:
  static constexpr std::size_t kMostLimits = 24;
  std::span<const double> limits_;
  std::array<std::atomic<uint64_t>, kMostLimits + 1> counts_{};  // not cumulative; the last has no limit
  std::atomic<double> sum_{0};
};

class Metrics {
 public:
  Metrics();

  void count_token(double latency_s, bool first);
  void count_finish(const Finish& finish);
  void count_http(int status);

  /// All of it in Prometheus' text format, version 0.0.4. `stats` may be null before there is an engine.
  std::string text(std::string_view prefix, const std::string& model, const EngineStats* stats) const;

 private:
  Histogram first_token_, next_token_, reply_, queued_, prompt_tokens_, reply_tokens_;
  std::array<std::atomic<uint64_t>, 4> finished_{};  // by FinishReason
  std::array<std::atomic<uint64_t>, 6> http_{};      // by the status' first digit
};

/// Follows the events of one submission on their way to the client.
class ReplyMetrics {
 public:
  /// `replies`: how many will finish.
  ReplyMetrics(Metrics& metrics, int replies) : metrics_(metrics), unfinished_(replies) {}
  /// Replies nobody has read to their end were cancelled.
  ~ReplyMetrics();
  ReplyMetrics(const ReplyMetrics&) = delete;
  ReplyMetrics& operator=(const ReplyMetrics&) = delete;

  void observe(const Event& event);

 private:
  Metrics& metrics_;
  int unfinished_;
  std::map<std::pair<std::size_t, int>, double> drawn_s_;  // the last token of each request and sample
};

}  // namespace carat
