// The host sampler. Every filter is linear in the vocabulary: selection, never a sort of all tokens.
#include "engine/sampler.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>

#include "base/error.h"
#include "base/random.h"
#include "engine/sampling_weight.h"

namespace carat {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Candidate {
  float logit;
  int32_t id;
  uint64_t weight = 0;  // 0 until it is known
};

bool ranks_before(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

/// Working memory of one thread, so that drawing allocates nothing once it has grown.
struct Scratch {
  std::vector<Candidate> candidates;  // ascending ids
  std::vector<Candidate> ranked;
  std::vector<float> penalised;
  std::vector<uint32_t> seen;  // one bit per token; all clear between two rows
};

bool inside(int32_t id, std::span<const float> logits) {
  return id >= 0 && static_cast<std::size_t>(id) < logits.size();
}

void suppress(std::span<float> logits, std::span<const int32_t> ids) {
  for (const int32_t id : ids) {
    if (inside(id, logits)) logits[id] = -kInfinity;
  }
}

void keep_allowed(std::span<float> logits, std::span<const uint32_t> allowed) {
  if (allowed.empty()) return;
  CHECK(allowed.size() * 32 >= logits.size());
  for (std::size_t id = 0; id < logits.size(); ++id) {
    if ((allowed[id / 32] >> id % 32 & 1u) == 0) logits[id] = -kInfinity;
  }
}

/// As transformers does. Reads all logits before it writes any, so a token that occurs twice is penalised
/// once.
void penalise(std::span<float> logits, std::span<const int32_t> history, float penalty,
              std::vector<float>& penalised) {
  penalised.resize(history.size());
  for (std::size_t i = 0; i < history.size(); ++i) {
    if (!inside(history[i], logits)) continue;
    const float logit = logits[history[i]];
    penalised[i] = logit < 0.f ? logit * penalty : logit / penalty;
  }
  for (std::size_t i = 0; i < history.size(); ++i) {
    if (inside(history[i], logits)) logits[history[i]] = penalised[i];
  }
}

/// OpenAI's penalties, on the tokens of the reply.
void penalise_repeats(std::span<float> logits, std::span<const int32_t> reply, const SamplingParams& params,
                      std::vector<uint32_t>& seen) {
  seen.resize(std::max(seen.size(), logits.size() / 32 + 1));
  for (const int32_t id : reply) {
    if (!inside(id, logits)) continue;
    const uint32_t bit = 1u << id % 32;
    logits[id] -= params.frequency_penalty + ((seen[id / 32] & bit) != 0 ? 0.f : params.presence_penalty);
    seen[id / 32] |= bit;
  }
  for (const int32_t id : reply) {
    if (inside(id, logits)) seen[id / 32] = 0;
  }
}

void add_bias(std::span<float> logits, std::span<const TokenBias> biases) {
  for (const TokenBias& b : biases) {
    if (inside(b.token, logits)) logits[b.token] += b.bias;
  }
}

/// The largest value, or NaN when there is one. On the bits as integers, whose maximum the compiler can
/// vectorise, which it may not do for floats; a NaN has the largest magnitude of all.
float largest(std::span<const float> values) {
  int32_t best = std::numeric_limits<int32_t>::min(), magnitude = 0;
  const auto visit = [&](float value) {
    const int32_t bits = std::bit_cast<int32_t>(value), without_sign = bits & 0x7fffffff;
    const int32_t ordered =
        bits ^ (bits >> 31 & 0x7fffffff);  // negative floats: the larger the bits, the smaller
    best = std::max(best, ordered);
    magnitude = std::max(magnitude, without_sign);
  };
  constexpr std::size_t kBlock = 256;
  for (; values.size() >= kBlock; values = values.subspan(kBlock)) {
    for (std::size_t i = 0; i < kBlock; ++i) visit(values[i]);
  }
  for (const float value : values) visit(value);
  if (magnitude > std::bit_cast<int32_t>(kInfinity)) return std::numeric_limits<float>::quiet_NaN();
  return std::bit_cast<float>(best ^ (best >> 31 & 0x7fffffff));
}

/// The `k` best tokens with finite logits. The buffer is cut back to k whenever it holds 2k, which bounds the
/// work by O(vocab) for any order of the logits.
void collect_top_k(std::span<const float> logits, std::size_t k, std::vector<Candidate>& candidates) {
  candidates.clear();
  float floor = -kInfinity;  // a later token with this value loses to those already held: its id is higher
  bool moved = false;
  const auto cut = [&] {
    std::nth_element(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(k - 1),
                     candidates.end(), ranks_before);
    candidates.resize(k);
    floor = candidates.back().logit;
    moved = true;
  };
  for (std::size_t id = 0; id < logits.size(); ++id) {
    if (!(logits[id] > floor)) continue;
    candidates.push_back({logits[id], static_cast<int32_t>(id)});
    if (candidates.size() >= 2 * k) cut();
  }
  if (candidates.size() > k) cut();
  if (moved) std::ranges::sort(candidates, {}, &Candidate::id);
}

/// What distances are measured by.
struct Scale {
  float largest, temperature;
  float distance(const Candidate& c) const { return sampling_distance(largest, c.logit, temperature); }
};

/// In blocks whose length the compiler knows, so that it vectorises them.
void weigh(std::span<Candidate> candidates, const Scale& scale) {
  constexpr std::size_t kBlock = 256;
  for (; candidates.size() >= kBlock; candidates = candidates.subspan(kBlock)) {
    std::array<float, kBlock> weights;
    for (std::size_t i = 0; i < kBlock; ++i) weights[i] = candidates[i].logit;
    for (std::size_t i = 0; i < kBlock; ++i)
      weights[i] = scaled_weight(sampling_distance(scale.largest, weights[i], scale.temperature));
    for (std::size_t i = 0; i < kBlock; ++i)
      candidates[i].weight = static_cast<uint64_t>(static_cast<int64_t>(weights[i]));
  }
  for (Candidate& c : candidates) c.weight = sampling_weight(scale.distance(c));
}

uint64_t total_weight(std::span<const Candidate> candidates) {
  uint64_t total = 0;
  for (const Candidate& c : candidates) total += c.weight;
  return total;
}

/// The candidate at which the sum of weights, most likely first, reaches `mass`. A quickselect by weight.
Candidate last_needed(std::span<Candidate> candidates, uint64_t mass) {
  while (candidates.size() > 1) {
    const std::size_t half = candidates.size() / 2;
    std::nth_element(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(half),
                     candidates.end(), ranks_before);
    const uint64_t heavier = total_weight(candidates.first(half));
    if (heavier >= mass) {
      candidates = candidates.first(half);
    } else {
      mass -= heavier;
      candidates = candidates.subspan(half);
    }
  }
  return candidates.front();
}

void keep_top_p(Scratch& scratch, const Scale& scale, float top_p) {
  const auto bucket_of = [&](const Candidate& c) { return sampling_bucket(scale.distance(c)); };
  std::array<uint64_t, kSamplingBuckets> bucket_mass{};
  for (const Candidate& c : scratch.candidates) bucket_mass[bucket_of(c)] += c.weight;
  uint64_t mass = share_of(top_p, total_weight(scratch.candidates));
  int bucket = 0;  // the most likely token's
  for (; bucket_mass[bucket] < mass; ++bucket) mass -= bucket_mass[bucket];

  scratch.ranked.clear();
  std::ranges::copy_if(scratch.candidates, std::back_inserter(scratch.ranked),
                       [&](const Candidate& c) { return bucket_of(c) == bucket; });
  const Candidate last = last_needed(scratch.ranked, mass);
  std::erase_if(scratch.candidates, [&](const Candidate& c) { return ranks_before(last, c); });
}

int32_t draw(std::span<const Candidate> candidates, float uniform) {
  const uint64_t target = share_of(uniform, total_weight(candidates));
  uint64_t sum = 0;
  const auto drawn = std::ranges::find_if(candidates, [&](const Candidate& c) {
    sum += c.weight;
    return sum > target;
  });
  return drawn->id;
}

void require(bool in_range, const char* name, float value, const char* range) {
  if (!in_range) fail(ErrorKind::invalid_argument, name, " is ", value, ", must be ", range);
}

}  // namespace

void SamplingParams::validate() const {
  require(temperature >= 0.f && temperature < kInfinity, "temperature", temperature, "a number >= 0");
  if (top_k < 0) fail(ErrorKind::invalid_argument, "top_k is ", top_k, ", must be >= 0 (0: off)");
  require(top_p >= 0.f && top_p <= 1.f, "top_p", top_p, "between 0 and 1");
  require(min_p >= 0.f && min_p <= 1.f, "min_p", min_p, "between 0 and 1");
  require(repetition_penalty > 0.f && repetition_penalty < kInfinity, "repetition_penalty",
          repetition_penalty, "a number > 0 (1: off)");
  const auto require_penalty = [](const char* name, float value) {
    require(value >= -2.f && value <= 2.f, name, value, "between -2 and 2");
  };
  require_penalty("presence_penalty", presence_penalty);
  require_penalty("frequency_penalty", frequency_penalty);
  for (const TokenBias& b : logit_bias) {
    if (!(b.bias >= -100.f && b.bias <= 100.f))
      fail(ErrorKind::invalid_argument, "logit_bias of token ", b.token, " is ", b.bias,
           ", must be between -100 and 100");
  }
}

bool draws_largest_logit(const RowSampling& how) {
  const SamplingParams& params = *how.params;
  return params.temperature == 0.f && params.repetition_penalty == 1.f && params.presence_penalty == 0.f &&
         params.frequency_penalty == 0.f && params.logit_bias.empty() && how.allowed.empty();
}

uint64_t sample_seed(uint64_t seed, int sample) {
  return sample == 0 ? seed : random_bits(seed, ~static_cast<uint64_t>(sample));
}

int32_t sample(std::span<float> logits, const RowSampling& how) {
  CHECK(logits.size() <= kMostSampledTokens);
  static thread_local Scratch scratch;
  const SamplingParams& params = *how.params;
  suppress(logits, how.suppressed);
  if (params.repetition_penalty != 1.f) {
    penalise(logits, how.history, params.repetition_penalty, scratch.penalised);
  }
  if (params.presence_penalty != 0.f || params.frequency_penalty != 0.f) {
    penalise_repeats(logits, how.history.subspan(how.prompt_tokens), params, scratch.seen);
  }
  add_bias(logits, params.logit_bias);
  keep_allowed(logits, how.allowed);
  const float max_logit = largest(logits);
  if (!std::isfinite(max_logit)) return -1;
  if (params.temperature == 0.f)
    return static_cast<int32_t>(std::ranges::find(logits, max_logit) - logits.begin());

  const std::size_t k = params.top_k > 0 ? std::min<std::size_t>(params.top_k, logits.size()) : logits.size();
  collect_top_k(logits, k, scratch.candidates);
  const Scale scale{max_logit, params.temperature};
  weigh(scratch.candidates, scale);
  if (params.top_p < 1.f) keep_top_p(scratch, scale, params.top_p);
  if (params.min_p > 0.f) {
    const uint64_t least = least_weight(params.min_p);
    std::erase_if(scratch.candidates, [&](const Candidate& c) { return c.weight < least; });
  }
  return draw(scratch.candidates, random_uniform(params.seed, static_cast<uint64_t>(how.position)));
}

std::vector<int32_t> draw_rows(std::span<float> logits, int vocab, std::span<const RowSampling> sampling) {
  CHECK(logits.size() == sampling.size() * static_cast<std::size_t>(vocab));
  std::vector<int32_t> tokens;
  tokens.reserve(sampling.size());
  for (const RowSampling& how : sampling) {
    tokens.push_back(sample(logits.first(vocab), how));
    logits = logits.subspan(vocab);
  }
  return tokens;
}

}  // namespace carat
