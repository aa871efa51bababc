// Vectors of 16 lanes on AVX-512 (F, BW, DQ, VL) with VNNI. vec_scalar.h documents the vocabulary.
#pragma once
#include <immintrin.h>

#include <cstdint>

namespace carat::CARAT_ISA {

inline constexpr Isa kIsa = Isa::avx512;
inline constexpr int kTileRows = 32, kTileTokens = 12, kIntTileTokens = 12;
/// VNNI multiplies unsigned bytes with signed ones: int8 weights are packed as w + 128.
inline constexpr int kInt8Offset = 128;

struct Floats {
  __m512 v;
};
struct Ints {
  __m512i v;
};

inline __mmask16 first_lanes(int count) { return static_cast<__mmask16>((1u << count) - 1u); }

[[gnu::always_inline]] inline void prefetch(const void* p) {
  _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1);
}

inline Floats broadcast(float x) { return {_mm512_set1_ps(x)}; }
inline Floats load(const float* p) { return {_mm512_loadu_ps(p)}; }
inline void store(float* p, Floats a) { _mm512_storeu_ps(p, a.v); }
inline Floats load_first(const float* p, int count) { return {_mm512_maskz_loadu_ps(first_lanes(count), p)}; }
inline void store_first(float* p, Floats a, int count) { _mm512_mask_storeu_ps(p, first_lanes(count), a.v); }
inline Floats load_f16(const uint16_t* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
inline void store_f16(uint16_t* p, Floats a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT));
}
inline Floats load_i8(const int8_t* p) {
  return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))))};
}

inline Floats add(Floats a, Floats b) { return {_mm512_add_ps(a.v, b.v)}; }
inline Floats sub(Floats a, Floats b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline Floats mul(Floats a, Floats b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline Floats div(Floats a, Floats b) { return {_mm512_div_ps(a.v, b.v)}; }
inline Floats fma(Floats a, Floats b, Floats c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline Floats max(Floats a, Floats b) { return {_mm512_max_ps(a.v, b.v)}; }
inline Floats min(Floats a, Floats b) { return {_mm512_min_ps(a.v, b.v)}; }
inline Floats round(Floats a) { return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT)}; }
inline Floats keep_first(Floats a, int count) { return {_mm512_maskz_mov_ps(first_lanes(count), a.v)}; }

inline Ints load_ints(const void* p) { return {_mm512_loadu_si512(p)}; }
inline Ints load_first_bytes(const void* p, int count) {
  return {_mm512_maskz_loadu_epi8(count < 64 ? (uint64_t{1} << count) - 1 : ~uint64_t{0}, p)};
}
inline void store_ints(void* p, Ints a) { _mm512_storeu_si512(p, a.v); }
inline Ints broadcast(int32_t x) { return {_mm512_set1_epi32(x)}; }
inline Ints add(Ints a, Ints b) { return {_mm512_add_epi32(a.v, b.v)}; }
template <int bits>
Ints shift_left(Ints a) {
  return {_mm512_slli_epi32(a.v, bits)};
}
template <int bits>
Ints shift_right(Ints a) {
  return {_mm512_srli_epi32(a.v, bits)};
}
inline Ints bit_and(Ints a, uint32_t mask) {
  return {_mm512_and_si512(a.v, _mm512_set1_epi32(static_cast<int>(mask)))};
}
inline Ints bit_or(Ints a, Ints b) { return {_mm512_or_si512(a.v, b.v)}; }
inline Floats as_floats(Ints a) { return {_mm512_castsi512_ps(a.v)}; }
inline Ints as_ints(Floats a) { return {_mm512_castps_si512(a.v)}; }
inline Floats to_floats(Ints a) { return {_mm512_cvtepi32_ps(a.v)}; }
inline Ints to_ints(Floats a) { return {_mm512_cvtps_epi32(a.v)}; }
inline void store_words(int16_t* p, Ints a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(a.v));
}

inline void store_bytes(int8_t* p, Ints a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(a.v));
}
inline Ints dot_quads(Ints sum, Ints weights, Ints x) { return {_mm512_dpbusd_epi32(sum.v, weights.v, x.v)}; }

inline float reduce_add(Floats a) {
  const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 quarter = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
  const __m128 two = _mm_add_ps(quarter, _mm_movehl_ps(quarter, quarter));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
inline float reduce_max(Floats a) {
  const __m256 half = _mm256_max_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 quarter = _mm_max_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
  const __m128 two = _mm_max_ps(quarter, _mm_movehl_ps(quarter, quarter));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

// Four rounds, each interleaving rows that are a power of two apart: 32-bit, 64-bit, then 128-bit units
// twice.
inline void transpose(Ints (&rows)[16]) {
  __m512i a[16], b[16];
  for (int i = 0; i < 16; i += 2) {
    a[i] = _mm512_unpacklo_epi32(rows[i].v, rows[i + 1].v);
    a[i + 1] = _mm512_unpackhi_epi32(rows[i].v, rows[i + 1].v);
  }
  for (int i = 0; i < 16; i += 4) {
    for (int j = 0; j < 2; ++j) {
      b[i + 2 * j] = _mm512_unpacklo_epi64(a[i + j], a[i + j + 2]);
      b[i + 2 * j + 1] = _mm512_unpackhi_epi64(a[i + j], a[i + j + 2]);
    }
  }
  for (int j = 0; j < 4; ++j) {
    a[j] = _mm512_shuffle_i32x4(b[j], b[j + 4], 0x88);
    a[j + 4] = _mm512_shuffle_i32x4(b[j], b[j + 4], 0xdd);
    a[j + 8] = _mm512_shuffle_i32x4(b[j + 8], b[j + 12], 0x88);
    a[j + 12] = _mm512_shuffle_i32x4(b[j + 8], b[j + 12], 0xdd);
  }
  for (int j = 0; j < 8; ++j) {
    rows[j].v = _mm512_shuffle_i32x4(a[j], a[j + 8], 0x88);
    rows[j + 8].v = _mm512_shuffle_i32x4(a[j], a[j + 8], 0xdd);
  }
}

}  // namespace carat::CARAT_ISA
