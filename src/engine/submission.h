// A request on its way to the engine's thread, and the one thing that caller and engine share while it runs:
// the wish to cancel it.
#pragma once
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>

#include "engine/outbox.h"
#include "engine/request.h"

namespace carat {

struct Submission {
  using Clock = std::chrono::steady_clock;

  const Request request;
  const std::size_t index;  // among those submitted together
  const std::shared_ptr<Outbox> outbox;
  const Clock::time_point submitted = Clock::now();
  // The engine reads both once per step; the second is for samples that have drawn tokens.
  std::atomic<bool> cancelled{false};
  std::array<std::atomic<bool>, kMostSamples> cancelled_samples{};

  double elapsed_s() const { return std::chrono::duration<double>(Clock::now() - submitted).count(); }
};

}  // namespace carat
