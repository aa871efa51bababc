// Vectors of 16 lanes in plain C++: the definition of what the other vec_*.h do with intrinsics, and what
// runs on machines that have none of them. Floats are 16 float32 lanes, Ints 16 32-bit lanes, Words 32 signed
// 16-bit lanes of which lanes 2i and 2i + 1 form the pair that belongs to lane i of an Ints.
//
// All instruction sets add up lanes in the same order, so they differ in rounding only where a fused
// multiply-add rounds once and this file twice.
#pragma once
#include <cstdint>
#include <cstring>

namespace carat::CARAT_ISA {

inline constexpr Isa kIsa = Isa::scalar;
/// The shape of the register tile: rows of weights times tokens. Tiles of integers need registers for scales
/// too.
inline constexpr int kTileRows = 16, kTileTokens = 4, kIntTileTokens = 4;
/// int8 weights are packed as w + kInt8Offset.
inline constexpr int kInt8Offset = 0;

struct Floats {
  float v[16];
};
struct Ints {
  uint32_t v[16];
};

template <class V, class F>
V each_lane(F&& lane) {
  V out;
  constexpr int count = static_cast<int>(sizeof out.v / sizeof out.v[0]);
  for (int i = 0; i < count; ++i) out.v[i] = lane(i);
  return out;
}

inline float f16_value(uint16_t h) {
  const uint32_t sign = uint32_t{h} >> 15 << 31, exponent = h >> 10 & 31u, mantissa = h & 1023u;
  uint32_t bits = sign | (exponent == 31 ? 255u : exponent + 112u) << 23 | mantissa << 13;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  if (exponent == 0) value = static_cast<float>(mantissa) * (sign ? -0x1p-24f : 0x1p-24f);
  return value;
}

/// Asks for a cache line that will be read soon; the address may be any. Always inline, or GCC takes it for a
/// pure function whose result nobody wants and drops it.
[[gnu::always_inline]] inline void prefetch(const void* p) { __builtin_prefetch(p, 0, 2); }

inline Floats broadcast(float x) {
  return each_lane<Floats>([&](int) { return x; });
}
inline Floats load(const float* p) {
  return each_lane<Floats>([&](int i) { return p[i]; });
}
inline void store(float* p, Floats a) { std::memcpy(p, a.v, sizeof a.v); }
/// Lanes from `count` on are zero and not read.
inline Floats load_first(const float* p, int count) {
  return each_lane<Floats>([&](int i) { return i < count ? p[i] : 0.f; });
}
inline void store_first(float* p, Floats a, int count) {
  std::memcpy(p, a.v, static_cast<size_t>(count) * 4);
}
inline Floats load_f16(const uint16_t* p) {
  return each_lane<Floats>([&](int i) { return f16_value(p[i]); });
}
inline void store_f16(uint16_t* p, Floats a) {
  for (int i = 0; i < 16; ++i) p[i] = to_f16(a.v[i]).bits;
}
inline Floats load_i8(const int8_t* p) {
  return each_lane<Floats>([&](int i) { return static_cast<float>(p[i]); });
}

inline Floats add(Floats a, Floats b) {
  return each_lane<Floats>([&](int i) { return a.v[i] + b.v[i]; });
}
inline Floats sub(Floats a, Floats b) {
  return each_lane<Floats>([&](int i) { return a.v[i] - b.v[i]; });
}
inline Floats mul(Floats a, Floats b) {
  return each_lane<Floats>([&](int i) { return a.v[i] * b.v[i]; });
}
inline Floats div(Floats a, Floats b) {
  return each_lane<Floats>([&](int i) { return a.v[i] / b.v[i]; });
}
/// a * b + c.
inline Floats fma(Floats a, Floats b, Floats c) {
  return each_lane<Floats>([&](int i) { return a.v[i] * b.v[i] + c.v[i]; });
}
inline Floats max(Floats a, Floats b) {
  return each_lane<Floats>([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
inline Floats min(Floats a, Floats b) {
  return each_lane<Floats>([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}
/// To the nearest integer, ties to even; |a| < 2^22.
inline Floats round(Floats a) {
  return each_lane<Floats>([&](int i) { return (a.v[i] + 12582912.f) - 12582912.f; });
}
/// Lanes from `count` on become zero.
inline Floats keep_first(Floats a, int count) {
  return each_lane<Floats>([&](int i) { return i < count ? a.v[i] : 0.f; });
}

inline Ints load_ints(const void* p) {
  Ints a;
  std::memcpy(a.v, p, sizeof a.v);
  return a;
}
/// Bytes from `count` on are zero and not read.
inline Ints load_first_bytes(const void* p, int count) {
  Ints a{};
  std::memcpy(a.v, p, static_cast<size_t>(count));
  return a;
}
inline void store_ints(void* p, Ints a) { std::memcpy(p, a.v, sizeof a.v); }
inline Ints broadcast(int32_t x) {
  return each_lane<Ints>([&](int) { return static_cast<uint32_t>(x); });
}
inline Ints add(Ints a, Ints b) {
  return each_lane<Ints>([&](int i) { return a.v[i] + b.v[i]; });
}
template <int bits>
Ints shift_left(Ints a) {
  return each_lane<Ints>([&](int i) { return a.v[i] << bits; });
}
template <int bits>
Ints shift_right(Ints a) {
  return each_lane<Ints>([&](int i) { return a.v[i] >> bits; });
}
inline Ints bit_and(Ints a, uint32_t mask) {
  return each_lane<Ints>([&](int i) { return a.v[i] & mask; });
}
inline Ints bit_or(Ints a, Ints b) {
  return each_lane<Ints>([&](int i) { return a.v[i] | b.v[i]; });
}
inline Floats as_floats(Ints a) { return __builtin_bit_cast(Floats, a); }
inline Ints as_ints(Floats a) { return __builtin_bit_cast(Ints, a); }
inline Floats to_floats(Ints a) {
  return each_lane<Floats>([&](int i) { return static_cast<float>(static_cast<int32_t>(a.v[i])); });
}
/// Rounds to nearest; |a| < 2^22. Of NaN and what is out of range it makes the smallest integer, as x86 does.
inline Ints to_ints(Floats a) {
  const Floats rounded = round(a);
  return each_lane<Ints>([&](int i) {
    const float value = rounded.v[i];
    return value >= -0x1p31f && value < 0x1p31f ? static_cast<uint32_t>(static_cast<int32_t>(value))
                                                : 0x80000000u;
  });
}
/// The low 16 bits of each lane, 16 words.
inline void store_words(int16_t* p, Ints a) {
  for (int i = 0; i < 16; ++i) p[i] = static_cast<int16_t>(a.v[i]);
}

/// The low 8 bits of each lane, 16 signed bytes; lanes are in -128..127.
inline void store_bytes(int8_t* p, Ints a) {
  for (int i = 0; i < 16; ++i) p[i] = static_cast<int8_t>(a.v[i]);
}
/// sum + the dot product of the four bytes of each lane. Those of x are signed, in -127..127; those of
/// weights are 0..127, or int8 weights as packed.
inline Ints dot_quads(Ints sum, Ints weights, Ints x) {
  int8_t w[64], values[64];
  std::memcpy(w, weights.v, sizeof w);
  std::memcpy(values, x.v, sizeof values);
  return each_lane<Ints>([&](int i) {
    int32_t dot = 0;
    for (int j = 4 * i; j < 4 * i + 4; ++j) dot += w[j] * values[j];
    return sum.v[i] + static_cast<uint32_t>(dot);
  });
}

/// Adds lanes 8 apart, then 4, 2 and 1 apart.
inline float reduce_add(Floats a) {
  for (int apart = 8; apart > 0; apart /= 2) {
    for (int i = 0; i < apart; ++i) a.v[i] += a.v[i + apart];
  }
  return a.v[0];
}
inline float reduce_max(Floats a) {
  float largest = a.v[0];
  for (int i = 1; i < 16; ++i) largest = a.v[i] > largest ? a.v[i] : largest;
  return largest;
}

/// Lane j of vector i becomes lane i of vector j.
inline void transpose(Ints (&rows)[16]) {
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < i; ++j) {
      const uint32_t kept = rows[i].v[j];
      rows[i].v[j] = rows[j].v[i];
      rows[j].v[i] = kept;
    }
  }
}

}  // namespace carat::CARAT_ISA
