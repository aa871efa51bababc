// Logits -> token, on the host: the definition that device samplers must match.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace carat {

/// Applied in transformers' order: repetition penalty, temperature, top-k, top-p, min-p.
struct SamplingParams {
  float temperature = 0.f;         // 0: greedy
  int top_k = 0;                   // 0: off
  float top_p = 1.f;               // 1: off
  float min_p = 0.f;               // 0: off
  float repetition_penalty = 1.f;  // 1: off
  uint64_t seed = 0;

  /// Throws Error{invalid_argument} naming the parameter and its range.
  void validate() const;
};

/// How one logit row is drawn. The draw depends on (seed, position) alone.
struct RowSampling {
  const SamplingParams* params;
  int32_t position;                     // of the token to be drawn
  std::span<const int32_t> history;     // tokens the repetition penalty looks at
  std::span<const int32_t> suppressed;  // never drawn
};

/// `logits` [vocab] is scratch afterwards. Ties go to the lower id. -1 when no logit is finite or one is NaN: the
/// caller fails that request alone.
int32_t sample(std::span<float> logits, const RowSampling& how);

}  // namespace carat
