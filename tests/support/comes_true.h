// Waiting for what another thread or program brings about.
#pragma once
#include <chrono>
#include <thread>

namespace carat {

/// Waits until `condition` holds; false when it doesn't in time.
template <class Condition>
bool comes_true(const Condition& condition, std::chrono::seconds patience = std::chrono::seconds(120)) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace carat
