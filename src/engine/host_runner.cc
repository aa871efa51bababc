#include "engine/host_runner.h"

#include <algorithm>

#include "base/error.h"
#include "model/rows.h"

namespace carat {

void HostRunner::submit(const StepInput& step) {
  CHECK(static_cast<int>(step.tokens.size()) <= info_.limits.max_step_tokens);
  CHECK(static_cast<int>(step.segments.size()) <= info_.limits.max_sequences);
  tokens_.assign(step.tokens.begin(), step.tokens.end());
  for (int32_t& token : tokens_) {
    if (token < 0) {
      CHECK(static_cast<std::size_t>(~token) < last_drawn_.size());
      token = std::max(0, last_drawn_[~token]);  // a failed draw: any token
    }
    CHECK(token < info_.vocab);
  }
  const Rows all{tokens_, step.segments};
  const NarrowedRows tail = narrow_rows(all, step.logit_rows);
  const std::span<float> logits = run({all, tail.rows(), step.logit_rows, step.page_tables});

  StepResult result;
  if (step.return_logits) {
    returned_logits_.assign(logits.begin(), logits.end());
    result.logits = returned_logits_;
  }
  if (!step.sampling.empty()) result.tokens = draw(logits, step.sampling);
  last_drawn_ = result.tokens;
  results_.push_back(std::move(result));
}

std::vector<int32_t> HostRunner::draw(std::span<float> logits, std::span<const RowSampling> sampling) {
  return draw_rows(logits, info_.vocab, sampling);
}

StepResult HostRunner::collect() {
  CHECK(!results_.empty());
  StepResult result = std::move(results_.front());
  results_.pop_front();
  return result;
}

}  // namespace carat
