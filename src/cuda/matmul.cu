// y[t] = W x[t] for many tokens: tiles in shared memory, tensor cores, three stages of asynchronous copies.
//
// A CTA owns 128 rows of W and a tile of tokens; its eight warps split that tile. Shared rows are 128 bytes
// whose 16-byte chunks are permuted by the row number, so that ldmatrix meets no bank twice. With few tiles
// the columns are split over CTAs, which leave partial sums that the consumer adds in a fixed order.
#include <algorithm>

#include "cuda/launch.h"
#include "cuda/matmul.h"
#include "cuda/ptx.h"

namespace carat::cuda {
namespace {

constexpr int kFewestHopperCols = 128;  // of a split
constexpr int kThreads = 256, kTileRows = 128, kDepth = 64, kStages = 3;
constexpr int kChunks = kDepth / 8;  // 16-byte chunks per shared row

__device__ inline int chunk_offset(int row, int chunk) { return (row * kChunks + (chunk ^ (row % 8))) * 8; }

template <int kTokens, int kPasses, bool kGated>
struct Tile {
  static constexpr int kWarpRows = kTokens == 128 ? 2 : 4, kWarpColumns = 8 / kWarpRows;
  static constexpr int kRowTiles = kTileRows / kWarpRows / 16, kTokenTiles = kTokens / kWarpColumns / 8;
  static constexpr int kStageElements = (kTileRows + kTokens * kPasses) * kDepth;
  static constexpr int kSharedBytes = kStages * kStageElements * 2;

  // Starts the copy of columns [column, column + kDepth) into one stage; outside the matrices it writes
  // zeros.
  static __device__ void load(const MatmulArgs& a, bfloat16* stage, int first_row, int first_token,
                              int column) {
#pragma unroll
    for (int i = 0; i < kTileRows * kChunks / kThreads; ++i) {
      const int at = i * kThreads + static_cast<int>(threadIdx.x), row = at / kChunks, chunk = at % kChunks;
      const int tile_row = first_row + row;
      const int source = kGated ? gated_row(tile_row, a.w.rows) : tile_row;
      const int pair = tile_row / 32 * 16 + tile_row % 16;
      const bool valid = (kGated ? pair < a.w.rows / 2 : source < a.w.rows) && column + chunk * 8 < a.w.cols;
      const std::size_t from = static_cast<std::size_t>(source) * a.w.cols + column + chunk * 8;
      ptx::async_copy16(stage + chunk_offset(row, chunk), a.w.data + (valid ? from : 0), valid);
    }
#pragma unroll
    for (int i = 0; i < kTokens * kPasses * kChunks / kThreads; ++i) {
      const int at = i * kThreads + static_cast<int>(threadIdx.x), row = at / kChunks, chunk = at % kChunks;
      const int token = first_token + row % kTokens;
      const bool valid = token < a.tokens && column + chunk * 8 < a.w.cols;
      const std::size_t from = static_cast<std::size_t>(token) * a.w.cols + column + chunk * 8;
      const bfloat16* x = row < kTokens ? a.x.hi : a.x.lo;
      ptx::async_copy16(stage + kTileRows * kDepth + chunk_offset(row, chunk), x + (valid ? from : 0), valid);
    }
  }

  static __device__ void multiply(const bfloat16* stage, float (&acc)[kRowTiles][kTokenTiles][4]) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int row0 = warp / kWarpColumns * kRowTiles * 16, token0 = warp % kWarpColumns * kTokenTiles * 8;
    const bfloat16* tokens = stage + kTileRows * kDepth;
#pragma unroll
    for (int k = 0; k < kDepth / 16; ++k) {
      uint32_t w[kRowTiles][4];
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m)
        ptx::load_matrices(w[m], stage + chunk_offset(row0 + m * 16 + lane % 16, 2 * k + lane / 16));
#pragma unroll
      for (int pass = 0; pass < kPasses; ++pass)
#pragma unroll
        for (int n = 0; n < kTokenTiles; n += 2) {
          uint32_t x[4];
          const int row = pass * kTokens + token0 + n * 8 + lane % 8 + lane / 16 * 8;
          ptx::load_matrices(x, tokens + chunk_offset(row, 2 * k + lane / 8 % 2));
#pragma unroll
          for (int m = 0; m < kRowTiles; ++m) {
            ptx::mma_bf16(acc[m][n], w[m], x[0], x[1]);
            ptx::mma_bf16(acc[m][n + 1], w[m], x[2], x[3]);
          }
        }
    }
  }

  static __device__ void store(const MatmulArgs& a, const float (&acc)[kRowTiles][kTokenTiles][4],
                               int first_row, int first_token) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int row0 = first_row + warp / kWarpColumns * kRowTiles * 16 + lane / 4;
    const int token0 = first_token + warp % kWarpColumns * kTokenTiles * 8 + lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < kTokenTiles; ++n)
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const int token = token0 + n * 8 + c % 2;
        if (kGated) {
#pragma unroll
          for (int m = 0; m < kRowTiles; m += 2)
            finish_gated(a, token, (row0 + m * 16) / 32 * 16 + (row0 + m * 16) % 16 + c / 2 * 8, acc[m][n][c],
                         acc[m + 1][n][c]);
        } else {
#pragma unroll
          for (int m = 0; m < kRowTiles; ++m)
            finish(a, blockIdx.z, token, row0 + m * 16 + c / 2 * 8, acc[m][n][c]);
        }
      }
  }
};

template <int kTokens, int kPasses, bool kGated>
__global__ void __launch_bounds__(kThreads, 2) tiled_kernel(MatmulArgs a) {
  using T = Tile<kTokens, kPasses, kGated>;
  extern __shared__ __align__(128) unsigned char shared[];
  bfloat16* stages = reinterpret_cast<bfloat16*>(shared);
  const int first_token = blockIdx.x * kTokens, first_row = blockIdx.y * kTileRows;
  const int steps = (a.w.cols + kDepth - 1) / kDepth, per_split = (steps + a.splits - 1) / a.splits;
  const int begin = blockIdx.z * per_split, end = min(begin + per_split, steps);
  if (!a.output.late) ptx::launch_dependents();
  ptx::wait_for_dependencies();
  if (a.output.late) ptx::launch_dependents();
  const auto load = [&](int step) {
    if (step < end)
      T::load(a, stages + (step - begin) % kStages * T::kStageElements, first_row, first_token,
              step * kDepth);
    ptx::async_commit();
  };
  for (int s = 0; s < kStages - 1; ++s) load(begin + s);
  float acc[T::kRowTiles][T::kTokenTiles][4] = {};
  for (int step = begin; step < end; ++step) {
    ptx::async_wait<kStages - 2>();
    __syncthreads();  // this step's copies of all threads have landed, and the stage loaded next is no longer
                      // read
    load(step + kStages - 1);
    T::multiply(stages + (step - begin) % kStages * T::kStageElements, acc);
  }
  T::store(a, acc, first_row, first_token);
}

// One CTA per token.
__global__ void __launch_bounds__(kThreads) gelu_times_kernel(MatmulArgs a, PartialSums sums) {
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  for (int row = threadIdx.x; row < a.w.rows; row += kThreads) {
    float v = 0.f;
#pragma unroll 8
    for (int part = 0; part < sums.parts; ++part)
      v += sums.data[part * sums.stride + static_cast<std::size_t>(blockIdx.x) * a.w.rows + row];
    finish(a, 0, blockIdx.x, row, v);
  }
}

template <int kTokens, int kPasses, bool kGated>
void launch_tiled(Queue& queue, const MatmulArgs& a) {
  const dim3 grid(divide_up(a.tokens, kTokens), divide_up(a.w.rows, kTileRows), a.splits);
  launch(queue, tiled_kernel<kTokens, kPasses, kGated>, grid, kThreads,
         Tile<kTokens, kPasses, kGated>::kSharedBytes, a);
}

/// Two passes need twice the shared memory.
int tile_tokens(int tokens, Split x) { return tokens <= 32 ? 32 : tokens <= 64 || x.lo ? 64 : 128; }

template <bool kGated>
void tiled_matmul(Queue& queue, const MatmulArgs& a) {
  switch (tile_tokens(a.tokens, a.x)) {
    case 32:
      return launch_tiled<32, 2, kGated>(queue, a);
    case 64:
      return launch_tiled<64, 2, kGated>(queue, a);
    default:
      return launch_tiled<128, 1, kGated>(queue, a);
  }
}

/// `a.splits` says how often the columns may be split; returns how often they are.
int run_hopper(Queue& queue, MatmulArgs a) {
  const HopperPlan plan = plan_hopper(queue, a, a.splits);
  const int steps = divide_up(a.w.cols, kDepth);
  a.splits = divide_up(steps, divide_up(steps, plan.splits));  // no split without columns
  hopper_matmul(queue, a, plan.rows);
  return a.splits;
}

void run(Queue& queue, const MatmulArgs& a) {
  if (a.tokens <= kNarrowTokens) {
    narrow_matmul(queue, a);
  } else if (a.output.finish == Finish::gated_gelu) {
    tiled_matmul<true>(queue, a);
  } else {
    tiled_matmul<false>(queue, a);
  }
}

}  // namespace

/// A per-layer gate has too few rows to occupy the GPU in one piece.
void matmul(Queue& queue, const Matrix& w, Split x, int tokens, const MatmulOutput& output) {
  const bool hopper = hopper_supports(queue, w, output);
  if (hopper && output.finish != Finish::gelu_times) {
    run_hopper(queue, {w, x, tokens, 1, output});
    return;
  }
  if (hopper && hopper_joined_matmul(queue, {w, x, tokens, 1, output})) return;
  if (output.finish != Finish::gelu_times || tokens <= kNarrowTokens)
    return run(queue, {w, x, tokens, 1, output});
  const PartialSums sums = matmul_partial(queue, w, x, tokens, output.workspace);
  launch(queue, gelu_times_kernel, dim3(tokens), kThreads, 0, MatmulArgs{w, x, tokens, 1, output}, sums);
}

PartialSums matmul_partial(Queue& queue, const Matrix& w, Split x, int tokens, Workspace workspace,
                           bool late) {
  const std::size_t size = static_cast<std::size_t>(tokens) * w.rows;
  MatmulOutput output;
  output.out = workspace.data;
  output.late = late;
  // Two CTAs per multiprocessor, and in each split columns enough to be worth its start.
  const bool narrow = tokens <= kNarrowTokens;
  const int tiles = narrow ? divide_up(w.rows, 16)
                           : divide_up(tokens, tile_tokens(tokens, x)) * divide_up(w.rows, kTileRows);
  const int step = narrow ? 32 : kDepth, fewest_cols = narrow ? 1024 : 4 * kDepth;
  const int room = static_cast<int>(std::min<std::size_t>(workspace.floats / size, 16));
  if (hopper_supports(queue, w, output)) {
    const int most = std::max(1, std::min(room, w.cols / kFewestHopperCols));
    return {workspace.data, run_hopper(queue, {w, x, tokens, most, output}), size};
  }
  int splits = std::clamp(2 * queue.sm_count / tiles, 1, std::max(1, std::min(room, w.cols / fewest_cols)));
  const int steps = divide_up(w.cols, step);
  splits = divide_up(steps, divide_up(steps, splits));  // no split without columns
  run(queue, {w, x, tokens, splits, output});
  return {workspace.data, splits, size};
}

}  // namespace carat::cuda
