// `carat check`: the proof that a backend computes what transformers computes. Logits come from scoring the
// prompt, greedy tokens from generating, so prefill, decode and the KV pages are all in it.
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include "cli/loaded_model.h"
#include "cli/progress.h"
#include "cli/reference.h"
#include "cli/streams.h"
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
  double greedy_gap = 0;  // at the first difference: our best logit minus that of the reference's token

  bool greedy_differs() const { return greedy_agree < greedy_total; }
  bool ok(double tolerance) const {
    return max_diff <= tolerance && argmax_mismatches == 0 && (!greedy_differs() || greedy_gap < tolerance);
  }
};

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
    const RunnerOptions limits = size_kv(model.plan.kv_groups, context, 1, chunk);
    const EngineOptions settings = engine_options(model);
    return Engine(make_runner(std::move(model.plan), limits, options.device, options.quiet), nullptr,
                  settings);
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
    const auto available = static_cast<int>(reference.greedy.size());
    result.greedy_total = std::min(options_.greedy.value_or(available), available);
    if (result.greedy_total == 0) return;
    Request request;
    request.prompt = reference.ids;
    request.max_tokens = result.greedy_total;
    request.ignore_eos = true;
    const Reply reply = engine_.generate(request, [](const TokenEvent&) { return true; });
    const auto drawn = static_cast<int>(std::min(reply.tokens.size(), reference.greedy.size()));
    while (result.greedy_agree < drawn &&
           reply.tokens[result.greedy_agree] == reference.greedy[result.greedy_agree])
      ++result.greedy_agree;
    if (result.greedy_differs()) result.greedy_gap = gap_after(reference, result.greedy_agree);
  }

  /// How far the reference's greedy token number `count` lies below our best one, after the `count` before
  /// it.
  double gap_after(const PromptReference& reference, int count) {
    std::vector<int32_t> tokens = reference.ids;
    tokens.insert(tokens.end(), reference.greedy.begin(), reference.greedy.begin() + count);
    const auto last = static_cast<int>(tokens.size()) - 1;
    double gap = 0;
    score(engine_.runner(), pages_, tokens, chunk_, [&](int position, std::span<const float> logits) {
      if (position == last) gap = logit_difference(two_best(logits).logit, logits[reference.greedy[count]]);
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

int longest(const std::vector<PromptReference>& prompts) {
  std::size_t longest = 0;
  for (const auto& p : prompts) longest = std::max(longest, p.ids.size() + p.greedy.size());
  return static_cast<int>(longest);
}

std::string json_report(const std::vector<PromptResult>& results, bool ok) {
  nlohmann::ordered_json prompts = nlohmann::ordered_json::object();
  for (const PromptResult& r : results)
    prompts[r.name] = {{"max_diff", r.max_diff},
                       {"argmax_mismatches", r.argmax_mismatches},
                       {"near_ties", r.near_ties},
                       {"greedy_agree", r.greedy_agree},
                       {"greedy_total", r.greedy_total}};
  return nlohmann::ordered_json{{"ok", ok}, {"prompts", prompts}}.dump(2) + "\n";
}

std::string text_line(const PromptResult& r, double tolerance) {
  char line[320];
  int length = std::snprintf(line, sizeof line, "%-12s %6d tokens  max diff %.1e  argmax %d/%d",
                             printable(r.name, 40).c_str(), r.positions, r.max_diff,
                             r.positions - r.near_ties - r.argmax_mismatches, r.positions - r.near_ties);
  std::string text(line, static_cast<std::size_t>(std::clamp(length, 0, int{sizeof line} - 1)));
  if (r.near_ties > 0) text += " (" + std::to_string(r.near_ties) + " near-ties apart)";
  text += "  greedy " + std::to_string(r.greedy_agree) + "/" + std::to_string(r.greedy_total);
  if (r.greedy_differs()) {
    std::snprintf(line, sizeof line,
                  ", first difference is %s: our best logit is %.1e above the reference's token",
                  r.greedy_gap < tolerance ? "a near-tie" : "real", r.greedy_gap);
    text += line;
  }
  return text + (r.ok(tolerance) ? "  ok\n" : "  FAILED\n");
}

}  // namespace

int check_command(const CheckOptions& options) {
  LoadedModel model = load_model(options.model, options.quiet);
  const auto prompts = select(read_reference(options.reference, model.plan.vocab), options);
  Checker checker(std::move(model), options, longest(prompts));

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
  if (options.json) write_stdout(json_report(results, ok));
  return ok ? 0 : 1;
}

}  // namespace carat
