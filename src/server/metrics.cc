#include "server/metrics.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace carat {
namespace {

constexpr double kFirstTokenLimits[] = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5,
                                        0.75,  1,     2.5,  5,    7.5,  10,   20,   40,  80,   160};
constexpr double kNextTokenLimits[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2,
                                       0.3,   0.4,    0.5,   0.75, 1,     2.5,  5,     7.5, 10,   20};
constexpr double kReplyLimits[] = {0.05, 0.1, 0.3, 0.5, 0.8, 1,  1.5, 2,   2.5, 5,
                                   10,   15,  20,  30,  40,  60, 120, 240, 480, 960};
constexpr double kTokenLimits[] = {1,   2,    5,    10,   20,    50,    100,   200,
                                   500, 1000, 2000, 5000, 10000, 20000, 50000, 100000};
constexpr const char* kFinishNames[] = {"stop", "length", "abort", "error"};  // by FinishReason

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

/// A label's value as Prometheus reads it.
std::string escaped(const std::string& value) {
  std::string text;
  for (const char c : value) {
    if (c == '\n') {
      text += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') text += '\\';
    text += c;
  }
  return text;
}

/// Writes metrics one after another, all with the label of the model.
class Writer {
 public:
  Writer(std::string_view prefix, const std::string& model)
      : prefix_(prefix), label_("model_name=\"" + escaped(model) + "\"") {}

  void add(const char* kind, const std::string& name, const char* meaning, double value) {
    head(kind, name, meaning);
    line(name, "", value);
  }
  void head(const char* kind, const std::string& name, const char* meaning) {
    text_ += "# HELP " + full(name) + " " + meaning + "\n# TYPE " + full(name) + " " + kind + "\n";
  }
  void line(const std::string& name, const std::string& label, double value) {
    text_ += full(name) + "{" + label_ + (label.empty() ? "" : "," + label) + "} " + number(value) + "\n";
  }
  void histogram(const std::string& name, const char* meaning, const Histogram& histogram) {
    head("histogram", name, meaning);
    text_ += histogram.text(full(name), label_);
  }
  std::string take() { return std::move(text_); }

 private:
  std::string full(const std::string& name) const { return prefix_ + ":" + name; }

  std::string prefix_, label_, text_;
};

double used_share(const EngineStats& stats) {
  double used = 0;  // of the fuller group
  for (std::size_t g = 0; g < stats.total_pages.size(); ++g) {
    if (stats.total_pages[g] > 0)
      used = std::max(used, 1. - static_cast<double>(stats.free_pages[g]) / stats.total_pages[g]);
  }
  return used;
}

void add_engine(Writer& out, const EngineStats& stats) {
  const auto count = [](int64_t value) { return static_cast<double>(value); };
  out.add("gauge", "num_requests_running", "Replies being computed.", stats.running);
  out.add("gauge", "num_requests_waiting", "Replies waiting to be computed.", stats.waiting);
  out.add("gauge", "kv_cache_usage_perc", "Share of the KV memory in use; 1 is all of it.",
          used_share(stats));
  out.add("counter", "num_preemptions_total", "Replies that gave way and were computed again.",
          count(stats.preemptions));
  out.add("counter", "prompt_tokens_total", "Prompt tokens, those found in the cache included.",
          count(stats.prompt_tokens + stats.cached_tokens));
  out.add("counter", "generation_tokens_total", "Tokens of replies that ended.", count(stats.reply_tokens));
  out.add("counter", "prefix_cache_queries_total", "Prompt tokens looked up in the cache.",
          count(stats.prompt_tokens + stats.cached_tokens));
  out.add("counter", "prefix_cache_hits_total", "Prompt tokens found in the cache.",
          count(stats.cached_tokens));
  out.add("counter", "spec_decode_num_draft_tokens_total", "Tokens guessed ahead.",
          count(stats.drafted_tokens));
  out.add("counter", "spec_decode_num_accepted_tokens_total", "Guesses that were right.",
          count(stats.accepted_tokens));
  out.add("counter", "engine_steps_total", "Passes of the model.", count(stats.steps));
}

}  // namespace

void Histogram::observe(double value) {
  const auto bucket = std::ranges::lower_bound(limits_, value) - limits_.begin();
  counts_[static_cast<std::size_t>(bucket)].fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(value, std::memory_order_relaxed);
}

std::string Histogram::text(const std::string& name, const std::string& label) const {
  std::string text;
  uint64_t total = 0;
  for (std::size_t i = 0; i <= limits_.size(); ++i) {
    total += counts_[i].load(std::memory_order_relaxed);
    const std::string limit = i < limits_.size() ? number(limits_[i]) : "+Inf";
    text += name + "_bucket{" + label + ",le=\"" + limit + "\"} " + std::to_string(total) + "\n";
  }
  text += name + "_sum{" + label + "} " + number(sum_.load(std::memory_order_relaxed)) + "\n";
  return text + name + "_count{" + label + "} " + std::to_string(total) + "\n";
}

Metrics::Metrics()
    : first_token_(kFirstTokenLimits),
      next_token_(kNextTokenLimits),
      reply_(kReplyLimits),
      queued_(kReplyLimits),
      prompt_tokens_(kTokenLimits),
      reply_tokens_(kTokenLimits) {}

void Metrics::count_token(double latency_s, bool first) {
  (first ? first_token_ : next_token_).observe(latency_s);
}

void Metrics::count_finish(const Finish& finish) {
  finished_[static_cast<std::size_t>(finish.reason)].fetch_add(1, std::memory_order_relaxed);
  reply_.observe(finish.total_s);
  queued_.observe(finish.queued_s);
  prompt_tokens_.observe(finish.usage.prompt_tokens);
  reply_tokens_.observe(finish.usage.reply_tokens);
}

void Metrics::count_http(int status) {
  const int digit = std::clamp(status / 100, 0, static_cast<int>(http_.size()) - 1);
  http_[static_cast<std::size_t>(digit)].fetch_add(1, std::memory_order_relaxed);
}

std::string Metrics::text(std::string_view prefix, const std::string& model, const EngineStats* stats) const {
  Writer out(prefix, model);
  if (stats) add_engine(out, *stats);
  out.head("counter", "request_success_total", "Replies that ended, by reason.");
  for (std::size_t i = 0; i < finished_.size(); ++i) {
    out.line("request_success_total", std::string("finished_reason=\"") + kFinishNames[i] + "\"",
             static_cast<double>(finished_[i].load(std::memory_order_relaxed)));
  }
  out.head("counter", "http_requests_total", "HTTP requests by class of status; 0xx: no reply began.");
  for (std::size_t i = 0; i < http_.size(); ++i) {
    out.line("http_requests_total", "status=\"" + std::to_string(i) + "xx\"",
             static_cast<double>(http_[i].load(std::memory_order_relaxed)));
  }
  out.histogram("time_to_first_token_seconds", "From a request's arrival to its first token.", first_token_);
  out.histogram("inter_token_latency_seconds", "Between two tokens of a reply.", next_token_);
  out.histogram("e2e_request_latency_seconds", "From a request's arrival to its reply's end.", reply_);
  out.histogram("request_queue_time_seconds", "From a request's arrival to its first step.", queued_);
  out.histogram("request_prompt_tokens", "Tokens of a request's prompt.", prompt_tokens_);
  out.histogram("request_generation_tokens", "Tokens of a reply.", reply_tokens_);
  return out.take();
}

ReplyMetrics::~ReplyMetrics() {
  Finish cancelled;
  cancelled.reason = FinishReason::cancelled;
  for (; unfinished_ > 0; --unfinished_) metrics_.count_finish(cancelled);
}

void ReplyMetrics::observe(const Event& event) {
  if (event.token >= 0) {
    const auto [last, first] = drawn_s_.try_emplace({event.request, event.sample}, 0.);
    metrics_.count_token(event.drawn_s - last->second, first);
    last->second = event.drawn_s;
  }
  if (!event.finish) return;
  metrics_.count_finish(*event.finish);
  --unfinished_;
}

}  // namespace carat
