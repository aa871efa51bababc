// `carat eval`: how well a model predicts a text, and how far its predictions are from those of another
// format. The text is cut into windows of the context size; every token of a window but the first is
// predicted from those before.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/engine_setup.h"
#include "api/loaded_model.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "cli/streams.h"
#include "engine/divergence.h"
#include "engine/kv_pages.h"
#include "engine/step_builder.h"
#include "model/formats.h"

namespace carat {
namespace {

/// Of one prediction. All in nats.
struct Prediction {
  double nll = 0;  // -log of the probability of the token that came
  double against_nll = 0;
  double kl = 0;  // of our distribution from the other one's
  bool same_best = false;
};

struct Summary {
  int64_t predictions = 0;
  double nll = 0, nll_squared = 0, against_nll = 0, kl = 0, worst_kl = 0;
  int64_t same_best = 0, worst = 0;  // the prediction with the worst KL

  void add(const Prediction& p) {
    ++predictions;
    nll += p.nll;
    nll_squared += p.nll * p.nll;
    against_nll += p.against_nll;
    kl += p.kl;
    if (p.kl > worst_kl) {
      worst_kl = p.kl;
      worst = predictions - 1;
    }
    same_best += p.same_best;
  }
  double mean(double sum) const { return sum / static_cast<double>(predictions); }
  double perplexity() const { return std::exp(mean(nll)); }
  /// Standard error of the perplexity, to first order. One prediction tells nothing of how they vary.
  std::optional<double> perplexity_error() const {
    if (predictions < 2) return std::nullopt;
    const double variance = std::max(0.0, mean(nll_squared) - mean(nll) * mean(nll));
    return perplexity() * std::sqrt(variance / static_cast<double>(predictions));
  }
};

std::size_t best_of(std::span<const float> logits) {
  return static_cast<std::size_t>(std::ranges::max_element(logits) - logits.begin());
}

Prediction judge(std::span<const float> ours, std::span<const float> other, int32_t next) {
  Prediction p;
  p.nll = log_sum(ours) - ours[static_cast<std::size_t>(next)];
  if (other.empty()) return p;
  p.against_nll = log_sum(other) - other[static_cast<std::size_t>(next)];
  p.kl = kl_divergence(other, ours);
  p.same_best = best_of(ours) == best_of(other);
  return p;
}

/// Steps one or two runners through the same text.
class Evaluator {
 public:
  Evaluator(std::unique_ptr<Runner> ours, std::unique_ptr<Runner> other, int threads)
      : ours_(std::move(ours)),
        other_(std::move(other)),
        pages_(ours_->info().kv_groups, ours_->info().limits),
        pool_(threads) {}

  void score(std::span<const int32_t> window, Summary& summary) {
    const int total = static_cast<int>(window.size()) - 1, chunk = ours_->info().limits.max_step_tokens;
    ScopedPages sequence(pages_);
    for (int past = 0; past < total; past += chunk) {
      const int count = std::min(chunk, total - past);
      if (!pages_.extend(sequence, past, count))
        fail(ErrorKind::unavailable, "the KV pages ran out at token ", past);
      builder_.clear();
      builder_.add(window.subspan(static_cast<std::size_t>(past), static_cast<std::size_t>(count)), past,
                   sequence);
      for (int row = 0; row < count; ++row) builder_.want_logits(row);
      judge_rows(logits_of(*ours_), other_ ? logits_of(*other_) : std::span<const float>{},
                 window.subspan(static_cast<std::size_t>(past) + 1, static_cast<std::size_t>(count)));
      for (const Prediction& prediction : predictions_) summary.add(prediction);
      pages_.release_behind_window(sequence, past + count);
    }
  }

 private:
  std::span<const float> logits_of(Runner& runner) {
    runner.submit(builder_.input());
    return runner.collect().logits;
  }

  void judge_rows(std::span<const float> ours, std::span<const float> other, std::span<const int32_t> next) {
    const auto vocab = static_cast<std::size_t>(ours_->info().vocab);
    predictions_.resize(next.size());
    pool_.run([&](int thread) {
      const IndexRange rows = share_of(static_cast<int64_t>(next.size()), thread, pool_.size());
      for (int64_t row = rows.first; row < rows.last; ++row) {
        const auto at = static_cast<std::size_t>(row);
        predictions_[at] = judge(ours.subspan(at * vocab, vocab),
                                 other.empty() ? other : other.subspan(at * vocab, vocab), next[at]);
      }
    });
  }

  std::unique_ptr<Runner> ours_, other_;
  KvPages pages_;
  ThreadPool pool_;
  StepBuilder builder_;
  std::vector<Prediction> predictions_;
};

/// Rows per step such that a step's logits stay within 64 MiB whatever the vocabulary.
int step_rows(int vocab) {
  constexpr int kLogits = 16 << 20;
  return std::clamp(kLogits / vocab, 1, 512);
}

void check_options(const ModelPlan& plan, const EvalOptions& options) {
  if (options.context > plan.max_positions) {
    fail(ErrorKind::invalid_argument, "--context ", options.context, ": the model has only ",
         plan.max_positions, " positions");
  }
  if (!options.against.empty() && options.device.device != "cpu") {
    fail(ErrorKind::invalid_argument, "--against has no effect on --device ", options.device.device,
         "; drop it");
  }
  const WeightFormat stored = stored_format(plan);
  if (!options.against.empty() && is_quantized(stored)) {
    fail(ErrorKind::invalid_argument, options.model, " holds ", format_name(stored),
         " weights, which can't be compared with another format; drop --against");
  }
}

Evaluator make_evaluator(LoadedModel model, const EvalOptions& options) {
  const RunnerOptions limits =
      exact_kv(model.plan, options.device, options.context, 1, step_rows(model.plan.vocab));
  std::unique_ptr<Runner> other;
  if (!options.against.empty()) {
    DeviceOptions device = options.device;
    device.format = options.against;
    other = make_runner(model.plan, limits, device, loading_bar(options.quiet));
  }
  return Evaluator(make_runner(std::move(model.plan), limits, options.device, loading_bar(options.quiet)),
                   std::move(other), options.device.threads);
}

/// A text in another encoding would be measured as noise.
void warn_of_invalid_utf8(std::string_view text, const std::string& name) {
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Scan scan = scan_utf8(text, at);
    if (scan.state != Utf8Scan::State::whole) {
      return print_message("warning: " + name + ": byte " + std::to_string(at) +
                           " is not UTF-8; it and others like it are read as U+FFFD");
    }
    at += scan.bytes;
  }
}

std::vector<int32_t> read_tokens(const LoadedModel& model, const EvalOptions& options) {
  const bool from_stdin = options.text == "-";
  const std::string name = from_stdin ? "standard input" : options.text;
  const std::string text = from_stdin ? read_stdin() : read_file(options.text);
  if (!options.quiet) warn_of_invalid_utf8(text, name);
  std::vector<int32_t> tokens =
      load_tokenizer(model, warning_printer(options.quiet))->encode(text, SpecialTokens::as_text);
  if (options.tokens > 0 && static_cast<std::size_t>(options.tokens) < tokens.size()) {
    tokens.resize(static_cast<std::size_t>(options.tokens));
  }
  if (tokens.empty()) fail(ErrorKind::invalid_argument, name, ": no text to evaluate");
  return tokens;
}

std::string text_report(const Summary& s, const EvalOptions& options) {
  const auto format = [](const char* pattern, auto... values) {
    char line[256];
    std::snprintf(line, sizeof line, pattern, values...);
    return std::string(line);
  };
  std::string text = format("perplexity  %.4f", s.perplexity());
  if (s.perplexity_error()) text += format(" +- %.4f", *s.perplexity_error());
  text +=
      format(" over %lld token%s\n", static_cast<long long>(s.predictions), s.predictions == 1 ? "" : "s");
  if (options.against.empty()) return text;
  text += format("%-11s %.4f\n", options.against.c_str(), std::exp(s.mean(s.against_nll)));
  text += format("mean KL     %.3e nats\nworst KL    %.3e nats, at token %lld of the text\n", s.mean(s.kl),
                 s.worst_kl, static_cast<long long>(s.worst));
  return text + format("same top-1  %.2f %%\n", 100 * s.mean(static_cast<double>(s.same_best)));
}

std::string json_report(const Summary& s, const EvalOptions& options, const std::string& format) {
  nlohmann::ordered_json report{{"model", options.model},          {"format", format},
                                {"device", options.device.device}, {"context", options.context},
                                {"perplexity", s.perplexity()},    {"perplexity_error", nullptr},
                                {"tokens", s.predictions}};
  if (s.perplexity_error()) report["perplexity_error"] = *s.perplexity_error();
  if (!options.against.empty()) {
    report["against"] = {
        {"format", options.against}, {"perplexity", std::exp(s.mean(s.against_nll))},
        {"mean_kl", s.mean(s.kl)},   {"worst_kl", s.worst_kl},
        {"worst_kl_token", s.worst}, {"same_top_1", s.mean(static_cast<double>(s.same_best))}};
  }
  return report.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

/// Window after window. The bar is gone when it returns.
Summary evaluate(Evaluator& evaluator, const std::vector<int32_t>& tokens, int32_t bos,
                 const EvalOptions& options) {
  Progress progress("evaluating", options.quiet);
  Summary summary;
  const auto step = static_cast<std::size_t>(options.context - 1);
  std::vector<int32_t> window;
  for (std::size_t first = 0; first < tokens.size(); first += step) {
    const std::size_t last = std::min(first + step, tokens.size());
    window.assign(1, bos);
    window.insert(window.end(), tokens.begin() + static_cast<std::ptrdiff_t>(first),
                  tokens.begin() + static_cast<std::ptrdiff_t>(last));
    evaluator.score(window, summary);
    progress.update(static_cast<double>(last) / static_cast<double>(tokens.size()));
  }
  return summary;
}

}  // namespace

int eval_command(const EvalOptions& options) {
  LoadedModel model = load_model(options.model, warning_printer(options.quiet));
  check_options(model.plan, options);
  const std::vector<int32_t> tokens = read_tokens(model, options);
  const int32_t bos = bos_token(model);
  const std::string format =
      options.device.format.empty() ? format_name(stored_format(model.plan)) : options.device.format;
  Evaluator evaluator = make_evaluator(std::move(model), options);
  const Summary summary = evaluate(evaluator, tokens, bos, options);
  write_stdout(options.json ? json_report(summary, options, format) : text_report(summary, options));
  return 0;
}

}  // namespace carat
