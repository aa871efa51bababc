// The register tile of float32 arithmetic: kTileRows rows times up to kTileTokens right-hand sides held in
// registers while the columns go by. Matrix products and both halves of attention are made of it. Compiled
// once per ISA.
#pragma once
#include <cstdint>
#include <type_traits>

/// Loops over registers: an array of vectors stays in registers only if every index is a constant.
#define CARAT_UNROLL _Pragma("GCC unroll 16")

namespace carat::CARAT_ISA {

/// Vectors of 16 rows in a tile. Panels have 32 rows; where a tile has 16, the two halves are tiles of their
/// own.
inline constexpr int kTileVectors = kTileRows / 16;

/// The largest batch for which bf16 weights are widened in registers, once per tile. For larger ones they are
/// widened into a buffer first, once for all tiles. Where a tile has all 32 rows of a panel, widening costs
/// it two instructions per column beside 24 multiply-adds: always less than a buffer that crowds the L1
/// cache.
inline constexpr int kDirectTokens = kTileVectors == 2 ? INT32_MAX : 6 * kTileTokens;

/// How far ahead of its use streamed memory is asked for. The hardware's prefetcher stops at every 4 KiB;
/// with this, a loop that also computes reads as fast as one that does nothing else.
inline constexpr int kPrefetchBytes = 8192;

inline Floats load_as_floats(const float* p) { return load(p); }
inline Floats load_as_floats(const uint16_t* p) { return load_f16(p); }
inline Floats load_as_floats(const int8_t* p) { return load_i8(p); }

/// 32 rows of a left-hand side: rows 0-15 of column k begin at `at + k * stride`, rows 16-31 `apart` behind
/// them. The bytes `ahead` of each are prefetched.
template <class T>
struct StridedColumns {
  const T* at;
  int64_t stride, apart, ahead;

  [[gnu::always_inline]] void load_column(int64_t k, Floats (&out)[kTileVectors]) const {
    CARAT_UNROLL
    for (int s = 0; s < kTileVectors; ++s) {
      const T* from = at + k * stride + s * apart;
      prefetch(reinterpret_cast<const char*>(from) + ahead);
      out[s] = load_as_floats(from);
    }
  }
  StridedColumns second_half() const { return {at + apart, stride, apart, ahead}; }
};

/// Where a tile's sums go: y[t * stride + row], of which `rows` rows exist; added to what is there, or
/// written.
struct TileOutput {
  float* y;
  int64_t stride;
  int rows;
  bool accumulate;

  TileOutput second_half() const { return {y + 16, stride, rows - 16, accumulate}; }
  TileOutput from_token(int token) const { return {y + token * stride, stride, rows, accumulate}; }

  void emit(int token, int vector, Floats sums) const {
    float* at = y + token * stride + 16 * vector;
    const int count = rows - 16 * vector;
    if (count >= 16) {
      store(at, accumulate ? add(load(at), sums) : sums);
    } else if (count > 0) {
      store_first(at, accumulate ? add(load_first(at, count), sums) : sums, count);
    }
  }
};

inline TileOutput panel_output(const MatmulWeights& w, int64_t panel, float* y, int64_t y_stride,
                               bool accumulate) {
  const int64_t row = panel * kPanelRows;
  const int64_t rows = w.linear.rows - row;
  return {y + row, y_stride, static_cast<int>(rows < kPanelRows ? rows : kPanelRows), accumulate};
}

/// out = sum over k < depth of left[:, k] * x[token, k]. Each sum is one chain of fused multiply-adds in the
/// order of k, whatever the shape of the tile, so a result doesn't depend on what else is in the tile.
template <int tokens, class Left>
void float_tile(const Left& left, int64_t depth, const float* x, int64_t x_stride, const TileOutput& out) {
  Floats sums[tokens][kTileVectors];
  CARAT_UNROLL
  for (int t = 0; t < tokens; ++t) {
    CARAT_UNROLL
    for (int s = 0; s < kTileVectors; ++s) sums[t][s] = broadcast(0.f);
  }
  // One pointer for four tokens, or they don't all fit into registers; the empty assembly keeps the compiler
  // from making one for each again.
  constexpr int kGroups = (tokens + 3) / 4;
  const float* group[kGroups];
  for (int g = 0; g < kGroups; ++g) group[g] = x + 4 * g * x_stride;
#pragma GCC unroll 4
  for (int64_t k = 0; k < depth; ++k) {
    Floats column[kTileVectors];
    left.load_column(k, column);
    CARAT_UNROLL
    for (int g = 0; g < kGroups; ++g) asm("" : "+r"(group[g]));
    CARAT_UNROLL
    for (int t = 0; t < tokens; ++t) {
      const Floats value = broadcast(group[t / 4][t % 4 * x_stride + k]);
      CARAT_UNROLL
      for (int s = 0; s < kTileVectors; ++s) sums[t][s] = fma(column[s], value, sums[t][s]);
    }
  }
  CARAT_UNROLL
  for (int t = 0; t < tokens; ++t) {
    CARAT_UNROLL
    for (int s = 0; s < kTileVectors; ++s) out.emit(t, s, sums[t][s]);
  }
}

/// Calls run(integral_constant<int, size>) for a size in 1..largest known only at run time.
template <int largest, class Run>
void with_constant(int size, const Run& run) {
  if (size == largest) {
    run(std::integral_constant<int, largest>{});
  } else if constexpr (largest > 1) {
    with_constant<largest - 1>(size, run);
  }
}

/// Calls run(first, integral_constant<int, size>) for tiles of at most `largest` that together cover `count`,
/// all nearly the same size.
template <int largest, class Run>
void cover_with_tiles(int count, const Run& run) {
  int first = 0;
  for (int tiles = (count + largest - 1) / largest; tiles > 0; --tiles) {
    const int size = (count - first + tiles - 1) / tiles;
    with_constant<largest>(size, [&](auto constant) { run(first, constant); });
    first += size;
  }
}

template <class Left>
void float_tiles(const Left& left, int64_t depth, const float* x, int64_t x_stride, int tokens,
                 const TileOutput& out) {
  cover_with_tiles<kTileTokens>(tokens, [&](int first, auto size) {
    float_tile<size()>(left, depth, x + first * x_stride, x_stride, out.from_token(first));
  });
}

/// All 32 rows.
template <class Left>
void float_panel(const Left& left, int64_t depth, const float* x, int64_t x_stride, int tokens,
                 const TileOutput& out) {
  float_tiles(left, depth, x, x_stride, tokens, out);
  if (kTileVectors == 1 && out.rows > 16) {
    float_tiles(left.second_half(), depth, x, x_stride, tokens, out.second_half());
  }
}

}  // namespace carat::CARAT_ISA
