// Logits -> token, on the host: the definition that device samplers must match.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace carat {

/// Applied in transformers' order: repetition penalty, temperature, top-k, top-p, min-p.
struct SamplingParams {
  float temperature = 0.f;  // 0: greedy
  int top_k = 0;            // 0: off; of tokens tied at rank k the lower ids stay
  float top_p = 1.f;        // 1: off; the smallest set, most likely first, whose probability reaches top_p
  float min_p = 0.f;        // 0: off; drops what is less likely than min_p times the most likely token
  float repetition_penalty = 1.f;  // 1: off; logits of tokens seen before: divided if > 0, else multiplied
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

/// `logits` [vocab] is scratch afterwards. Greedy takes the largest logit, ties go to the lower id. Otherwise
/// each token left by the filters weighs exp((logit - largest) / temperature), and the drawn one is the first
/// in order of id at which the running sum exceeds random_uniform(seed, position) times the total.
/// -1 when, suppressed tokens aside, a logit is NaN or the largest is not finite: the caller fails that
/// request alone. Ids outside the row, in `history` and `suppressed`, are ignored.
int32_t sample(std::span<float> logits, const RowSampling& how);

/// sample() for every row of `logits` [sampling.size(), vocab].
std::vector<int32_t> draw_rows(std::span<float> logits, int vocab, std::span<const RowSampling> sampling);

}  // namespace carat
