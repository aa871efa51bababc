// When the phases of a step begin on the GPU, for `carat bench --phases`. Used by cuda_runner.cc, the blocks
// and the kernels for single rows.
#pragma once
#include <deque>
#include <vector>

#include "cuda/device.h"
#include "engine/phase_times.h"

namespace carat::cuda {

class PhaseEvents {
 public:
  explicit PhaseEvents(cudaStream_t stream) : stream_(stream) {}

  /// What is enqueued from now on belongs to `phase`.
  void begin(Phase phase);
  /// Waits for the step, and adds its phases.
  void end_step(PhaseTimes& times);

 private:
  void record();

  cudaStream_t stream_;
  std::deque<TimingEvent> events_;  // one more than phases, those of earlier steps behind them
  std::vector<Phase> phases_;
};

}  // namespace carat::cuda
