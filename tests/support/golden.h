// Golden results of transformers in float32 (tests/data/ref_*.json, written by tools/reference.py) and the
// checkpoints they belong to.
#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "engine/runner.h"
#include "model/gemma4.h"

namespace carat {

/// The checkpoints in the repository: "tiny", "tiny-dense", "tiny-moe" (tests/data) and "demo" (models).
std::filesystem::path test_checkpoint(const std::string& name);
ModelPlan load_test_plan(const std::string& name);
/// The same with its drafter; for "tiny" (ordered head) and "tiny-dense".
ModelPlan load_drafting_plan(const std::string& name);

struct GoldenPrompt {
  std::string name;
  std::vector<int32_t> ids;
  std::vector<int32_t> top_ids;  // 20 best at the last position
  std::vector<float> top_logits;
  std::vector<int32_t> argmax;  // at every position
  std::vector<int32_t> greedy;  // continuation
};
std::vector<GoldenPrompt> load_golden(const std::string& name);

/// What transformers' drafter guesses behind a prompt, and assisted generation's greedy text.
struct GoldenDrafts {
  std::string name;
  std::vector<int32_t> ids;
  int32_t token;                // that follows them
  std::vector<int32_t> drafts;  // behind that token
  std::vector<int32_t> greedy;
};
std::vector<GoldenDrafts> load_golden_drafts(const std::string& name);

/// What a runner makes of one golden prompt.
struct GoldenComparison {
  float max_difference = 0;      // over the 20 best logits of the last position; infinite for a NaN
  int argmax_mismatches = 0;     // positions whose argmax differs, near-ties within the tolerance apart
  std::size_t greedy_agree = 0;  // tokens of the continuation before the first difference
};
GoldenComparison compare(Runner& runner, const ModelPlan& plan, const GoldenPrompt& prompt, int chunk,
                         float tolerance);

/// The greedy continuation of `ids`, step by step on the runner, the prompt in pieces of `chunk` tokens.
std::vector<int32_t> continue_greedily(Runner& runner, const ModelPlan& plan, const std::vector<int32_t>& ids,
                                       int count, int chunk);

}  // namespace carat
