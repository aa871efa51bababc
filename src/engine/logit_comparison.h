// How a row of logits is held against a reference: by its two best and by differences that a NaN can't pass.
// Used by `carat check` and the golden tests.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>

namespace carat {

struct TwoBest {
  int32_t token = -1;  // -1: no number among the logits
  float logit = -std::numeric_limits<float>::infinity(), second = logit;

  /// Rounding may decide which one is best.
  bool near_tie(double tolerance) const { return logit - second < tolerance; }
};

inline TwoBest two_best(std::span<const float> logits) {
  TwoBest best;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > best.logit) {
      best.second = std::exchange(best.logit, logits[i]);
      best.token = static_cast<int32_t>(i);
    } else if (logits[i] > best.second) {
      best.second = logits[i];
    }
  }
  return best;
}

/// Infinite when one side is not a number, so that it never passes.
inline double logit_difference(float ours, float reference) {
  const double d = std::abs(double{ours} - double{reference});
  return std::isnan(d) ? std::numeric_limits<double>::infinity() : d;
}

}  // namespace carat
