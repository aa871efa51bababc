// The arithmetic of drawing that the host's sampler and those of devices share. Weights are whole numbers, so
// sums of them are exact and the same in any order. Who includes this compiles without fused
// multiply-adds (the CMake target carat_unfused, nvcc's --fmad=false): then every machine has the same
// weights.
#pragma once
#include <bit>
#include <cstdint>

namespace carat {

/// Fraction bits of a weight. Vocabularies have up to 2^19 tokens, so a sum fits into 64 bits.
inline constexpr int kWeightBits = 44, kMostSampledTokens = 1 << 19;
inline constexpr uint64_t kLargestWeight = uint64_t{1} << kWeightBits;

/// How far below the largest logit, in units of the temperature. The difference is taken before dividing, so
/// that no temperature can overflow.
constexpr float sampling_distance(float largest, float logit, float temperature) {
  return (largest - logit) / temperature;
}

/// exp(-distance) * 2^44, to 22 bits; below 1 where the distance is 31 or more. Without branches, so that a
/// loop of it can be vectorised.
constexpr float scaled_weight(float distance) {
  constexpr float kNothing = 31.f, kRound = 12582912.f;  // adding 1.5 * 2^23 rounds to a whole number
  constexpr float kLog2E = 1.44269504f, kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  distance = distance < kNothing ? distance : kNothing;
  const float halvings = (distance * kLog2E + kRound) - kRound;
  const float r = (halvings * kLn2High - distance) + halvings * kLn2Low;  // |r| <= ln 2 / 2
  float e = 1.f / 5040;                                                   // the series of exp(r)
  e = e * r + 1.f / 720;
  e = e * r + 1.f / 120;
  e = e * r + 1.f / 24;
  e = e * r + 1.f / 6;
  e = e * r + 1.f / 2;
  e = e * r + 1.f;
  e = e * r + 1.f;
  return e * std::bit_cast<float>((127 + kWeightBits - static_cast<int32_t>(halvings)) << 23);
}

constexpr uint64_t sampling_weight(float distance) {
  return static_cast<uint64_t>(static_cast<int64_t>(scaled_weight(distance)));
}

/// Tokens of neighbouring distances; those of the last bucket weigh nothing.
inline constexpr int kSamplingBuckets = 2048;
constexpr int sampling_bucket(float distance) {
  constexpr float kPerUnit = 64.f;
  return distance * kPerUnit < kSamplingBuckets - 1 ? static_cast<int>(distance * kPerUnit)
                                                    : kSamplingBuckets - 1;
}

/// The whole part of share * total, with share < 1; less than total when that is a kLargestWeight or more.
constexpr uint64_t share_of(float share, uint64_t total) {
  return static_cast<uint64_t>(double{share} * static_cast<double>(total));
}

/// The least weight that min_p keeps.
constexpr uint64_t least_weight(float min_p) {
  const double least = double{min_p} * static_cast<double>(kLargestWeight);
  const auto whole = static_cast<uint64_t>(least);
  return whole + (static_cast<double>(whole) < least);
}

}  // namespace carat
