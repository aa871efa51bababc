// 16-bit float storage types and their conversions. Arithmetic is always float32.
#pragma once
#include <bit>
#include <cstdint>

namespace carat {

/// bfloat16: the upper half of a float32.
struct bf16 {
  uint16_t bits;
};

inline float to_float(bf16 x) { return std::bit_cast<float>(uint32_t{x.bits} << 16); }

/// Rounds to nearest, ties to even; a NaN stays a NaN.
inline bf16 to_bf16(float x) {
  uint32_t u = std::bit_cast<uint32_t>(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((u >> 16) | 0x40u)};
  return {static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16)};
}

/// IEEE binary16.
struct f16 {
  uint16_t bits;
};

inline float to_float(f16 x) {
  const uint32_t sign = uint32_t{x.bits} >> 15 << 31, exponent = x.bits >> 10 & 31u,
                 mantissa = x.bits & 1023u;
  if (exponent == 0) {  // zero and subnormals: mantissa * 2^-24 is exact in float32
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
  }
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | mantissa << 13);
  return std::bit_cast<float>(sign | (exponent + 112u) << 23 | mantissa << 13);
}

/// Rounds to nearest, ties to even; too large becomes infinity; a NaN stays a NaN.
inline f16 to_f16(float x) {
  const uint32_t u = std::bit_cast<uint32_t>(x), sign = u >> 16 & 0x8000u, magnitude = u & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return {static_cast<uint16_t>(sign | 0x7e00u)};
  if (magnitude >= 0x477ff000u) return {static_cast<uint16_t>(sign | 0x7c00u)};
  if (magnitude < 0x38800000u) {  // subnormal result: adding 0.5 aligns the mantissa and rounds in hardware
    const float aligned = std::bit_cast<float>(magnitude) + 0.5f;
    return {static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(aligned) - 0x3f000000u))};
  }
  const uint32_t rounded = magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u);
  return {static_cast<uint16_t>(sign | rounded >> 13)};
}

}  // namespace carat
