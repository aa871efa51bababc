// Vectors of 16 lanes as four registers of 4, on 64-bit Arm. vec_scalar.h documents the vocabulary.
#pragma once
#include <arm_neon.h>

#include <cstdint>

namespace carat::CARAT_ISA {

inline constexpr Isa kIsa = Isa::neon;
inline constexpr int kTileRows = 16, kTileTokens = 6, kIntTileTokens = 6;
/// int8 weights are packed as signed bytes.
inline constexpr int kInt8Offset = 0;

struct Floats {
  float32x4_t v[4];
};
struct Ints {
  int32x4_t v[4];
};

/// A vector whose four registers are quarter(0) ... quarter(3).
template <class V, class F>
[[gnu::always_inline]] inline V quarters(const F& quarter) {
  return {{quarter(0), quarter(1), quarter(2), quarter(3)}};
}

[[gnu::always_inline]] inline void prefetch(const void* p) { __builtin_prefetch(p, 0, 2); }

inline Floats broadcast(float x) {
  return quarters<Floats>([&](int) { return vdupq_n_f32(x); });
}
inline Floats load(const float* p) {
  return quarters<Floats>([&](int i) { return vld1q_f32(p + 4 * i); });
}
inline void store(float* p, Floats a) {
  for (int i = 0; i < 4; ++i) vst1q_f32(p + 4 * i, a.v[i]);
}
inline Floats load_first(const float* p, int count) {
  if (count >= 16) return load(p);
  float lanes[16] = {};
  __builtin_memcpy(lanes, p, static_cast<size_t>(count) * sizeof(float));
  return load(lanes);
}
inline void store_first(float* p, Floats a, int count) {
  if (count >= 16) return store(p, a);
  float lanes[16];
  store(lanes, a);
  __builtin_memcpy(p, lanes, static_cast<size_t>(count) * sizeof(float));
}
inline Floats load_f16(const uint16_t* p) {
  return quarters<Floats>([&](int i) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p + 4 * i))); });
}
inline void store_f16(uint16_t* p, Floats a) {
  for (int i = 0; i < 4; ++i) vst1_u16(p + 4 * i, vreinterpret_u16_f16(vcvt_f16_f32(a.v[i])));
}
inline Floats load_i8(const int8_t* p) {
  const int8x16_t bytes = vld1q_s8(p);
  const int16x8_t words[2] = {vmovl_s8(vget_low_s8(bytes)), vmovl_s8(vget_high_s8(bytes))};
  return quarters<Floats>([&](int i) {
    const int16x4_t four = i % 2 == 0 ? vget_low_s16(words[i / 2]) : vget_high_s16(words[i / 2]);
    return vcvtq_f32_s32(vmovl_s16(four));
  });
}

inline Floats add(Floats a, Floats b) {
  return quarters<Floats>([&](int i) { return vaddq_f32(a.v[i], b.v[i]); });
}
inline Floats sub(Floats a, Floats b) {
  return quarters<Floats>([&](int i) { return vsubq_f32(a.v[i], b.v[i]); });
}
inline Floats mul(Floats a, Floats b) {
  return quarters<Floats>([&](int i) { return vmulq_f32(a.v[i], b.v[i]); });
}
inline Floats div(Floats a, Floats b) {
  return quarters<Floats>([&](int i) { return vdivq_f32(a.v[i], b.v[i]); });
}
inline Floats fma(Floats a, Floats b, Floats c) {
  return quarters<Floats>([&](int i) { return vfmaq_f32(c.v[i], a.v[i], b.v[i]); });
}
// As on x86, the second operand wins when one is a NaN.
inline Floats max(Floats a, Floats b) {
  return quarters<Floats>([&](int i) { return vbslq_f32(vcgtq_f32(a.v[i], b.v[i]), a.v[i], b.v[i]); });
}
inline Floats min(Floats a, Floats b) {
  return quarters<Floats>([&](int i) { return vbslq_f32(vcltq_f32(a.v[i], b.v[i]), a.v[i], b.v[i]); });
}
inline Floats round(Floats a) {
  return quarters<Floats>([&](int i) { return vrndnq_f32(a.v[i]); });
}
inline Floats keep_first(Floats a, int count) {
  const int32x4_t lanes = {0, 1, 2, 3};
  return quarters<Floats>([&](int i) {
    const uint32x4_t kept = vcltq_s32(lanes, vdupq_n_s32(count - 4 * i));
    return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(a.v[i]), kept));
  });
}

inline Ints load_ints(const void* p) {
  return quarters<Ints>(
      [&](int i) { return vreinterpretq_s32_u8(vld1q_u8(static_cast<const uint8_t*>(p) + 16 * i)); });
}
inline Ints load_first_bytes(const void* p, int count) {
  uint8_t bytes[64] = {};
  __builtin_memcpy(bytes, p, static_cast<size_t>(count));
  return load_ints(bytes);
}
inline void store_ints(void* p, Ints a) {
  for (int i = 0; i < 4; ++i) vst1q_u8(static_cast<uint8_t*>(p) + 16 * i, vreinterpretq_u8_s32(a.v[i]));
}
inline Ints broadcast(int32_t x) {
  return quarters<Ints>([&](int) { return vdupq_n_s32(x); });
}
inline Ints add(Ints a, Ints b) {
  return quarters<Ints>([&](int i) { return vaddq_s32(a.v[i], b.v[i]); });
}
template <int bits>
Ints shift_left(Ints a) {
  return quarters<Ints>([&](int i) { return vshlq_n_s32(a.v[i], bits); });
}
template <int bits>
Ints shift_right(Ints a) {
  return quarters<Ints>(
      [&](int i) { return vreinterpretq_s32_u32(vshrq_n_u32(vreinterpretq_u32_s32(a.v[i]), bits)); });
}
inline Ints bit_and(Ints a, uint32_t mask) {
  return quarters<Ints>([&](int i) { return vandq_s32(a.v[i], vdupq_n_s32(static_cast<int32_t>(mask))); });
}
inline Ints bit_or(Ints a, Ints b) {
  return quarters<Ints>([&](int i) { return vorrq_s32(a.v[i], b.v[i]); });
}
inline Floats as_floats(Ints a) {
  return quarters<Floats>([&](int i) { return vreinterpretq_f32_s32(a.v[i]); });
}
inline Ints as_ints(Floats a) {
  return quarters<Ints>([&](int i) { return vreinterpretq_s32_f32(a.v[i]); });
}
inline Floats to_floats(Ints a) {
  return quarters<Floats>([&](int i) { return vcvtq_f32_s32(a.v[i]); });
}
inline Ints to_ints(Floats a) {
  return quarters<Ints>([&](int i) { return vcvtnq_s32_f32(a.v[i]); });
}
inline void store_words(int16_t* p, Ints a) {
  for (int i = 0; i < 4; ++i) vst1_s16(p + 4 * i, vmovn_s32(a.v[i]));
}

inline void store_bytes(int8_t* p, Ints a) {
  for (int i = 0; i < 4; i += 2) {
    vst1_s8(p + 4 * i, vmovn_s16(vcombine_s16(vmovn_s32(a.v[i]), vmovn_s32(a.v[i + 1]))));
  }
}
inline Ints dot_quads(Ints sum, Ints weights, Ints x) {
  return quarters<Ints>([&](int i) {
    const int8x16_t a = vreinterpretq_s8_s32(weights.v[i]), b = vreinterpretq_s8_s32(x.v[i]);
    const int32x4_t low = vpaddlq_s16(vmull_s8(vget_low_s8(a), vget_low_s8(b)));
    const int32x4_t high = vpaddlq_s16(vmull_high_s8(a, b));
    return vaddq_s32(sum.v[i], vpaddq_s32(low, high));
  });
}

inline float reduce_add(Floats a) {
  const float32x4_t quarter = vaddq_f32(vaddq_f32(a.v[0], a.v[2]), vaddq_f32(a.v[1], a.v[3]));
  const float32x2_t two = vadd_f32(vget_low_f32(quarter), vget_high_f32(quarter));
  return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}
inline float reduce_max(Floats a) {
  return vmaxvq_f32(vmaxq_f32(vmaxq_f32(a.v[0], a.v[1]), vmaxq_f32(a.v[2], a.v[3])));
}

inline void transpose_4x4(int32x4_t (&r)[4]) {
  const auto zip64 = [](int32x4_t a, int32x4_t b, bool upper) {
    const int64x2_t x = vreinterpretq_s64_s32(a), y = vreinterpretq_s64_s32(b);
    return vreinterpretq_s32_s64(upper ? vzip2q_s64(x, y) : vzip1q_s64(x, y));
  };
  const int32x4_t a = vtrn1q_s32(r[0], r[1]), b = vtrn2q_s32(r[0], r[1]);
  const int32x4_t c = vtrn1q_s32(r[2], r[3]), d = vtrn2q_s32(r[2], r[3]);
  r[0] = zip64(a, c, false);
  r[1] = zip64(b, d, false);
  r[2] = zip64(a, c, true);
  r[3] = zip64(b, d, true);
}

inline void transpose(Ints (&rows)[16]) {
  Ints out[16];
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 4; ++j) {
      int32x4_t square[4];
      for (int k = 0; k < 4; ++k) square[k] = rows[4 * i + k].v[j];
      transpose_4x4(square);
      for (int k = 0; k < 4; ++k) out[4 * j + k].v[i] = square[k];
    }
  }
  for (int i = 0; i < 16; ++i) rows[i] = out[i];
}

}  // namespace carat::CARAT_ISA
