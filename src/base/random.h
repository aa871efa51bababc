// A counter-based random generator: the value depends on the key and the counter alone, never on what ran
// before, so the same seed gives the same text whatever else is in the batch.
#pragma once
#include <cstdint>

namespace carat {

/// 64 well-mixed bits of (seed, counter). Two rounds of the SplitMix64 finaliser (Steele, Lea, Flood 2014).
constexpr uint64_t random_bits(uint64_t seed, uint64_t counter) {
  uint64_t x = seed * 0x9e3779b97f4a7c15u ^ counter;
  for (int round = 0; round < 2; ++round) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    x ^= x >> 31;
  }
  return x;
}

/// Uniform in [0, 1), 24 bits: exact in float32, so a device sampler can draw the same number.
constexpr float random_uniform(uint64_t seed, uint64_t counter) {
  return static_cast<float>(random_bits(seed, counter) >> 40) * 0x1p-24f;
}

}  // namespace carat
