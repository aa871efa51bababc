// What runners that compute on the host share: a step runs inside submit(), tokens are drawn by
// engine/sampler.
#pragma once
#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "engine/runner.h"

namespace carat {

class HostRunner : public Runner {
 public:
  const RunnerInfo& info() const final { return info_; }
  void submit(const StepInput& step) final;
  StepResult collect() final;

 protected:
  explicit HostRunner(RunnerInfo info) : info_(std::move(info)) {}

  /// Runs one step; returns the logits of its tail rows, [R, vocab], which the caller may overwrite.
  virtual std::span<float> run(const StepRows& step) = 0;
  /// One token per row of `logits`, [R, vocab], which it may overwrite.
  virtual std::vector<int32_t> draw(std::span<float> logits, std::span<const RowSampling> sampling);

 private:
  RunnerInfo info_;
  std::vector<int32_t> tokens_;  // of the step, with those drawn by the step before filled in
  std::vector<int32_t> last_drawn_;
  std::vector<float> returned_logits_;
  std::deque<StepResult> results_;
};

}  // namespace carat
