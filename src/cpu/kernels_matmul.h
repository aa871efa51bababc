// matmul for float weights (f32, f16, bf16), from panels or from rows as stored, and the choice between this
// and the integer path. Compiled once per ISA.
//
// Columns are taken in blocks of kDepth: the sum over a block starts from zero and is then added to y. Small
// batches stream a panel once from its beginning to its end, widening in registers. Larger ones widen a block
// of a panel into a buffer once and use it for many tokens; the blocks are the outer loop, so that a block of
// the tokens' columns stays in the L2 cache. Both add up the same products in the same order.
#pragma once
#include "cpu/kernels_int.h"
#include "cpu/kernels_layout.h"
#include "cpu/kernels_tile.h"

namespace carat::CARAT_ISA {

/// Tokens whose block of columns fits into half of a 2 MiB L2 cache.
inline constexpr int kTokenBlock = 512;

/// bf16 panels hold, per column, 16 lanes of 32 bits: row r in the lower half, row r + 16 in the upper one,
/// which a shift and a mask turn into float32.
struct Bf16Columns {
  const std::byte* at;

  template <int vectors>
  [[gnu::always_inline]] void load_column(int64_t k, Floats (&out)[vectors]) const {
    static_assert(vectors == 2);
    const Ints pair = load_ints(at + 64 * k);
    out[0] = as_floats(shift_left<16>(pair));
    out[1] = as_floats(bit_and(pair, 0xffff0000u));
  }
};

inline TileOutput panel_output(const MatmulWeights& w, int64_t panel, float* y, int64_t y_stride,
                               bool accumulate) {
  const int64_t row = panel * kPanelRows;
  const int64_t rows = w.linear.rows - row;
  return {y + row, y_stride, static_cast<int>(rows < kPanelRows ? rows : kPanelRows), accumulate};
}

inline StridedColumns<float> widened(const float* block, int64_t depth) { return {block, 16, 16 * depth}; }

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
  const Bf16Columns columns{at + 64 * k};
  for (int64_t i = 0; i < depth; ++i) {
    Floats column[2];
    columns.load_column(i, column);
    store(buffer + 16 * i, column[0]);
    store(buffer + 16 * (depth + i), column[1]);
  }
  return buffer;
}

inline void stream_float_panels(const MatmulWeights& w, int64_t first, int64_t count, const Activations& x,
                                int tokens, float* y, int64_t y_stride) {
  const int64_t cols = w.linear.cols;
  const std::byte* at = w.linear.data + panel_bytes(w.linear.format, cols) * static_cast<size_t>(first);
  for (int64_t panel = first; panel < first + count; ++panel) {
    for (int64_t k = 0; k < cols; k += kDepth) {
      const int64_t depth = cols - k < kDepth ? cols - k : kDepth;
      const TileOutput out = panel_output(w, panel, y, y_stride, k > 0);
      float_tiles<2, kDirectTokens>(Bf16Columns{at}, depth, x.values + k, x.stride, tokens, out);
      at += 64 * depth;
    }
  }
}

inline void block_float_panels(const MatmulWeights& w, int64_t first, int64_t count, const Activations& x,
                               int tokens, float* y, int64_t y_stride) {
  alignas(64) float buffer[kPanelRows * kDepth];
  const int64_t cols = w.linear.cols;
  for (int64_t k = 0; k < cols; k += kDepth) {
    const int64_t depth = cols - k < kDepth ? cols - k : kDepth;
    for (int64_t panel = first; panel < first + count; ++panel) {
      const StridedColumns<float> left = widened(widen_block(w, panel, k, depth, buffer), depth);
      const TileOutput out = panel_output(w, panel, y, y_stride, k > 0);
      float_panel(left, depth, x.values + k, x.stride, tokens, out);
    }
  }
}

inline void matmul(const MatmulWeights& w, int64_t first, int64_t count, const Activations& x, int tokens,
                   float* y, int64_t y_stride) {
  for (int t = 0; t < tokens; t += kTokenBlock) {
    const int block = tokens - t < kTokenBlock ? tokens - t : kTokenBlock;
    Activations part = x;
    part.values = x.values ? x.values + t * x.stride : nullptr;
    part.quantized = x.quantized ? x.quantized + t * x.quantized_stride : nullptr;
    part.scales = x.scales ? x.scales + t : nullptr;
    float* out = y + t * y_stride;
    if (w.quantized()) {
      int_panels(w, first, count, part, block, out, y_stride);
    } else if (w.layout == WeightLayout::panels && w.linear.format == WeightFormat::bf16 &&
               block <= kDirectTokens) {
      stream_float_panels(w, first, count, part, block, out, y_stride);
    } else {
      block_float_panels(w, first, count, part, block, out, y_stride);
    }
  }
}

}  // namespace carat::CARAT_ISA
