// Where the time of steps goes: what Runner::phase_times() returns, and how runners add it up.
#pragma once
#include <array>
#include <chrono>
#include <cstddef>
#include <vector>

#include "engine/step.h"
#include "model/phases.h"

namespace carat {

struct PhaseTime {
  int64_t times = 0;
  double seconds = 0;
  /// Of these, until what the phase reads was there: known where a step is one kernel, else 0.
  double waiting_seconds = 0;
};

/// By Phase, the sum over `steps` steps.
struct PhaseTimes {
  int steps = 0;
  std::array<PhaseTime, static_cast<std::size_t>(Phase::kCount)> phases{};

  PhaseTime& operator[](Phase phase) { return phases[static_cast<std::size_t>(phase)]; }
};

/// Of steps in which each sequence has one token, and of all others.
struct StepTimes {
  PhaseTimes decoding, prompts;

  PhaseTimes& of(const Rows& rows) {
    return static_cast<std::size_t>(rows.count()) == rows.segments.size() ? decoding : prompts;
  }
};

/// For phases that run on this thread, one after the other.
class PhaseClock {
 public:
  explicit PhaseClock(PhaseTimes& times) : times_(times) { ++times_.steps; }
  ~PhaseClock() { end(); }
  PhaseClock(const PhaseClock&) = delete;
  PhaseClock& operator=(const PhaseClock&) = delete;

  void begin(Phase phase) {
    end();
    phase_ = phase;
    start_ = Clock::now();
  }

 private:
  using Clock = std::chrono::steady_clock;

  void end() {
    if (phase_ == Phase::kCount) return;
    PhaseTime& time = times_[phase_];
    ++time.times;
    time.seconds += std::chrono::duration<double>(Clock::now() - start_).count();
  }

  PhaseTimes& times_;
  Phase phase_ = Phase::kCount;
  Clock::time_point start_;
};

}  // namespace carat
