// y[t] = W x[t] for many tokens: tiles in shared memory, tensor cores, three stages of asynchronous copies.
//
// A CTA owns 128 rows of W and a tile of tokens; its eight warps split that tile. Shared rows are 128 bytes
// whose 16-byte chunks are permuted by the row number, so that ldmatrix meets no bank twice. With few tiles
// the columns are split over CTAs, which leave partial sums that the consumer adds in a fixed order. int8 and
// int4 weights pass through registers, where they become bfloat16 integers; their scales multiply the float32
// sums of a block.
#include <algorithm>

#include "cuda/launch.h"
#include "cuda/matmul.h"
#include "cuda/ptx.h"
#include "cuda/weight_values.h"

namespace carat::cuda {
namespace {

constexpr int kFewestHopperCols = 128;  // of a split
constexpr int kThreads = 256, kTileRows = 128, kDepth = 64, kStages = 3;
constexpr int kChunks = kDepth / 8;  // 16-byte chunks per shared row

__device__ inline int chunk_offset(int row, int chunk) { return (row * kChunks + (chunk ^ (row % 8))) * 8; }

/// The weights' way into a stage, in two halves so that the loads of int8 and int4 are in flight while the
/// tensor cores work on another stage. Outside the matrix a stage gets zeros.
template <WeightFormat kFormat, bool kGated>
class TileWeights {
 public:
  static constexpr bool kScaled = kFormat != WeightFormat::bf16;
  static constexpr int kBlocks = kScaled ? kDepth / block_cols(kFormat) : 0;  // per row of a stage
  static constexpr int kScaleElements = 2 * kTileRows * kBlocks;              // float32, behind the weights

  // Starts loading columns [column, column + kDepth).
  __device__ void fetch(const MatmulArgs& a, bfloat16* stage, int first_row, int column) {
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      const int at = i * kThreads + static_cast<int>(threadIdx.x), row = at / kChunks, chunk = at % kChunks;
      const int tile_row = first_row + row, first = column + chunk * 8;
      const int source = kGated ? gated_row(tile_row, a.w.rows) : tile_row;
      const int pair = tile_row / 32 * 16 + tile_row % 16;
      const bool valid = (kGated ? pair < a.w.rows / 2 : source < a.w.rows) && first < a.w.cols;
      const std::byte* from =
          a.w.data + static_cast<std::size_t>(valid ? source : 0) * packed_row_bytes(kFormat, a.w.cols);
      if constexpr (kScaled) {
        eights_[i] = {};
        if (valid) eights_[i].load(from, first, a.w.cols);
      } else {
        ptx::async_copy16(stage + chunk_offset(row, chunk), from + (valid ? value_offset(kFormat, first) : 0),
                          valid);
      }
    }
  }

  // Writes what fetch() has loaded, where that is not done by the copy engine.
  __device__ void place(bfloat16* stage, float* scales) const {
    if constexpr (kScaled) {
#pragma unroll
      for (int i = 0; i < kPerThread; ++i) {
        const int at = i * kThreads + static_cast<int>(threadIdx.x), row = at / kChunks, chunk = at % kChunks;
        *reinterpret_cast<uint4*>(stage + chunk_offset(row, chunk)) = eights_[i].pairs();
        if (chunk % (kChunks / kBlocks) == 0) {
          const int block = chunk / (kChunks / kBlocks);
          scales[block * kTileRows + row] = eights_[i].scale();
        }
      }
    }
  }

 private:
  static constexpr int kPerThread = kTileRows * kChunks / kThreads;

  Eight<kFormat> eights_[kPerThread];
};

template <WeightFormat kFormat, int kTokens, int kPasses, bool kGated>
struct Tile {
  using Weights = TileWeights<kFormat, kGated>;
  static constexpr int kWarpRows = kTokens == 128 ? 2 : 4, kWarpColumns = 8 / kWarpRows;
  static constexpr int kRowTiles = kTileRows / kWarpRows / 16, kTokenTiles = kTokens / kWarpColumns / 8;
  static constexpr int kScalesAt = (kTileRows + kTokens * kPasses) * kDepth;
  static constexpr int kStageElements = kScalesAt + Weights::kScaleElements;
  static constexpr int kSharedBytes = kStages * kStageElements * 2;
  using Sums = float[kRowTiles][kTokenTiles][4];

  static __device__ float* scales(bfloat16* stage) { return reinterpret_cast<float*>(stage + kScalesAt); }

  // Starts the copy of columns [column, column + kDepth) of x.
  static __device__ void load_tokens(const MatmulArgs& a, bfloat16* stage, int first_token, int column) {
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

  static __device__ void multiply(bfloat16* stage, Sums& acc) {
    if constexpr (Weights::kScaled) {
      constexpr int kBlockSteps = kDepth / 16 / Weights::kBlocks;
      const int row0 = threadIdx.x / 32 / kWarpColumns * kRowTiles * 16 + threadIdx.x % 32 / 4;
#pragma unroll
      for (int block = 0; block < Weights::kBlocks; ++block) {
        Sums sums = {};
        multiply_steps<kBlockSteps>(stage, block * kBlockSteps, sums);
        const float* scale = scales(stage) + block * kTileRows + row0;
#pragma unroll
        for (int m = 0; m < kRowTiles; ++m)
#pragma unroll
          for (int n = 0; n < kTokenTiles; ++n)
#pragma unroll
            for (int c = 0; c < 4; ++c) acc[m][n][c] += scale[m * 16 + c / 2 * 8] * sums[m][n][c];
      }
    } else {
      multiply_steps<kDepth / 16>(stage, 0, acc);
    }
  }

  // acc += the products of 16 kSteps columns
  template <int kSteps>
  static __device__ void multiply_steps(const bfloat16* stage, int first, Sums& acc) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int row0 = warp / kWarpColumns * kRowTiles * 16, token0 = warp % kWarpColumns * kTokenTiles * 8;
    const bfloat16* tokens = stage + kTileRows * kDepth;
#pragma unroll
    for (int k = first; k < first + kSteps; ++k) {
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

  static __device__ void store(const MatmulArgs& a, const Sums& acc, int first_row, int first_token) {
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

template <WeightFormat kFormat, int kTokens, int kPasses, bool kGated>
__global__ void __launch_bounds__(kThreads, 2) tiled_kernel(MatmulArgs a) {
  using T = Tile<kFormat, kTokens, kPasses, kGated>;
  extern __shared__ __align__(128) unsigned char shared[];
  bfloat16* stages = reinterpret_cast<bfloat16*>(shared);
  const int first_token = blockIdx.x * kTokens, first_row = blockIdx.y * kTileRows;
  const int steps = (a.w.cols + kDepth - 1) / kDepth, per_split = (steps + a.splits - 1) / a.splits;
  const int begin = blockIdx.z * per_split, end = min(begin + per_split, steps);
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  typename T::Weights weights;
  const auto stage_of = [&](int step) { return stages + (step - begin) % kStages * T::kStageElements; };
  const auto load = [&](int step) {
    if (step < end) {
      weights.fetch(a, stage_of(step), first_row, step * kDepth);
      T::load_tokens(a, stage_of(step), first_token, step * kDepth);
    }
    ptx::async_commit();
  };
  const auto place = [&](int step) {
    if (step < end) weights.place(stage_of(step), T::scales(stage_of(step)));
  };
  for (int s = 0; s < kStages - 1; ++s) {
    load(begin + s);
    place(begin + s);
  }
  typename T::Sums acc = {};
  for (int step = begin; step < end; ++step) {
    ptx::async_wait<kStages - 2>();
    __syncthreads();  // this step's copies of all threads have landed, and the stage loaded next is no longer
                      // read
    load(step + kStages - 1);
    T::multiply(stage_of(step), acc);
    place(step + kStages - 1);
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

template <WeightFormat kFormat, int kTokens, int kPasses, bool kGated>
void launch_tiled(Queue& queue, const MatmulArgs& a) {
  const dim3 grid(divide_up(a.tokens, kTokens), divide_up(a.w.rows, kTileRows), a.splits);
  launch(queue, tiled_kernel<kFormat, kTokens, kPasses, kGated>, grid, kThreads,
         Tile<kFormat, kTokens, kPasses, kGated>::kSharedBytes, a);
}

/// Two passes need twice the shared memory, sums of blocks twice the registers.
int tile_tokens(const Matrix& w, int tokens, Split x) {
  return tokens <= 32 ? 32 : tokens <= 64 || x.lo || w.format != WeightFormat::bf16 ? 64 : 128;
}

template <WeightFormat kFormat, bool kGated>
void tiled_matmul(Queue& queue, const MatmulArgs& a) {
  constexpr int kMostTokens = kFormat == WeightFormat::bf16 ? 128 : 64;
  if (!a.x.lo)
    launch_tiled<kFormat, kMostTokens, 1, kGated>(queue, a);
  else if (tile_tokens(a.w, a.tokens, a.x) == 32)
    launch_tiled<kFormat, 32, 2, kGated>(queue, a);
  else
    launch_tiled<kFormat, 64, 2, kGated>(queue, a);
}

template <WeightFormat kFormat>
void run_format(Queue& queue, const MatmulArgs& a) {
  if (a.output.finish == Finish::gated_gelu)
    tiled_matmul<kFormat, true>(queue, a);
  else
    tiled_matmul<kFormat, false>(queue, a);
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
  if (a.tokens <= kNarrowTokens)
    narrow_matmul(queue, a);
  else if (a.w.format == WeightFormat::int8)
    run_format<WeightFormat::int8>(queue, a);
  else if (a.w.format == WeightFormat::int4)
    run_format<WeightFormat::int4>(queue, a);
  else
    run_format<WeightFormat::bf16>(queue, a);
}

}  // namespace

/// A per-layer gate has too few rows to occupy the GPU in one piece.
void matmul(Queue& queue, const Matrix& w, Split x, int tokens, const MatmulOutput& output) {
  if (few_supports(queue, w, tokens, 1)) return few_matmul(queue, {w, x, tokens, 1, output});
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

PartialSums matmul_partial(Queue& queue, const Matrix& w, Split x, int tokens, Workspace workspace) {
  const std::size_t size = static_cast<std::size_t>(tokens) * w.rows;
  MatmulOutput output;
  output.out = workspace.data;
  // Two CTAs per multiprocessor, and in each split columns enough to be worth its start.
  const bool narrow = tokens <= kNarrowTokens;
  const int tiles = narrow ? divide_up(w.rows, 16)
                           : divide_up(tokens, tile_tokens(w, tokens, x)) * divide_up(w.rows, kTileRows);
  const int step = narrow ? 32 : kDepth, fewest_cols = narrow ? 1024 : 4 * kDepth;
  const int room = static_cast<int>(std::min<std::size_t>(workspace.floats / size, 16));
  if (few_supports(queue, w, tokens, room)) {
    const int parts = few_splits(w, room);
    few_matmul(queue, {w, x, tokens, parts, output});
    return {workspace.data, parts, size};
  }
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
