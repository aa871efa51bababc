// y[t] = W x[t] for up to 8 tokens: as fast as the weights can be read.
//
// Weights are the 16-row operand of the tensor cores, tokens the 8-column one. A sum doesn't care about the
// order of its terms, so each lane takes eight neighbouring columns (one 16-byte load) and both operands use
// that same order: no shared memory and no shuffles between memory and tensor cores. The eight warps of a CTA
// share the columns; their sums meet in shared memory in a fixed order. int8 and int4 become bfloat16
// integers in registers, exactly; their scales multiply the float32 sums of a step.
#include "cuda/launch.h"
#include "cuda/matmul.h"
#include "cuda/ptx.h"
#include "cuda/weight_values.h"

namespace carat::cuda {
namespace {

constexpr int kWarps = 8, kThreads = 32 * kWarps, kBlock = 32;  // columns of one step of a warp

template <WeightFormat kFormat, bool kGated>
__device__ Eight<kFormat> load_weights(const Matrix& w, int tile_row, int block, int quad) {
  const int row = kGated ? gated_row(tile_row, w.rows) : tile_row, column = block * kBlock + quad * 8;
  const bool inside = kGated ? tile_row / 32 * 16 + tile_row % 16 < w.rows / 2 : row < w.rows;
  // Blocks are whole in memory, and every lane needs the scale.
  const int first = kFormat == WeightFormat::bf16 ? column : block * kBlock;
  Eight<kFormat> eight{};
  if (inside && first < w.cols)
    eight.load(w.data + static_cast<std::size_t>(row) * packed_row_bytes(kFormat, w.cols), column, w.cols);
  return eight;
}

/// `end`: the first column that is not this CTA's; beyond it weights may be loaded, but count for nothing.
__device__ inline uint4 load_activations(const bfloat16* x, int end, int cols, int tokens, int token,
                                         int block, int quad) {
  const int column = block * kBlock + quad * 8;
  if (token >= tokens || column >= end) return make_uint4(0, 0, 0, 0);
  return *reinterpret_cast<const uint4*>(x + static_cast<std::size_t>(token) * cols + column);
}

// acc += rows [g, g + 8] of the weights times token g (hi + lo), over the lane's eight columns
template <WeightFormat kFormat>
__device__ inline void multiply(float (&acc)[4], const Eight<kFormat> (&rows)[2], const uint4& hi,
                                const uint4& lo) {
  const uint4 low_rows = rows[0].pairs(), high_rows = rows[1].pairs();
  const uint32_t first[4] = {low_rows.x, high_rows.x, low_rows.y, high_rows.y};
  const uint32_t second[4] = {low_rows.z, high_rows.z, low_rows.w, high_rows.w};
  const auto add = [&](float(&sums)[4], const uint4& x) {
    ptx::mma_bf16(sums, first, x.x, x.y);
    ptx::mma_bf16(sums, second, x.z, x.w);
  };
  if constexpr (kFormat == WeightFormat::bf16) {
    add(acc, hi);
    add(acc, lo);
  } else {  // the 32 columns of a step lie in one block
    float block[4] = {};
    add(block, hi);
    add(block, lo);
#pragma unroll
    for (int c = 0; c < 4; ++c) acc[c] += rows[c / 2].scale() * block[c];
  }
}

template <WeightFormat kFormat, bool kGated>
__global__ void __launch_bounds__(kThreads) narrow_kernel(MatmulArgs a) {
  constexpr int kRowTiles = kGated ? 2 : 1, kAhead = kGated ? 2 : 4;  // blocks in flight per warp
  __shared__ float sums[kWarps][kRowTiles][32][4];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, quad = lane % 4;
  const int first_row = blockIdx.x * 16 * kRowTiles, blocks = (a.w.cols + kBlock - 1) / kBlock;
  const int per_split = (blocks + a.splits - 1) / a.splits, begin = blockIdx.y * per_split;
  const int end = min(begin + per_split, blocks);
  ptx::launch_dependents();
  Eight<kFormat> w[kAhead][kRowTiles][2];
#pragma unroll
  for (int u = 0; u < kAhead; ++u)
#pragma unroll
    for (int m = 0; m < kRowTiles * 2; ++m)
      w[u][m / 2][m % 2] =
          load_weights<kFormat, kGated>(a.w, first_row + m * 8 + g, begin + warp + u * kWarps, quad);
  ptx::wait_for_dependencies();
  const auto load_x = [&](const bfloat16* x, int block) {
    return load_activations(x, min(a.w.cols, end * kBlock), a.w.cols, a.tokens, g, block, quad);
  };
  uint4 hi[kAhead], lo[kAhead];
#pragma unroll
  for (int u = 0; u < kAhead; ++u) {
    hi[u] = load_x(a.x.hi, begin + warp + u * kWarps);
    lo[u] = load_x(a.x.lo, begin + warp + u * kWarps);
  }

  float acc[kRowTiles][4] = {};
  for (int base = begin + warp; base < end; base += kAhead * kWarps) {
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      const int next = base + (u + kAhead) * kWarps;
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) multiply(acc[m], w[u][m], hi[u], lo[u]);
#pragma unroll
      for (int m = 0; m < kRowTiles * 2; ++m)
        w[u][m / 2][m % 2] = load_weights<kFormat, kGated>(a.w, first_row + m * 8 + g, next, quad);
      hi[u] = load_x(a.x.hi, next);
      lo[u] = load_x(a.x.lo, next);
    }
  }

#pragma unroll
  for (int m = 0; m < kRowTiles; ++m)
#pragma unroll
    for (int c = 0; c < 4; ++c) sums[warp][m][lane][c] = acc[m][c];
  __syncthreads();
  // Sum e of a tile: lane e / 4's register e % 4, that is row e / 16 (+ 8 for the upper registers), token 2
  // (e / 4 % 4).
  for (int e = threadIdx.x; e < 128; e += kThreads) {
    const int from = e / 4, c = e % 4;
    float total[kRowTiles] = {};
    for (int v = 0; v < kWarps; ++v)
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) total[m] += sums[v][m][from][c];
    const int row = from / 4 + c / 2 * 8, token = from % 4 * 2 + c % 2;
    if (kGated) {
      finish_gated(a, token, blockIdx.x * 16 + row, total[0], total[kRowTiles - 1]);
    } else {
      finish(a, blockIdx.y, token, first_row + row, total[0]);
    }
  }
}

template <WeightFormat kFormat>
void launch_narrow(Queue& queue, const MatmulArgs& args) {
  const bool gated = args.output.finish == Finish::gated_gelu;
  const dim3 grid(divide_up(args.w.rows, gated ? 32 : 16), args.splits);
  launch(queue, gated ? narrow_kernel<kFormat, true> : narrow_kernel<kFormat, false>, grid, kThreads, 0,
         args);
}

}  // namespace

void narrow_matmul(Queue& queue, const MatmulArgs& args) {
  switch (args.w.format) {
    case WeightFormat::int8:
      return launch_narrow<WeightFormat::int8>(queue, args);
    case WeightFormat::int4:
      return launch_narrow<WeightFormat::int4>(queue, args);
    default:
      return launch_narrow<WeightFormat::bf16>(queue, args);
  }
}

}  // namespace carat::cuda
