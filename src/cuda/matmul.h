// What the two matmul kernels share: arguments, row order of gated products and what happens to a finished
// sum. Included by .cu files only.
#pragma once
#include "cuda/kernels.h"
#include "cuda/math.h"

namespace carat::cuda {

struct MatmulArgs {
  Matrix w;
  Split x;
  int tokens;
  int splits;  // of the columns; partial sums lie tokens * rows floats apart
  MatmulOutput output;
};

/// Up to this many tokens the weights go straight from memory into the tensor cores' registers.
inline constexpr int kNarrowTokens = 8;
void narrow_matmul(Queue& queue, const MatmulArgs& args);

/// matmul_few.cu, of int8 or int4 weights and few tokens: whether it has a product with up to so many splits
/// of the columns, and how many it takes.
bool few_supports(const Queue& queue, const Matrix& w, int tokens, int most_splits);
int few_splits(const Matrix& w, int most_splits);
void few_matmul(Queue& queue, const MatmulArgs& args);

/// Whether matmul_hopper.cu has kernels for this product.
bool hopper_supports(const Queue& queue, const Matrix& w, const MatmulOutput& output);
/// How a product is cut: rows of a CTA, and splits of the columns.
struct HopperPlan {
  int rows, splits;
};
HopperPlan plan_hopper(const Queue& queue, const MatmulArgs& args, int most_splits);
void hopper_matmul(Queue& queue, const MatmulArgs& args, int rows);
/// gelu_times in one kernel. False: too many tokens for that.
bool hopper_joined_matmul(Queue& queue, MatmulArgs args);

// A gated product pairs row i of the gate with row i of the up matrix, `rows / 2` further down. So that both
// sums meet in one thread, a tile's rows alternate: 16 gate rows, the 16 up rows that belong to them, and so
// on.
__device__ inline int gated_row(int tile_row, int rows) {
  const int pair = (tile_row / 32) * 16 + tile_row % 16;
  return tile_row / 16 % 2 == 0 ? pair : pair + rows / 2;
}

__device__ inline void finish_gated(const MatmulArgs& a, int token, int pair, float gate, float up) {
  const int width = a.w.rows / 2;
  if (token < a.tokens && pair < width) {
    store_split(a.output.split.hi, a.output.split.lo, static_cast<std::size_t>(token) * width + pair,
                gelu_tanh(gate) * up);
  }
}

/// What Finish::gelu_times multiplies with, otherwise zero.
__device__ inline float factor_of(const MatmulArgs& a, int token, int row) {
  if (a.output.finish != Finish::gelu_times || token >= a.tokens || row >= a.w.rows) return 0.f;
  return a.output.factor[static_cast<std::size_t>(token) * a.output.factor_stride + row];
}

__device__ inline void finish(const MatmulArgs& a, int split, int token, int row, float v, float factor) {
  if (token >= a.tokens || row >= a.w.rows) return;
  const MatmulOutput& o = a.output;
  const std::size_t at = static_cast<std::size_t>(token) * a.w.rows + row;
  if (o.finish == Finish::gelu_times) {
    store_split(o.split.hi, o.split.lo, at, gelu_tanh(v) * factor);
  } else {
    const std::size_t part = static_cast<std::size_t>(split) * a.tokens * a.w.rows;
    o.out[part + at] = o.finish == Finish::cap ? soft_cap(v, o.cap) : v;
  }
}
__device__ inline void finish(const MatmulArgs& a, int split, int token, int row, float v) {
  finish(a, split, token, row, v, factor_of(a, token, row));
}

}  // namespace carat::cuda
