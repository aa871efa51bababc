// Vectors of 16 lanes as two registers of 8, on AVX2 with FMA and F16C. vec_scalar.h documents the
// vocabulary.
#pragma once
#include <immintrin.h>

#include <cstdint>

namespace carat::CARAT_ISA {

inline constexpr Isa kIsa = Isa::avx2;
inline constexpr int kTileRows = 16, kTileTokens = 6, kIntTileTokens = 6;
/// int8 weights are packed as signed bytes.
inline constexpr int kInt8Offset = 0;

struct Floats {
  __m256 low, high;
};
struct Ints {
  __m256i low, high;
};

[[gnu::always_inline]] inline void prefetch(const void* p) {
  _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1);
}

/// All bits of the first `count` lanes of [first, first + 8).
inline __m256i lane_mask(int first, int count) {
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(count - first), lanes);
}
inline __m256i loadu(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
inline void storeu(void* p, __m256i a) { _mm256_storeu_si256(static_cast<__m256i*>(p), a); }

inline Floats broadcast(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
inline Floats load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline void store(float* p, Floats a) {
  _mm256_storeu_ps(p, a.low);
  _mm256_storeu_ps(p + 8, a.high);
}
inline Floats load_first(const float* p, int count) {
  if (count >= 16) return load(p);
  return {_mm256_maskload_ps(p, lane_mask(0, count)), _mm256_maskload_ps(p + 8, lane_mask(8, count))};
}
inline void store_first(float* p, Floats a, int count) {
  if (count >= 16) return store(p, a);
  _mm256_maskstore_ps(p, lane_mask(0, count), a.low);
  _mm256_maskstore_ps(p + 8, lane_mask(8, count), a.high);
}
inline Floats load_f16(const uint16_t* p) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
          _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))};
}
inline void store_f16(uint16_t* p, Floats a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(a.low, _MM_FROUND_TO_NEAREST_INT));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8), _mm256_cvtps_ph(a.high, _MM_FROUND_TO_NEAREST_INT));
}
inline Floats load_i8(const int8_t* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)),
          _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8)))};
}

inline Floats add(Floats a, Floats b) { return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)}; }
inline Floats sub(Floats a, Floats b) { return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)}; }
inline Floats mul(Floats a, Floats b) { return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)}; }
inline Floats div(Floats a, Floats b) { return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)}; }
inline Floats fma(Floats a, Floats b, Floats c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
inline Floats max(Floats a, Floats b) { return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)}; }
inline Floats min(Floats a, Floats b) { return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)}; }
inline Floats round(Floats a) {
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {_mm256_round_ps(a.low, kNearest), _mm256_round_ps(a.high, kNearest)};
}
inline Floats keep_first(Floats a, int count) {
  return {_mm256_and_ps(a.low, _mm256_castsi256_ps(lane_mask(0, count))),
          _mm256_and_ps(a.high, _mm256_castsi256_ps(lane_mask(8, count)))};
}

inline Ints load_ints(const void* p) { return {loadu(p), loadu(static_cast<const char*>(p) + 32)}; }
inline Ints load_first_bytes(const void* p, int count) {
  alignas(32) char bytes[64] = {};
  __builtin_memcpy(bytes, p, static_cast<size_t>(count));
  return load_ints(bytes);
}
inline void store_ints(void* p, Ints a) {
  storeu(p, a.low);
  storeu(static_cast<char*>(p) + 32, a.high);
}
inline Ints broadcast(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
inline Ints add(Ints a, Ints b) { return {_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)}; }
template <int bits>
Ints shift_left(Ints a) {
  return {_mm256_slli_epi32(a.low, bits), _mm256_slli_epi32(a.high, bits)};
}
template <int bits>
Ints shift_right(Ints a) {
  return {_mm256_srli_epi32(a.low, bits), _mm256_srli_epi32(a.high, bits)};
}
inline Ints bit_and(Ints a, uint32_t mask) {
  const __m256i bits = _mm256_set1_epi32(static_cast<int>(mask));
  return {_mm256_and_si256(a.low, bits), _mm256_and_si256(a.high, bits)};
}
inline Ints bit_or(Ints a, Ints b) {
  return {_mm256_or_si256(a.low, b.low), _mm256_or_si256(a.high, b.high)};
}
inline Floats as_floats(Ints a) { return {_mm256_castsi256_ps(a.low), _mm256_castsi256_ps(a.high)}; }
inline Ints as_ints(Floats a) { return {_mm256_castps_si256(a.low), _mm256_castps_si256(a.high)}; }
inline Floats to_floats(Ints a) { return {_mm256_cvtepi32_ps(a.low), _mm256_cvtepi32_ps(a.high)}; }
inline Ints to_ints(Floats a) { return {_mm256_cvtps_epi32(a.low), _mm256_cvtps_epi32(a.high)}; }
inline void store_words(int16_t* p, Ints a) {
  // The low 16 bits of each lane, moved to the lower half of each 128 bits, then those halves together.
  const __m256i low_words = _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, -1, -1, -1, -1, -1, -1, -1, -1,  //
                                             0, 1, 4, 5, 8, 9, 12, 13, -1, -1, -1, -1, -1, -1, -1, -1);
  const __m256i both =
      _mm256_unpacklo_epi64(_mm256_shuffle_epi8(a.low, low_words), _mm256_shuffle_epi8(a.high, low_words));
  storeu(p, _mm256_permute4x64_epi64(both, 0xd8));
}

inline void store_bytes(int8_t* p, Ints a) {
  const __m256i words = _mm256_packs_epi32(a.low, a.high);  // 0-3, 8-11, 4-7, 12-15
  const __m256i bytes = _mm256_packs_epi16(_mm256_permute4x64_epi64(words, 0xd8), words);
  const __m256i both = _mm256_permute4x64_epi64(bytes, 0x08);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_castsi256_si128(both));
}
/// The multiplication of bytes takes one operand unsigned: the sign of the weight moves to x. Its 16-bit sums
/// of two products can't overflow, since |x| and |weight| are at most 127.
inline __m256i dot_quads(__m256i sum, __m256i weights, __m256i x) {
  const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(weights), _mm256_sign_epi8(x, weights));
  return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
inline Ints dot_quads(Ints sum, Ints weights, Ints x) {
  return {dot_quads(sum.low, weights.low, x.low), dot_quads(sum.high, weights.high, x.high)};
}

inline float reduce_add(Floats a) {
  const __m256 half = _mm256_add_ps(a.low, a.high);
  const __m128 quarter = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
  const __m128 two = _mm_add_ps(quarter, _mm_movehl_ps(quarter, quarter));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
inline float reduce_max(Floats a) {
  const __m256 half = _mm256_max_ps(a.low, a.high);
  const __m128 quarter = _mm_max_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
  const __m128 two = _mm_max_ps(quarter, _mm_movehl_ps(quarter, quarter));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

// 8 x 8 in three rounds, each interleaving rows that are a power of two apart.
inline void transpose_8x8(__m256i (&r)[8]) {
  __m256i a[8], b[8];
  for (int i = 0; i < 8; i += 2) {
    a[i] = _mm256_unpacklo_epi32(r[i], r[i + 1]);
    a[i + 1] = _mm256_unpackhi_epi32(r[i], r[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    for (int j = 0; j < 2; ++j) {
      b[i + 2 * j] = _mm256_unpacklo_epi64(a[i + j], a[i + j + 2]);
      b[i + 2 * j + 1] = _mm256_unpackhi_epi64(a[i + j], a[i + j + 2]);
    }
  }
  for (int j = 0; j < 4; ++j) {
    r[j] = _mm256_permute2x128_si256(b[j], b[j + 4], 0x20);
    r[j + 4] = _mm256_permute2x128_si256(b[j], b[j + 4], 0x31);
  }
}

inline void transpose(Ints (&rows)[16]) {
  __m256i corner[4][8];  // upper left, upper right, lower left, lower right
  for (int i = 0; i < 8; ++i) {
    corner[0][i] = rows[i].low;
    corner[1][i] = rows[i].high;
    corner[2][i] = rows[i + 8].low;
    corner[3][i] = rows[i + 8].high;
  }
  for (auto& square : corner) transpose_8x8(square);
  for (int i = 0; i < 8; ++i) {
    rows[i] = {corner[0][i], corner[2][i]};
    rows[i + 8] = {corner[1][i], corner[3][i]};
  }
}

}  // namespace carat::CARAT_ISA
