// matmul for float weights (f32, f16, bf16), from panels or from rows as stored, and the choice between this
// and the integer path. Compiled once per ISA.
//
// Columns are taken in blocks of kDepth: the sum over a block starts from zero and is then added to y. bf16
// panels are widened in registers, by each tile anew, up to kDirectTokens; other weights, and bf16 for more
// tokens, block by block in a buffer, once for all tokens. The blocks are the outer loop, so that a block of
// the tokens' columns stays in the L2 cache. Both add up the same products in the same order.
#pragma once
#include "cpu/kernels_int.h"
#include "cpu/kernels_layout.h"
#include "cpu/kernels_tile.h"

namespace carat::CARAT_ISA {

/// bf16 panels hold, per column, 16 lanes of 32 bits: row r in the lower half, row r + 16 in the upper one,
/// which a shift and a mask turn into float32. `half` is the tile's half of the panel where a tile has 16
/// rows.
struct Bf16Columns {
  const std::byte* at;
  int half = 0;

  [[gnu::always_inline]] void load_column(int64_t k, Floats (&out)[kTileVectors]) const {
    const Ints pair = load_ints(at + 64 * k);
    prefetch(at + 64 * k + kPrefetchBytes);
    if constexpr (kTileVectors == 2) {
      out[0] = lower(pair);
      out[1] = upper(pair);
    } else {
      out[0] = half == 0 ? lower(pair) : upper(pair);
    }
  }
  Bf16Columns second_half() const { return {at, 1}; }

  static Floats lower(Ints pair) { return as_floats(shift_left<16>(pair)); }
  static Floats upper(Ints pair) { return as_floats(bit_and(pair, 0xffff0000u)); }
};

/// Columns [k, k + depth) of a panel as float32 [2, depth, 16]: in place or in the buffer.
inline const float* widen_block(const MatmulWeights& w, int64_t panel, int64_t k, int64_t depth,
                                float* buffer) {
  if (w.layout == WeightLayout::rows) {
    widen_rows(w.linear, panel * kPanelRows, k, depth, buffer);
    return buffer;
  }
  const std::byte* at =
      w.linear.data + panel_bytes(w.linear.format, w.linear.cols) * static_cast<size_t>(panel);
  if (w.linear.format == WeightFormat::f32) return reinterpret_cast<const float*>(at) + kPanelRows * k;
  at += 64 * k;
  for (int64_t i = 0; i < depth; ++i) {
    const Ints pair = load_ints(at + 64 * i);
    prefetch(at + 64 * i + kPrefetchBytes);
    store(buffer + 16 * i, Bf16Columns::lower(pair));
    store(buffer + 16 * (depth + i), Bf16Columns::upper(pair));
  }
  return buffer;
}

/// Columns [k, k + depth) of panels [first, first + count) for all tokens.
inline void float_block(const MatmulWeights& w, int64_t first, int64_t count, int64_t k, int64_t depth,
                        const Activations& x, int tokens, float* y, int64_t y_stride) {
  alignas(64) float buffer[kPanelRows * kDepth];
  const bool widen =
      w.layout == WeightLayout::rows || w.linear.format != WeightFormat::bf16 || tokens > kDirectTokens;
  const float* values = x.values + k;
  for (int64_t panel = first; panel < first + count; ++panel) {
    const TileOutput out = panel_output(w, panel, y, y_stride, k > 0);
    if (widen) {
      const float* block = widen_block(w, panel, k, depth, buffer);
      const StridedColumns<float> left{block, 16, 16 * depth, 0};
      float_panel(left, depth, values, x.stride, tokens, out);
    } else {
      const Bf16Columns left{w.linear.data + 64 * (panel * w.linear.cols + k)};
      float_panel(left, depth, values, x.stride, tokens, out);
    }
  }
}

inline void matmul_block(const MatmulWeights& w, int64_t first, int64_t count, int64_t k, int64_t depth,
                         const Activations& x, int tokens, float* y, int64_t y_stride) {
  switch (w.linear.format) {
    case WeightFormat::int8:
    case WeightFormat::int4:
      return int_block(w, first, count, k, depth, x, tokens, y, y_stride);
    default:
      return float_block(w, first, count, k, depth, x, tokens, y, y_stride);
  }
}

inline void matmul(const MatmulWeights& w, int64_t first, int64_t count, const Activations& x, int tokens,
                   float* y, int64_t y_stride) {
  const int64_t cols = w.linear.cols;
  const Blocking blocking = choose_blocking(cols * (w.quantized() ? 1 : 4), tokens);
  const int64_t step = blocking.whole_panels ? 1 : count;
  for (int t = 0; t < tokens; t += blocking.tokens) {
    Activations part = x;
    part.values = x.values ? x.values + t * x.stride : nullptr;
    part.quantized = x.quantized ? x.quantized + t * x.quantized_stride : nullptr;
    part.blocks = x.blocks ? x.blocks + t * x.blocks_stride : nullptr;
    const int block = static_cast<int>(min_of(tokens - t, blocking.tokens));
    for (int64_t panel = first; panel < first + count; panel += step) {
      for (int64_t k = 0; k < cols; k += kDepth) {
        matmul_block(w, panel, step, k, min_of(cols - k, kDepth), part, block, y + t * y_stride, y_stride);
      }
    }
  }
}

}  // namespace carat::CARAT_ISA
