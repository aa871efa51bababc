// y[t] = W x[t] on Hopper: one warp has the copy engine fetch boxes of W and of the activations, one to three
// warpgroups multiply them. Weights are on their way before the kernel waits for its predecessor.
//
// A CTA owns 64 to 256 rows of W and a tile of tokens, and walks over 64 columns at a time through a ring in
// shared memory. Two passes over W's tile, for the high and the low half of x, cost no second copy. Long rows
// are split over CTAs, which leave partial sums that the consumer adds in a fixed order. The per-layer gate
// of few tokens has too few rows for that to pay: there the splits are a cluster and add their sums on chip.
//
// Of a gated product, 8 rows of the gate and the 8 rows of the up matrix that belong to them alternate, so
// that both sums meet in one thread. matmul_packed.cu does the same for int8 and int4 weights.
#include <algorithm>
#include <array>
#include <span>

#include "cuda/hopper_tile.h"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900 && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
#error "compile for sm_90a, not sm_90"
#endif

namespace carat::cuda {
namespace {

struct TensorMaps {
  CUtensorMap w;
  TokenMaps tokens;
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/// The ring of boxes: `full` counts bytes that arrive, `empty` the warpgroups that are done with a stage.
template <class S>
struct Ring {
  unsigned char* memory;
  uint64_t *full, *empty;

  __device__ unsigned char* weights(int stage) const { return memory + stage * S::kStageBytes; }
  __device__ unsigned char* tokens(int stage, int pass) const {
    return weights(stage) + S::kWeightBytes + pass * S::kTokenBytes;
  }
};

/// The warp that fetches: weights of the first stages before the wait, the rest behind it.
template <class S, bool kGated>
__device__ void fetch(const CUtensorMap& w, const TokenBoxes& boxes, const Ring<S>& ring, int first_row,
                      int first_token, int begin, int end) {
  const int group = first_row / kGroupRows / (kGated ? 2 : 1);
  const uint32_t stage_bytes = S::kWeightBytes + boxes.bytes;
  const auto fetch_weights = [&](int step, int stage) {
    ptx::barrier_expect(ring.full + stage, stage_bytes);
    ptx::tensor_copy(ring.weights(stage), &w, step * kDepth, 0, 0, group, ring.full + stage);
  };
  const auto fetch_tokens = [&](int step, int stage) {
#pragma unroll
    for (int pass = 0; pass < S::kPasses; ++pass)
      ptx::tensor_copy(ring.tokens(stage, pass), pass == 0 ? &boxes.hi : &boxes.lo, step * kDepth,
                       first_token, ring.full + stage);
  };
  ptx::prefetch_map(&boxes.hi);
  if (S::kPasses == 2) ptx::prefetch_map(&boxes.lo);
  const int early = min(end - begin, S::kStages);
#pragma unroll 1
  for (int stage = 0; stage < early; ++stage) fetch_weights(begin + stage, stage);
  ptx::wait_for_dependencies();
#pragma unroll 1
  for (int stage = 0; stage < early; ++stage) fetch_tokens(begin + stage, stage);
  int stage = 0;
  uint32_t parity = 0;
#pragma unroll 1
  for (int step = begin + early; step < end; ++step) {
    ptx::barrier_wait(ring.empty + stage, parity);
    fetch_weights(step, stage);
    fetch_tokens(step, stage);
    if (++stage == S::kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
}

template <class S>
__device__ void multiply(const Ring<S>& ring, int steps, typename S::Sums& acc) {
  const int group = warpgroup<S>();
  const auto give_back = [&](int stage) {
    if (threadIdx.x % 128 == 0) ptx::barrier_arrive(ring.empty + stage);
  };
  int stage = 0, before = 0;  // of this step and of the one kPending steps ago
  uint32_t parity = 0;
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    ptx::barrier_wait(ring.full + stage, parity);
    uint64_t w[S::kRowTiles], x[S::kPasses];
#pragma unroll
    for (int m = 0; m < S::kRowTiles; ++m)
      w[m] = ptx::swizzled_matrix(ring.weights(stage) + (group * S::kRowTiles + m) * 64 * kRowBytes);
#pragma unroll
    for (int pass = 0; pass < S::kPasses; ++pass) x[pass] = ptx::swizzled_matrix(ring.tokens(stage, pass));
    ptx::warpgroup_fence();
#pragma unroll
    for (int k = 0; k < kDepth / 16; ++k)
#pragma unroll
      for (int pass = 0; pass < S::kPasses; ++pass)
#pragma unroll
        for (int m = 0; m < S::kRowTiles; ++m) ptx::warpgroup_mma(acc[m], w[m] + 2 * k, x[pass] + 2 * k);
    ptx::warpgroup_commit();
    ptx::warpgroup_wait<S::kPending>();
    if (step >= S::kPending) {
      give_back(before);
      if (++before == S::kStages) before = 0;
    }
    if (++stage == S::kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
  ptx::warpgroup_wait<0>();
}

#endif

template <class S>
constexpr int kThreads = 128 * S::kGroups + 32;

template <class S, bool kGated>
__global__ void __launch_bounds__(kThreads<S>, S::kResident)
    hopper_kernel(const __grid_constant__ TensorMaps maps, const __grid_constant__ MatmulArgs a) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ unsigned char shared[];
  __shared__ uint64_t full[S::kStages], empty[S::kStages];
  const uint32_t misaligned = ptx::shared_address(shared) % S::kAlignment;
  const Ring<S> ring{shared + (misaligned == 0 ? 0 : S::kAlignment - misaligned), full, empty};
  const bool joins = a.output.finish == Finish::gelu_times;  // one tile of tokens; x counts the splits
  const int first_token = joins ? 0 : blockIdx.x * S::kTokens, first_row = blockIdx.y * S::kRows;
  const unsigned steps = (a.w.cols + kDepth - 1) / kDepth, splits = a.splits;
  const int per_split = (steps + splits - 1) / splits;
  const int begin = (joins ? blockIdx.x : blockIdx.z) * per_split,
            end = min(begin + per_split, static_cast<int>(steps));
  ptx::launch_dependents();
  if (threadIdx.x == 0) {
    for (int s = 0; s < S::kStages; ++s) {
      ptx::barrier_init(full + s, 1);
      ptx::barrier_init(empty + s, S::kGroups);
    }
    ptx::fence_barrier_init();
  }
  __syncthreads();
  if (threadIdx.x >= 128 * S::kGroups) {
    const bool last = S::kTokens < kFewTokens || is_last_tile(joins);
    const TokenBoxes& boxes = last ? maps.tokens.last : maps.tokens.whole;
    if (threadIdx.x % 32 == 0) fetch<S, kGated>(maps.w, boxes, ring, first_row, first_token, begin, end);
    return;
  }
  ptx::wait_for_dependencies();
  typename S::Sums acc = {};
  constexpr bool kMayJoin = !kGated && S::kRows == 64;
  float2 factor = make_float2(0.f, 0.f);
  if (kMayJoin && joins) factor = first_joined_factor<S>(a, first_row);
  multiply<S>(ring, end - begin, acc);
  if constexpr (kMayJoin) {
    if (joins) return store_joined<S>(a, acc, ring.memory, first_row, factor);
  }
  store<S, kGated>(a, acc, first_row, first_token);
#endif
}

/// cuTensorMapEncodeTiled, which lives in the driver; null when the driver is too old.
PFN_cuTensorMapEncodeTiled_v12000 encoder() {
  static const auto function = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result{};
    cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &result);
    return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(found);
  }();
  return function;
}

/// `sizes` and `box`: innermost first; `strides` in bytes, of all dimensions but the first.
template <std::size_t kDims>
CUtensorMap tensor_map(Queue& queue, const void* data, const std::array<cuuint64_t, kDims>& sizes,
                       const std::array<cuuint64_t, kDims - 1>& strides,
                       const std::array<cuuint32_t, kDims>& box) {
  CUtensorMap map{};
  std::array<cuuint32_t, kDims> steps;
  steps.fill(1);
  const CUresult result = encoder()(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, kDims, const_cast<void*>(data),
                                    sizes.data(), strides.data(), box.data(), steps.data(),
                                    CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                    CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) queue.status = cudaErrorInvalidValue;
  return map;
}

/// W as [groups of 8 rows, matrices, 8, cols]: two matrices, gate and up, of a gated product, otherwise one.
CUtensorMap weight_map(Queue& queue, const Matrix& w, bool gated, int tile_rows) {
  const cuuint64_t row = cuuint64_t{2} * w.cols, matrices = gated ? 2 : 1, rows = w.rows / matrices;
  return tensor_map<4>(queue, w.data,
                       {static_cast<cuuint64_t>(w.cols), kGroupRows, matrices, rows / kGroupRows},
                       {row, row * rows, row * kGroupRows},
                       {kDepth, kGroupRows, static_cast<cuuint32_t>(matrices),
                        static_cast<cuuint32_t>(tile_rows / kGroupRows / matrices)});
}

}  // namespace

TokenMaps token_maps(Queue& queue, const MatmulArgs& a, int tile_tokens, int passes) {
  const auto boxes_of = [&](int tokens) {
    const auto map = [&](const bfloat16* x) {
      return tensor_map<2>(queue, x, {static_cast<cuuint64_t>(a.w.cols), static_cast<cuuint64_t>(a.tokens)},
                           {cuuint64_t{2} * a.w.cols}, {kDepth, static_cast<cuuint32_t>(tokens)});
    };
    TokenBoxes boxes{};
    boxes.hi = map(a.x.hi);
    if (passes == 2) boxes.lo = map(a.x.lo);
    boxes.bytes = static_cast<uint32_t>(passes * tokens * kRowBytes);
    return boxes;
  };
  const int last = (a.tokens - 1) % tile_tokens + 1;
  TokenMaps maps{};
  maps.last = boxes_of(last);
  maps.whole = last == a.tokens ? maps.last : boxes_of(tile_tokens);
  return maps;
}

namespace {

template <class S, bool kGated>
void launch_hopper(Queue& queue, const MatmulArgs& a) {
  TensorMaps maps;
  maps.w = weight_map(queue, a.w, kGated, S::kRows);
  maps.tokens = token_maps(queue, a, S::kTokens, S::kPasses);
  const unsigned token_tiles = divide_up(a.tokens, S::kTokens), row_tiles = divide_up(a.w.rows, S::kRows);
  LaunchShape shape{dim3(token_tiles, row_tiles, a.splits), kThreads<S>, S::kSharedBytes};
  if (a.output.finish == Finish::gelu_times) {
    shape.grid = dim3(a.splits, row_tiles);
    shape.cluster = a.splits;
  }
  launch(queue, shape, hopper_kernel<S, kGated>, maps, a);
}

template <class S>
void launch_hopper(Queue& queue, const MatmulArgs& a) {
  if (a.output.finish == Finish::gated_gelu) {
    launch_hopper<S, true>(queue, a);
  } else {
    launch_hopper<S, false>(queue, a);
  }
}

/// Up to 128 tokens two tiles of 64 are faster than one of 128; of these alone there are kernels for one
/// pass.
int tile_tokens(const MatmulArgs& a) {
  const bool two = a.tokens <= 2 * kFewTokens && a.x.lo && a.w.format == WeightFormat::bf16;
  return a.tokens <= 8                   ? 8
         : a.tokens <= 16                ? 16
         : a.tokens <= 32                ? 32
         : a.tokens <= kFewTokens || two ? 64
                                         : 128;
}

/// The heights of tiles that are worth trying for a number of tokens. Few tokens wait for memory: the most
/// CTAs have the most in flight.
std::span<const int> tile_rows(const MatmulArgs& a) {
  static constexpr std::array<int, 1> kFew{64}, kPacked{128};
  static constexpr std::array<int, 3> kMany{128, 192, 256};
  if (tile_tokens(a) <= kFewTokens) return kFew;
  if (a.w.format != WeightFormat::bf16) return kPacked;
  return kMany;
}

template <int kTokens, int kPasses>
void launch_rows(Queue& queue, const MatmulArgs& a, int rows) {
  if constexpr (kTokens <= kFewTokens) {
    launch_hopper<Shape<64, kTokens, kPasses>>(queue, a);
  } else {
    if (rows == 256) return launch_hopper<Shape<256, kTokens, kPasses>>(queue, a);
    if (rows == 192) return launch_hopper<Shape<192, kTokens, kPasses>>(queue, a);
    launch_hopper<Shape<128, kTokens, kPasses>>(queue, a);
  }
}

/// Cycles that a product takes, roughly: waves of CTAs, each a start and its steps, at the slowest of tensor
/// cores, L2, memory and the latency of a stage; and what the consumer of partial sums reads.
double cost(const MatmulArgs& a, int rows, int splits, int sm_count) {
  constexpr double kMultiplies = 2048 * 0.8, kCacheBytes = 25, kMemoryBytes = 2500, kLatency = 3000,
                   kStart = 2500, kPart = 400;
  const int tokens = tile_tokens(a), passes = a.x.lo ? 2 : 1;
  const int token_tiles = divide_up(a.tokens, tokens),
            tiles = token_tiles * divide_up(a.w.rows, rows) * splits;
  const int steps = divide_up(divide_up(a.w.cols, kDepth), splits), room = sm_count * resident(rows);
  const int active = std::min(tiles, room);
  const double weights = rows * kRowBytes, activations = passes * tokens * kRowBytes;
  const double together = std::max(1., static_cast<double>(active) / sm_count);  // on a multiprocessor
  const double busy = std::clamp(static_cast<double>(active) / sm_count, 0.5, 1.);
  const double step = std::max({together * passes * rows * kDepth * tokens / kMultiplies,
                                together * (weights + activations) * busy / kCacheBytes,
                                weights * active / token_tiles / kMemoryBytes,
                                kLatency / std::max(1, stages(rows, tokens, passes, resident(rows)) - 1)});
  const double parts = (splits - 1.) * a.tokens * a.w.rows * 2 * sizeof(float) / kMemoryBytes;
  return divide_up(tiles, room) * (steps * step + kStart) + kPart * splits + parts;
}

}  // namespace

bool hopper_supports(const Queue& queue, const Matrix& w, const MatmulOutput& output) {
  const int matrices = output.finish == Finish::gated_gelu ? 2 : 1;
  return queue.warpgroups && w.rows % (kGroupRows * matrices) == 0 && encoder();
}

HopperPlan plan_hopper(const Queue& queue, const MatmulArgs& a, int most_splits) {
  HopperPlan best{};
  double least = 0;
  for (const int rows : tile_rows(a)) {
    for (int splits = 1; splits <= most_splits; ++splits) {
      const double here = cost(a, rows, splits, queue.sm_count);
      if (best.rows != 0 && here >= least) continue;
      least = here;
      best = {rows, splits};
    }
  }
  return best;
}

void hopper_matmul(Queue& queue, const MatmulArgs& a, int rows) {
  if (a.w.format != WeightFormat::bf16) return packed_hopper_matmul(queue, a);
  switch (tile_tokens(a)) {
    case 8:
      return launch_rows<8, 2>(queue, a, rows);
    case 16:
      return launch_rows<16, 2>(queue, a, rows);
    case 32:
      return launch_rows<32, 2>(queue, a, rows);
    case 64:
      return launch_rows<64, 2>(queue, a, rows);
    default:
      return a.x.lo ? launch_rows<128, 2>(queue, a, rows) : launch_rows<128, 1>(queue, a, rows);
  }
}

bool hopper_joined_matmul(Queue& queue, MatmulArgs a) {
  if (a.tokens > kFewTokens) return false;
  constexpr int kRows = 64, kSteps = 3;  // of a split, at least
  const int steps = divide_up(a.w.cols, kDepth);
  const int wanted = std::clamp(steps / kSteps, 1, kMostJoined);
  a.splits = divide_up(steps, divide_up(steps, wanted));
  hopper_matmul(queue, a, kRows);
  return true;
}

}  // namespace carat::cuda
