#include "support/golden.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "engine/kv_pages.h"
#include "engine/logit_comparison.h"
#include "engine/score.h"
#include "engine/step_builder.h"
#include "io/model_config.h"
#include "io/safetensors.h"
#include "model/gemma4_plan.h"

namespace carat {
namespace {

const std::filesystem::path kSource = CARAT_SOURCE_DIR;

}  // namespace

std::filesystem::path test_checkpoint(const std::string& name) {
  return name == "demo" ? kSource / "models/demo" : kSource / "tests/data" / name;
}

ModelPlan load_test_plan(const std::string& name) {
  const std::filesystem::path directory = test_checkpoint(name);
  return make_plan(load_model_config(directory), Checkpoint::open(directory));
}

ModelPlan load_drafting_plan(const std::string& name) {
  ModelPlan plan = load_test_plan(name);
  const std::filesystem::path directory = test_checkpoint(name + "-drafter");
  plan.drafter = make_drafter_plan(plan, load_drafter_config(directory), Checkpoint::open(directory));
  return plan;
}

std::vector<GoldenDrafts> load_golden_drafts(const std::string& name) {
  std::ifstream file(kSource / "tests/data" / ("ref_" + name + "-drafter_f32.json"));
  const nlohmann::json golden = nlohmann::json::parse(file);
  std::vector<GoldenDrafts> prompts;
  for (const auto& [prompt, value] : golden.at("prompts").items()) {
    GoldenDrafts& one =
        prompts.emplace_back(GoldenDrafts{prompt, value.at("ids"), value.at("draft").at("token"), {}, {}});
    for (const auto& step : value.at("draft").at("steps")) one.drafts.push_back(step.at("token"));
    one.greedy = value.at("greedy").get<std::vector<int32_t>>();
  }
  CHECK(!prompts.empty());
  return prompts;
}

std::vector<GoldenPrompt> load_golden(const std::string& name) {
  std::ifstream file(kSource / "tests/data" / ("ref_" + name + "_f32.json"));
  const nlohmann::json golden = nlohmann::json::parse(file);
  std::vector<GoldenPrompt> prompts;
  for (const auto& [prompt, value] : golden.at("prompts").items()) {
    prompts.push_back({prompt, value.at("ids"), value.at("top_ids"), value.at("top_logits"),
                       value.at("argmax"), value.at("greedy")});
  }
  CHECK(!prompts.empty());
  return prompts;
}

GoldenComparison compare(Runner& runner, const ModelPlan& plan, const GoldenPrompt& prompt, int chunk,
                         float tolerance) {
  GoldenComparison result;
  KvPages pages(plan.kv_groups, runner.info().limits);
  score(runner, pages, prompt.ids, chunk, [&](int position, std::span<const float> logits) {
    const TwoBest best = two_best(logits);
    if (best.token != prompt.argmax[static_cast<std::size_t>(position)] && !best.near_tie(tolerance)) {
      ++result.argmax_mismatches;
    }
    if (position + 1 < static_cast<int>(prompt.ids.size())) return;
    for (std::size_t i = 0; i < prompt.top_ids.size(); ++i) {
      const double difference = logit_difference(logits[prompt.top_ids[i]], prompt.top_logits[i]);
      result.max_difference = std::max(result.max_difference, static_cast<float>(difference));
    }
  });
  const auto greedy =
      continue_greedily(runner, plan, prompt.ids, static_cast<int>(prompt.greedy.size()), chunk);
  result.greedy_agree = static_cast<std::size_t>(
      std::mismatch(greedy.begin(), greedy.end(), prompt.greedy.begin(), prompt.greedy.end()).first -
      greedy.begin());
  return result;
}

std::vector<int32_t> continue_greedily(Runner& runner, const ModelPlan& plan, const std::vector<int32_t>& ids,
                                       int count, int chunk) {
  KvPages pages(plan.kv_groups, runner.info().limits);
  SequencePages sequence;
  const SamplingParams greedy;
  StepBuilder builder;
  std::vector<int32_t> tokens = ids;
  for (int past = 0; static_cast<int>(tokens.size() - ids.size()) < count;) {
    const int left = static_cast<int>(tokens.size()) - past, size = std::min(chunk, left);
    CHECK(pages.extend(sequence, past, size));
    builder.clear();
    builder.add(std::span(tokens).subspan(past, size), past, sequence);
    if (size == left) builder.want_token(size - 1, {&greedy, past + size, {}, {}});
    runner.submit(builder.input());
    const StepResult result = runner.collect();
    past += size;
    pages.release_behind_window(sequence, past);
    if (size == left) tokens.push_back(result.tokens.at(0));
  }
  tokens.erase(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(ids.size()));
  return tokens;
}

}  // namespace carat
