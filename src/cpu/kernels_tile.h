// The register tile of float32 arithmetic: up to kTileRows rows times kTileTokens right-hand sides held in
// registers while the columns go by. Matrix products and both halves of attention are made of it. Compiled
// once per ISA.
#pragma once
#include <cstdint>
#include <type_traits>

namespace carat::CARAT_ISA {

/// Calls f(integral_constant<int, 0>) ... f(integral_constant<int, count - 1>): a loop that is always
/// unrolled.
template <int count, class F>
[[gnu::always_inline]] inline void unroll(F&& f) {
  if constexpr (count > 0) {
    unroll<count - 1>(f);
    f(std::integral_constant<int, count - 1>{});
  }
}

inline Floats load_as_floats(const float* p) { return load(p); }
inline Floats load_as_floats(const uint16_t* p) { return load_f16(p); }

/// 16 or 32 rows of a left-hand side: 16 rows of column k begin at `at + k * stride`, 16 more `apart` behind
/// them.
template <class T>
struct StridedColumns {
  const T* at;
  int64_t stride, apart;

  template <int vectors>
  [[gnu::always_inline]] void load_column(int64_t k, Floats (&out)[vectors]) const {
    unroll<vectors>([&](auto s) { out[s] = load_as_floats(at + k * stride + s * apart); });
  }
  StridedColumns second_half() const { return {at + apart, stride, apart}; }
};

/// Where a tile's sums go: y[t * stride + row], of which `rows` rows exist; added to what is there, or
/// written.
struct TileOutput {
  float* y;
  int64_t stride;
  int rows;
  bool accumulate;

  TileOutput from_row(int row) const { return {y + row, stride, rows - row, accumulate}; }
  TileOutput from_token(int token) const { return {y + token * stride, stride, rows, accumulate}; }
};

/// One vector of 16 rows, of which the last vector of a matrix may have fewer.
inline void emit(const TileOutput& out, int token, int row, Floats sums) {
  float* y = out.y + token * out.stride + row;
  if (out.rows - row >= 16) {
    store(y, out.accumulate ? add(load(y), sums) : sums);
  } else if (out.rows > row) {
    const int count = out.rows - row;
    store_first(y, out.accumulate ? add(load_first(y, count), sums) : sums, count);
  }
}

/// out = sum over k < depth of left[:, k] * x[token, k]. Each sum is one chain of fused multiply-adds in the
/// order of k, whatever the shape of the tile, so a result doesn't depend on what else is in the tile.
template <int vectors, int tokens, class Left>
void float_tile(const Left& left, int64_t depth, const float* x, int64_t x_stride, const TileOutput& out) {
  Floats sums[tokens][vectors];
  unroll<tokens>([&](auto t) { unroll<vectors>([&](auto s) { sums[t][s] = broadcast(0.f); }); });
  for (int64_t k = 0; k < depth; ++k) {
    Floats column[vectors];
    left.load_column(k, column);
    unroll<tokens>([&](auto t) {
      const Floats value = broadcast(x[t * x_stride + k]);
      unroll<vectors>([&](auto s) { sums[t][s] = fma(column[s], value, sums[t][s]); });
    });
  }
  unroll<tokens>([&](auto t) { unroll<vectors>([&](auto s) { emit(out, t, 16 * s, sums[t][s]); }); });
}

/// Calls run(first, integral_constant<int, size>) for tiles of at most `largest` that together cover `count`,
/// all nearly the same size.
template <int largest, class Run>
void cover_with_tiles(int count, Run&& run) {
  for (int first = 0, tiles = (count + largest - 1) / largest; tiles > 0; --tiles) {
    const int size = (count - first + tiles - 1) / tiles;
    unroll<largest>([&](auto smaller) {
      if (size == smaller + 1) run(first, std::integral_constant<int, smaller + 1>{});
    });
    first += size;
  }
}

template <int vectors, int largest, class Left>
void float_tiles(const Left& left, int64_t depth, const float* x, int64_t x_stride, int tokens,
                 const TileOutput& out) {
  cover_with_tiles<largest>(tokens, [&](int first, auto size) {
    float_tile<vectors, size()>(left, depth, x + first * x_stride, x_stride, out.from_token(first));
  });
}

/// 32 rows whose columns are strided, as one tile or two halves.
template <class T>
void float_panel(const StridedColumns<T>& left, int64_t depth, const float* x, int64_t x_stride, int tokens,
                 const TileOutput& out) {
  if constexpr (kTileRows == 32) {
    if (out.rows > 16) return float_tiles<2, kTileTokens>(left, depth, x, x_stride, tokens, out);
  } else if (out.rows > 16) {
    float_tiles<1, kTileTokens>(left.second_half(), depth, x, x_stride, tokens, out.from_row(16));
  }
  float_tiles<1, kTileTokens>(left, depth, x, x_stride, tokens, out);
}

}  // namespace carat::CARAT_ISA
