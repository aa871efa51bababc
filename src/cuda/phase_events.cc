#include "cuda/phase_events.h"

namespace carat::cuda {

void PhaseEvents::record() {
  if (events_.size() == phases_.size()) events_.emplace_back();
  events_[phases_.size()].record(stream_);
}

void PhaseEvents::begin(Phase phase) {
  record();
  phases_.push_back(phase);
}

void PhaseEvents::end_step(PhaseTimes& times) {
  record();
  ++times.steps;
  for (std::size_t i = 0; i < phases_.size(); ++i) {
    PhaseTime& time = times[phases_[i]];
    ++time.times;
    time.seconds += 1e-3 * static_cast<double>(events_[i + 1].ms_since(events_[i]));
  }
  phases_.clear();
}

}  // namespace carat::cuda
