// `carat check`: the proof that a backend computes what transformers computes. Logits come from scoring the
// prompt, greedy tokens from generating, so prefill, decode and the KV pages are all in it.
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "api/engine_setup.h"
#include "api/loaded_model.h"
#include "base/error.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "cli/reference.h"
#include "cli/streams.h"
#include "engine/engine.h"
#include "engine/logit_comparison.h"
#include "engine/score.h"

namespace carat {
namespace {

struct PromptResult {
  std::string name;
  int positions = 0;
  double max_diff = 0;        // of the reference's top logits at the last position
  int argmax_mismatches = 0;  // near-ties apart
  int near_ties = 0;          // positions whose two best logits differ by less than the tolerance
  int greedy_agree = 0;       // tokens before the first difference
  int greedy_total = 0;
  double greedy_gap = 0;     // at the first difference: how far apart the logits of the two tokens are
  std::string greedy_ended;  // why there were fewer tokens than the reference has; empty when there weren't

  bool greedy_differs() const { return greedy_agree < greedy_total; }
  bool near_tie(double tolerance) const { return greedy_ended.empty() && greedy_gap < tolerance; }
  bool ok(double tolerance) const {
    return max_diff <= tolerance && argmax_mismatches == 0 && (!greedy_differs() || near_tie(tolerance));
  }
};

/// Greedy tokens to compare.
int greedy_count(const PromptReference& prompt, const CheckOptions& options) {
  const auto available = static_cast<int>(prompt.greedy.size());
  return std::min(options.greedy.value_or(available), available);
}

std::string why_ended(const Reply& reply) {
  if (reply.finish == FinishReason::error) return reply.error;
  if (reply.finish == FinishReason::length) return "the context is full";
  return "the model stopped";
}

/// Runs one prompt after the other through one engine.
class Checker {
 public:
  Checker(LoadedModel model, const CheckOptions& options, int context)
      : options_(options),
        chunk_(scoring_chunk(model.plan.vocab)),
        engine_(make_engine(std::move(model), options, context, chunk_)),
        pages_(engine_.runner().info().kv_groups, engine_.runner().info().limits) {}

  PromptResult check(const PromptReference& reference, Progress& progress) {
    PromptResult result;
    result.name = reference.name;
    compare_logits(reference, progress, result);
    compare_greedy(reference, result);
    return result;
  }

 private:
  /// Rows per step such that a step's logits stay within 64 MiB whatever the vocabulary.
  static int scoring_chunk(int vocab) {
    constexpr std::size_t kLogitBytes = std::size_t{64} << 20;
    return static_cast<int>(std::clamp<std::size_t>(kLogitBytes / (sizeof(float) * vocab), 1, 512));
  }

  static Engine make_engine(LoadedModel model, const CheckOptions& options, int context, int chunk) {
    const RunnerOptions limits = exact_kv(model.plan, options.device, context, 1, chunk);
    EngineOptions settings = engine_options(model);
    settings.prefix_cache = false;  // score() uses the same pages
    return Engine(make_runner(std::move(model.plan), limits, options.device, loading_bar(options.quiet)),
                  nullptr, settings);
  }

  void compare_logits(const PromptReference& reference, Progress& progress, PromptResult& result) {
    const auto last = static_cast<int>(reference.ids.size()) - 1;
    const auto row = [&](int position, std::span<const float> logits) {
      const TwoBest best = two_best(logits);
      bool near_tie = best.near_tie(options_.tolerance);
      if (position == last) {
        for (std::size_t i = 0; i < reference.top_ids.size(); ++i)
          result.max_diff = std::max(result.max_diff,
                                     logit_difference(logits[reference.top_ids[i]], reference.top_logits[i]));
        near_tie |= reference.top_logits.size() > 1 &&
                    reference.top_logits[0] - reference.top_logits[1] < options_.tolerance;
      }
      ++result.positions;
      if (near_tie) {
        ++result.near_ties;
      } else if (best.token != reference.argmax[position]) {
        ++result.argmax_mismatches;
      }
      progress.update(static_cast<double>(position) / std::max(last, 1));
    };
    score(engine_.runner(), pages_, reference.ids, chunk_, row);
  }

  void compare_greedy(const PromptReference& reference, PromptResult& result) {
    result.greedy_total = greedy_count(reference, options_);
    if (result.greedy_total == 0) return;
    Request request;
    request.prompt = reference.ids;
    request.max_tokens = result.greedy_total;
    request.ignore_eos = true;
    const Reply reply = engine_.generate(request, [](const TokenEvent&) { return true; });
    const auto first = std::ranges::mismatch(reply.tokens, reference.greedy).in1 - reply.tokens.begin();
    result.greedy_agree = static_cast<int>(first);
    if (!result.greedy_differs()) return;
    if (first == std::ssize(reply.tokens)) {
      result.greedy_ended = why_ended(reply);
    } else {
      result.greedy_gap = gap_after(reference, result.greedy_agree, reply.tokens[result.greedy_agree]);
    }
  }

  /// How far the logits of `ours` and of the reference's greedy token number `count` are apart, after the
  /// `count` before it.
  double gap_after(const PromptReference& reference, int count, int32_t ours) {
    std::vector<int32_t> tokens = reference.ids;
    tokens.insert(tokens.end(), reference.greedy.begin(), reference.greedy.begin() + count);
    const auto last = static_cast<int>(tokens.size()) - 1;
    double gap = 0;
    score(engine_.runner(), pages_, tokens, chunk_, [&](int position, std::span<const float> logits) {
      if (position == last) gap = logit_difference(logits[ours], logits[reference.greedy[count]]);
    });
    return gap;
  }

  const CheckOptions& options_;
  int chunk_;
  Engine engine_;
  KvPages pages_;  // of the scoring passes; the engine's own are all free between two generations
};

std::string names(const std::vector<PromptReference>& prompts) {
  std::string list;
  for (const PromptReference& prompt : prompts)
    list += (list.empty() ? "" : ", ") + in_quotes(prompt.name, 40);
  return list;
}

std::vector<PromptReference> select(std::vector<PromptReference> all, const CheckOptions& options) {
  if (options.prompts.empty()) return all;
  std::vector<PromptReference> selected;
  for (const std::string& name : options.prompts) {
    const auto found = std::find_if(all.begin(), all.end(), [&](const auto& p) { return p.name == name; });
    if (found == all.end())
      fail(ErrorKind::invalid_argument, options.reference, ": no prompt ", in_quotes(name), "; it has ",
           names(all));
    selected.push_back(*found);
  }
  return selected;
}

/// Positions that the longest prompt and its continuation need.
int longest(const std::vector<PromptReference>& prompts, const CheckOptions& options, int max_positions) {
  int longest = 0;
  for (const PromptReference& p : prompts) {
    const int count = static_cast<int>(p.ids.size()), greedy = greedy_count(p, options);
    if (count + greedy > max_positions) {
      fail(ErrorKind::invalid_argument, options.reference, ": prompt ", in_quotes(p.name, 40), " has ", count,
           " tokens and ", greedy, " greedy ones; the model has only ", max_positions, " positions");
    }
    longest = std::max(longest, count + greedy);
  }
  return longest;
}

bool quantized(const ModelPlan& plan, const std::string& format) {
  if (!format.empty()) return format != "bf16";
  return is_quantized(stored_format(plan));
}

std::string json_report(const std::vector<PromptResult>& results, bool ok) {
  nlohmann::ordered_json prompts = nlohmann::ordered_json::object();
  for (const PromptResult& r : results)
    prompts[r.name] = {{"max_diff", r.max_diff},
                       {"argmax_mismatches", r.argmax_mismatches},
                       {"near_ties", r.near_ties},
                       {"greedy_agree", r.greedy_agree},
                       {"greedy_total", r.greedy_total}};
  for (const PromptResult& r : results)
    if (!r.greedy_ended.empty()) prompts[r.name]["greedy_ended"] = r.greedy_ended;
  return nlohmann::ordered_json{{"ok", ok}, {"prompts", prompts}}.dump(2) + "\n";
}

std::string text_line(const PromptResult& r, double tolerance) {
  char line[320];
  int length = std::snprintf(line, sizeof line, "%-12s %6d tokens  max diff %.1e  argmax %d/%d",
                             printable(r.name, 40).c_str(), r.positions, r.max_diff,
                             r.positions - r.near_ties - r.argmax_mismatches, r.positions);
  std::string text(line, static_cast<std::size_t>(std::clamp(length, 0, int{sizeof line} - 1)));
  if (r.near_ties > 0)
    text += ", " + std::to_string(r.near_ties) + (r.near_ties == 1 ? " near-tie" : " near-ties");
  text += "  greedy " + std::to_string(r.greedy_agree) + "/" + std::to_string(r.greedy_total);
  if (!r.greedy_ended.empty()) {
    text += ", then no more tokens: " + printable(r.greedy_ended, 120);
  } else if (r.greedy_differs()) {
    std::snprintf(line, sizeof line, ", first difference is %s: the two tokens' logits are %.1e apart",
                  r.near_tie(tolerance) ? "a near-tie" : "real", r.greedy_gap);
    text += line;
  }
  return text + (r.ok(tolerance) ? "  ok\n" : "  FAILED\n");
}

}  // namespace

int check_command(const CheckOptions& options) {
  LoadedModel model = load_model(options.model, warning_printer(options.quiet));
  const auto prompts = select(read_reference(options.reference, model.plan.vocab), options);
  const int context = longest(prompts, options, model.plan.max_positions);
  const bool approximate = quantized(model.plan, options.device.format);
  Checker checker(std::move(model), options, context);

  std::vector<PromptResult> results;
  bool ok = true;
  for (const PromptReference& prompt : prompts) {
    {
      Progress progress(prompt.name, options.quiet);
      results.push_back(checker.check(prompt, progress));
    }
    ok = ok && results.back().ok(options.tolerance);
    if (!options.json) write_stdout(text_line(results.back(), options.tolerance));
  }
  if (options.json) {
    write_stdout(json_report(results, ok));
  } else if (!ok && approximate) {
    write_stdout(
        "The tolerance is meant for unquantised weights; carat eval measures what int8 and int4 lose.\n");
  }
  return ok ? 0 : 1;
}

}  // namespace carat
