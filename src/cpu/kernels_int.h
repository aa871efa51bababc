// matmul for int8 and int4 weights with activations of 16-bit integers. Compiled once per ISA.
//
// Within a group of columns the sums are exact: |sum| <= 64 * 127 * 32767 fits in 32 bits. A group's sum
// times its scale is added up in float32, in the order of the groups; the activation row's own scale comes
// last.
#pragma once
#include "cpu/kernels_layout.h"
#include "cpu/kernels_tile.h"

namespace carat::CARAT_ISA {

/// The three shapes in which integer weights reach a tile. A quad is 4 neighbouring column pairs of 16 rows;
/// `half` says of which 16.
struct Int8Groups {
  static constexpr int kGroup = kInt8Block;
  const std::byte* at;

  struct Quad {
    const std::byte* at;
    template <int j>
    Words pair() const {
      return widen_bytes(reinterpret_cast<const int8_t*>(at + 64 * j));
    }
  };
  Quad quad(int64_t group, int index, int half) const {
    const std::byte* quad = at + group * kInt8GroupBytes + 64 + 256 * index;
    // Both halves are in the same four cache lines; each asks for two of those that come later.
    prefetch(quad + kPrefetchBytes + 128 * half);
    prefetch(quad + kPrefetchBytes + 128 * half + 64);
    return {quad + 32 * half};
  }
  Floats scales(int64_t group, int half) const {
    return load_f16(reinterpret_cast<const uint16_t*>(at + group * kInt8GroupBytes + 32 * half));
  }
};

struct Int4Groups {
  static constexpr int kGroup = kInt4Block;
  const std::byte* at;

  struct Quad {
    Words nibbles;
    template <int j>
    Words pair() const {
      if constexpr (j == 3)
        return shift_right_signed<12>(nibbles);
      else
        return shift_right_signed<12>(shift_left<12 - 4 * j>(nibbles));
    }
  };
  Quad quad(int64_t group, int index, int half) const {
    const std::byte* quad = at + group * kInt4GroupBytes + 64 + 64 * (4 * half + index);
    prefetch(quad + kPrefetchBytes);
    return {load_words(reinterpret_cast<const int16_t*>(quad))};
  }
  Floats scales(int64_t group, int half) const {
    prefetch(at + group * kInt4GroupBytes + kPrefetchBytes);
    return load_f16(reinterpret_cast<const uint16_t*>(at + group * kInt4GroupBytes + 32 * half));
  }
};

/// Widened once for many tokens: words [2, column pairs, 16 rows, 2], scales [groups, 32].
template <int group_columns>
struct WidenedGroups {
  static constexpr int kGroup = group_columns;
  const int16_t* words;
  const float* group_scales;
  int64_t depth;

  struct Quad {
    const int16_t* at;
    template <int j>
    Words pair() const {
      return load_words(at + 32 * j);
    }
  };
  Quad quad(int64_t group, int index, int half) const {
    return {words + 16 * (half * depth + group * kGroup + 8 * index)};
  }
  Floats scales(int64_t group, int half) const { return load(group_scales + 32 * group + 16 * half); }
};

/// The same output as a float tile's, times the scales of the activation rows once the last columns are in.
struct IntOutput {
  TileOutput tile;
  const float* token_scales;  // null before the last columns

  IntOutput second_half() const { return {tile.second_half(), token_scales}; }
  IntOutput from_token(int token) const {
    return {tile.from_token(token), token_scales ? token_scales + token : nullptr};
  }
  void emit(int token, int vector, Floats sums) const {
    const int rows = tile.rows - 16 * vector, count = rows < 16 ? rows : 16;
    if (count <= 0) return;
    float* at = tile.y + token * tile.stride + 16 * vector;
    if (tile.accumulate) sums = add(load_first(at, count), sums);
    if (token_scales) sums = mul(sums, broadcast(token_scales[token]));
    store_first(at, sums, count);
  }
};

/// Adds the products of column pair j of a quad.
template <int j, int tokens, class Quad>
[[gnu::always_inline]] inline void add_pair(const Quad (&quads)[kTileVectors], const int16_t* x,
                                            int64_t x_stride, Ints (&dots)[tokens][kTileVectors]) {
  Words weights[kTileVectors];
  CARAT_UNROLL
  for (int s = 0; s < kTileVectors; ++s) weights[s] = quads[s].template pair<j>();
  CARAT_UNROLL
  for (int t = 0; t < tokens; ++t) {
    const Words pair = broadcast_pair(x + t * x_stride + 2 * j);
    CARAT_UNROLL
    for (int s = 0; s < kTileVectors; ++s) dots[t][s] = dot_pairs(dots[t][s], weights[s], pair);
  }
}

template <int tokens, class Left>
void int_tile(const Left& left, int first_half, int64_t groups, const int16_t* x, int64_t x_stride,
              const IntOutput& out) {
  Floats sums[tokens][kTileVectors];
  CARAT_UNROLL
  for (int t = 0; t < tokens; ++t) {
    CARAT_UNROLL
    for (int s = 0; s < kTileVectors; ++s) sums[t][s] = broadcast(0.f);
  }
  for (int64_t group = 0; group < groups; ++group) {
    Ints dots[tokens][kTileVectors];
    CARAT_UNROLL
    for (int t = 0; t < tokens; ++t) {
      CARAT_UNROLL
      for (int s = 0; s < kTileVectors; ++s) dots[t][s] = broadcast(int32_t{0});
    }
    for (int index = 0; index < Left::kGroup / 8; ++index, x += 8) {
      typename Left::Quad quads[kTileVectors];
      CARAT_UNROLL
      for (int s = 0; s < kTileVectors; ++s) quads[s] = left.quad(group, index, first_half + s);
      add_pair<0>(quads, x, x_stride, dots);
      add_pair<1>(quads, x, x_stride, dots);
      add_pair<2>(quads, x, x_stride, dots);
      add_pair<3>(quads, x, x_stride, dots);
    }
    CARAT_UNROLL
    for (int s = 0; s < kTileVectors; ++s) {
      const Floats scale = left.scales(group, first_half + s);
      CARAT_UNROLL
      for (int t = 0; t < tokens; ++t) sums[t][s] = fma(to_floats(dots[t][s]), scale, sums[t][s]);
    }
  }
  CARAT_UNROLL
  for (int t = 0; t < tokens; ++t) {
    CARAT_UNROLL
    for (int s = 0; s < kTileVectors; ++s) out.emit(t, s, sums[t][s]);
  }
}

template <class Left>
void int_tiles(const Left& left, int first_half, int64_t groups, const int16_t* x, int64_t x_stride,
               int tokens, const IntOutput& out) {
  cover_with_tiles<kIntTileTokens>(tokens, [&](int first, auto size) {
    int_tile<size()>(left, first_half, groups, x + first * x_stride, x_stride, out.from_token(first));
  });
}

template <class Left>
void int_panel(const Left& left, int64_t groups, const int16_t* x, int64_t x_stride, int tokens,
               const IntOutput& out) {
  int_tiles(left, 0, groups, x, x_stride, tokens, out);
  if (kTileVectors == 1 && out.tile.rows > 16) {
    int_tiles(left, 1, groups, x, x_stride, tokens, out.second_half());
  }
}

/// Widens `groups` groups to words [2, groups * kGroup / 2, 16, 2] and scales [groups, 32].
template <class Groups>
void widen_groups(const Groups& packed, int64_t groups, int16_t* words, float* scales) {
  const int64_t depth = groups * Groups::kGroup;
  for (int64_t group = 0; group < groups; ++group) {
    for (int half = 0; half < 2; ++half) {
      store(scales + 32 * group + 16 * half, packed.scales(group, half));
      int16_t* to = words + 16 * (half * depth + group * Groups::kGroup);
      for (int index = 0; index < Groups::kGroup / 8; ++index) {
        const typename Groups::Quad quad = packed.quad(group, index, half);
        store_words(to + 128 * index, quad.template pair<0>());
        store_words(to + 128 * index + 32, quad.template pair<1>());
        store_words(to + 128 * index + 64, quad.template pair<2>());
        store_words(to + 128 * index + 96, quad.template pair<3>());
      }
    }
  }
}

/// Columns [k, k + depth) of panels [first, first + count) for all tokens.
template <class Groups>
void int_block(const MatmulWeights& w, int64_t first, int64_t count, int64_t k, int64_t depth,
               const Activations& x, int tokens, float* y, int64_t y_stride) {
  alignas(64) int16_t words[kPanelRows * kDepth];
  alignas(64) float scales[kPanelRows * kDepth / Groups::kGroup];
  const int64_t panel_size = static_cast<int64_t>(panel_bytes(w.linear.format, w.linear.cols));
  const int64_t group_size = panel_size / ((w.linear.cols + Groups::kGroup - 1) / Groups::kGroup);
  const int64_t groups = (depth + Groups::kGroup - 1) / Groups::kGroup;
  const int16_t* values = x.quantized + k;
  const float* token_scales = k + depth == w.linear.cols ? x.scales : nullptr;
  for (int64_t panel = first; panel < first + count; ++panel) {
    const Groups packed{w.linear.data + panel * panel_size + k / Groups::kGroup * group_size};
    const int rows = static_cast<int>(min_of(w.linear.rows - panel * kPanelRows, kPanelRows));
    const IntOutput out{{y + panel * kPanelRows, y_stride, rows, k > 0}, token_scales};
    if (tokens <= kDirectTokens) {
      int_panel(packed, groups, values, x.quantized_stride, tokens, out);
    } else {
      widen_groups(packed, groups, words, scales);
      const WidenedGroups<Groups::kGroup> widened{words, scales, groups * Groups::kGroup};
      int_panel(widened, groups, values, x.quantized_stride, tokens, out);
    }
  }
}

/// x ~ scale * q with |q| <= 32767. Columns up to the next multiple of 64 become zero.
inline void quantize(const float* x, int64_t n, int16_t* q, float* scale) {
  Floats largest = broadcast(0.f);
  for (int64_t i = 0; i < n; i += 16) {
    const Floats value = load_first(x + i, static_cast<int>(min_of(n - i, 16)));
    largest = max(largest, as_floats(bit_and(as_ints(value), 0x7fffffffu)));
  }
  const float peak = reduce_max(largest);
  *scale = peak / 32767.f;
  // Below this the quotient overflows; such a row is zero for every practical purpose.
  const Floats inverse = broadcast(peak > 1e-30f ? 32767.f / peak : 0.f);
  for (int64_t i = 0; i < quantized_cols(n); i += 16) {
    const int64_t left = min_of(n - i, 16);
    const Floats value = left > 0 ? load_first(x + i, static_cast<int>(left)) : broadcast(0.f);
    store_words(q + i, to_ints(mul(value, inverse)));
  }
}

}  // namespace carat::CARAT_ISA
