// Logits -> token, on the host: the definition that device samplers must match.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace carat {

struct TokenBias {
  int32_t token;
  float bias;  // added to the token's logit

  bool operator==(const TokenBias&) const = default;
};

/// Applied in this order: repetition penalty, presence and frequency penalty, bias, temperature, top-k,
/// top-p, min-p (as in transformers, which knows no penalties but the first, and no bias).
struct SamplingParams {
  float temperature = 0.f;  // 0: greedy
  int top_k = 0;            // 0: off; of tokens tied at rank k the lower ids stay
  float top_p = 1.f;        // 1: off; the smallest set, most likely first, whose probability reaches top_p
  float min_p = 0.f;        // 0: off; drops what is less likely than min_p times the most likely token
  float repetition_penalty = 1.f;  // 1: off; logits of tokens seen before: divided if > 0, else multiplied
  uint64_t seed = 0;
  float presence_penalty = 0.f;   // subtracted once from each token that the reply has
  float frequency_penalty = 0.f;  // subtracted as often as the reply has the token
  std::vector<TokenBias> logit_bias = {};

  /// Throws Error{invalid_argument} naming the parameter and its range.
  void validate() const;
};

/// How one logit row is drawn. The draw depends on (seed, position) alone.
struct RowSampling {
  const SamplingParams* params;
  int32_t position;                        // of the token to be drawn
  std::span<const int32_t> history;        // tokens the penalties look at
  std::span<const int32_t> suppressed;     // never drawn
  int32_t prompt_tokens = 0;               // of `history`: what follows is the reply
  std::span<const uint32_t> allowed = {};  // bit t % 32 of word t / 32 allows token t; empty: all are
};

/// Whether the row's token is simply that of the largest logit that isn't suppressed, which a device may draw
/// by itself.
bool draws_largest_logit(const RowSampling& how);

/// The seed of a request's sample number `sample`; sample 0 has the request's own.
uint64_t sample_seed(uint64_t seed, int sample);

/// `logits` [vocab] is scratch afterwards. Greedy takes the largest logit, ties go to the lower id. Otherwise
/// each token left by the filters has the sampling_weight() of (largest - logit) / temperature, and the drawn
/// one is the first in order of id at which the running sum exceeds random_uniform(seed, position) times the
/// total.
/// -1 when, forbidden tokens aside, a logit is NaN or the largest is not finite: the caller fails that
/// request alone. Ids outside the row, in `history`, `suppressed` and the bias, are ignored.
int32_t sample(std::span<float> logits, const RowSampling& how);

/// sample() for every row of `logits` [sampling.size(), vocab].
std::vector<int32_t> draw_rows(std::span<float> logits, int vocab, std::span<const RowSampling> sampling);

}  // namespace carat
