// matmul for int8 and int4 weights with activations of 16-bit integers. Compiled once per ISA.
//
// Within a group of columns the sums are exact: |sum| <= 64 * 127 * 32767 fits in 32 bits. A group's sum
// times its scale is added up in float32, in the order of the groups; the activation row's own scale comes
// last.
#pragma once
#include "cpu/kernels_layout.h"
#include "cpu/kernels_tile.h"

namespace carat::CARAT_ISA {

/// The three shapes in which integer weights reach a tile. `half` is the first half (16 rows) of the panel
/// that the tile computes. A quad is 4 neighbouring column pairs.
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
    return {at + group * kInt8GroupBytes + 64 + 256 * index + 32 * half};
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
    return {load_words(
        reinterpret_cast<const int16_t*>(at + group * kInt4GroupBytes + 64 + 64 * (4 * half + index)))};
  }
  Floats scales(int64_t group, int half) const {
    return load_f16(reinterpret_cast<const uint16_t*>(at + group * kInt4GroupBytes + 32 * half));
  }
};

/// Unpacked once for many tokens: words [2, column pairs, 16 rows, 2], scales [groups, 32].
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

/// The same output as a float tile's, with the scales of the activation rows once the last columns are in.
struct IntOutput {
  TileOutput tile;
  const float* token_scales;  // null before the last columns

  IntOutput from_token(int token) const {
    return {tile.from_token(token), token_scales ? token_scales + token : nullptr};
  }
};

inline void emit(const IntOutput& out, int token, int row, Floats sums) {
  const TileOutput& tile = out.tile;
  const int count = tile.rows - row < 16 ? tile.rows - row : 16;
  if (count <= 0) return;
  const float* y = tile.y + token * tile.stride + row;
  if (tile.accumulate) sums = add(load_first(y, count), sums);
  if (out.token_scales) sums = mul(sums, broadcast(out.token_scales[token]));
  store_first(tile.y + token * tile.stride + row, sums, count);
}

template <int vectors, int tokens, class Left>
void int_tile(const Left& left, int first_half, int64_t groups, const int16_t* x, int64_t x_stride,
              const IntOutput& out) {
  Floats sums[tokens][vectors];
  unroll<tokens>([&](auto t) { unroll<vectors>([&](auto s) { sums[t][s] = broadcast(0.f); }); });
  for (int64_t group = 0; group < groups; ++group, x += Left::kGroup) {
    Ints dots[tokens][vectors];
    unroll<tokens>([&](auto t) { unroll<vectors>([&](auto s) { dots[t][s] = broadcast(int32_t{0}); }); });
    for (int index = 0; index < Left::kGroup / 8; ++index) {
      typename Left::Quad quads[vectors];
      unroll<vectors>([&](auto s) { quads[s] = left.quad(group, index, first_half + s); });
      unroll<4>([&](auto j) {
        Words weights[vectors];
        unroll<vectors>([&](auto s) { weights[s] = quads[s].template pair<j()>(); });
        unroll<tokens>([&](auto t) {
          const Words pair = broadcast_pair(x + t * x_stride + 8 * index + 2 * j);
          unroll<vectors>([&](auto s) { dots[t][s] = dot_pairs(dots[t][s], weights[s], pair); });
        });
      });
    }
    unroll<vectors>([&](auto s) {
      const Floats scale = left.scales(group, first_half + s);
      unroll<tokens>([&](auto t) { sums[t][s] = fma(to_floats(dots[t][s]), scale, sums[t][s]); });
    });
  }
  unroll<tokens>([&](auto t) { unroll<vectors>([&](auto s) { emit(out, t, 16 * s, sums[t][s]); }); });
}

template <int vectors, class Left>
void int_tiles(const Left& left, int first_half, int64_t groups, const int16_t* x, int64_t x_stride,
               int tokens, const IntOutput& out) {
  cover_with_tiles<kTileTokens>(tokens, [&](int first, auto size) {
    int_tile<vectors, size()>(left, first_half, groups, x + first * x_stride, x_stride,
                              out.from_token(first));
  });
}

template <class Left>
void int_panel(const Left& left, int64_t groups, const int16_t* x, int64_t x_stride, int tokens,
               const IntOutput& out) {
  if constexpr (kTileRows == 32) {
    if (out.tile.rows > 16) return int_tiles<2>(left, 0, groups, x, x_stride, tokens, out);
  } else if (out.tile.rows > 16) {
    int_tiles<1>(left, 1, groups, x, x_stride, tokens, {out.tile.from_row(16), out.token_scales});
  }
  int_tiles<1>(left, 0, groups, x, x_stride, tokens, out);
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
        unroll<4>([&](auto j) { store_words(to + 128 * index + 32 * j, quad.template pair<j()>()); });
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
    if (tokens <= kTileTokens) {
      int_panel(packed, groups, values, x.quantized_stride, tokens, out);
    } else {
      widen_groups(packed, groups, words, scales);
      const WidenedGroups<Groups::kGroup> widened{words, scales, groups * Groups::kGroup};
      int_panel(widened, groups, values, x.quantized_stride, tokens, out);
    }
  }
}

/// Small batches stream each panel from beginning to end; larger ones keep a block of the tokens' columns in
/// cache.
template <class Groups>
void int_panels_of(const MatmulWeights& w, int64_t first, int64_t count, const Activations& x, int tokens,
                   float* y, int64_t y_stride) {
  const int64_t cols = w.linear.cols, step = tokens <= kTileTokens ? 1 : count;
  for (int64_t panel = first; panel < first + count; panel += step) {
    for (int64_t k = 0; k < cols; k += kDepth) {
      int_block<Groups>(w, panel, step, k, min_of(cols - k, kDepth), x, tokens, y, y_stride);
    }
  }
}

inline void int_panels(const MatmulWeights& w, int64_t first, int64_t count, const Activations& x, int tokens,
                       float* y, int64_t y_stride) {
  if (w.linear.format == WeightFormat::int8)
    return int_panels_of<Int8Groups>(w, first, count, x, tokens, y, y_stride);
  int_panels_of<Int4Groups>(w, first, count, x, tokens, y, y_stride);
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
