// y[t] = W x[t] on Hopper with int8 and int4 weights: matmul_hopper.cu's tiles, with a warpgroup in the place
// of the copy engine that turns packed weights into bfloat16 integers, exactly, on their way to shared
// memory.
//
// Its threads hold the weights of the next steps in registers, loaded before the kernel waits for its
// predecessor. The sums of a block of columns start at zero and are added to the result times the block's
// scale of each row.
#include "cuda/hopper_tile.h"
#include "cuda/weight_values.h"

namespace carat::cuda {
namespace {

constexpr int kProducers = 128;

template <class S>
constexpr int kThreads = 128 * S::kGroups + kProducers;

template <WeightFormat kFormat>
constexpr int kBlocks = kDepth / block_cols(kFormat);  // of a step

/// Scales of a stage: [blocks, rows].
template <WeightFormat kFormat, class S>
constexpr int kStageScales = kBlocks<kFormat> * S::kRows;

template <WeightFormat kFormat, class S>
constexpr int kSharedBytes = S::kSharedBytes + S::kStages * kStageScales<kFormat, S> * 4;

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/// The ring of tiles: `full` counts the producers' warps and the bytes of activations, `empty` the warps that
/// are done with a stage.
template <WeightFormat kFormat, class S>
struct Ring {
  unsigned char* memory;
  uint64_t *full, *empty;

  __device__ unsigned char* weights(int stage) const { return memory + stage * S::kStageBytes; }
  __device__ unsigned char* tokens(int stage, int pass) const {
    return weights(stage) + S::kWeightBytes + pass * S::kTokenBytes;
  }
  __device__ float* scales(int stage) const {
    return reinterpret_cast<float*>(memory + S::kStages * S::kStageBytes) + stage * kStageScales<kFormat, S>;
  }
};

template <WeightFormat kFormat, class S, bool kGated>
class Producer {
 public:
  __device__ Producer(const MatmulArgs& a, const TokenBoxes& boxes, const Ring<kFormat, S>& ring,
                      int first_row, int first_token)
      : boxes_(boxes), box_bytes_(boxes.bytes), ring_(ring), first_token_(first_token), cols_(a.w.cols) {
    // Of a gated product, 8 rows of the gate and 8 of the up matrix alternate.
    const int row = thread() / kChunks, rows = kGated ? a.w.rows / 2 : a.w.rows;
    const int source = kGated ? first_row / 2 + row % 8 : first_row + row;
    const int row_bytes = packed_row_bytes(kFormat, a.w.cols), step = kGated ? kRowStep / 2 : kRowStep;
    const int matrix = kGated ? row / 8 * rows : 0;
    from_ = a.w.data + static_cast<std::size_t>(matrix + source) * row_bytes;
    step_bytes_ = step * row_bytes;
    inside_ = (rows - source + step - 1) / step;
  }

  /// Steps [begin, end). Weights of the first stages are in place before the wait, the rest comes behind it.
  __device__ void run(int begin, int end) {
    const int early = min(end, begin + S::kStages);
    const auto start_tokens = [&] {
      if (thread() != 0) return;
      ptx::wait_for_dependencies();
      for (int step = begin; step < early; ++step) copy_tokens(step, (step - begin) % S::kStages);
    };
#pragma unroll
    for (int u = 0; u < kAhead; ++u) load(u, begin + u, end);
#pragma unroll 1
    for (int base = begin; base < end; base += kAhead) {
#pragma unroll
      for (int u = 0; u < kAhead; ++u) {
        const int step = base + u, stage = (step - begin) % S::kStages;
        if (step >= end) continue;
        if (step == early) start_tokens();
        if (step >= early) {
          ptx::barrier_wait(ring_.empty + stage, ((step - begin) / S::kStages - 1) % 2);
          if (thread() == 0) copy_tokens(step, stage);
        }
        place(u, stage);
        load(u, step + kAhead, end);
      }
    }
    if (early == end) start_tokens();
  }

 private:
  static constexpr int kChunks = kDepth / 8, kRowStep = kProducers / kChunks,
                       kPerThread = S::kRows / kRowStep;
  /// Steps whose weights are in registers.
  static constexpr int kAhead = (kFormat == WeightFormat::int8 ? 16 : 24) / kPerThread;

  __device__ static int thread() { return static_cast<int>(threadIdx.x) - 128 * S::kGroups; }

  __device__ void copy_tokens(int step, int stage) {
    ptx::barrier_expect(ring_.full + stage, box_bytes_);
#pragma unroll
    for (int pass = 0; pass < S::kPasses; ++pass)
      ptx::tensor_copy(ring_.tokens(stage, pass), pass == 0 ? &boxes_.hi : &boxes_.lo, step * kDepth,
                       first_token_, ring_.full + stage);
  }

  /// Starts loading this thread's weights of a step; zeros outside the matrix.
  __device__ void load(int u, int step, int end) {
    const int column = step * kDepth + thread() % kChunks * 8;
    const bool any = step < end && column < cols_;
    const std::byte* values = from_ + value_offset(kFormat, column);
    const std::byte* scale = from_ + scale_offset(kFormat, column, cols_);
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      eights_[u][i] = {};
      if (any && i < inside_) eights_[u][i].load_at(values + i * step_bytes_, scale + i * step_bytes_);
    }
  }

  __device__ void place(int u, int stage) {
    const int row = thread() / kChunks, chunk = thread() % kChunks;
    unsigned char* to = ring_.weights(stage) + row * kRowBytes + (chunk ^ row % 8) * 16;
    constexpr int kBlockChunks = kChunks / kBlocks<kFormat>;
    float* scales = ring_.scales(stage) + chunk / kBlockChunks * S::kRows + row;
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      *reinterpret_cast<uint4*>(to + i * kRowStep * kRowBytes) = eights_[u][i].pairs();
      if (chunk % kBlockChunks == 0) scales[i * kRowStep] = eights_[u][i].scale();
    }
    ptx::fence_shared_writes();
    __syncwarp();
    if (thread() % 32 == 0) ptx::barrier_arrive(ring_.full + stage);
  }

  const TokenBoxes& boxes_;
  const uint32_t box_bytes_;
  const Ring<kFormat, S>& ring_;
  const int first_token_, cols_;
  const std::byte* from_;  // this thread's first row
  int step_bytes_;         // to its next one, kRowStep rows of the tile further on
  int inside_;             // of its rows are in the matrix
  Eight<kFormat> eights_[kAhead][kPerThread];
};

template <WeightFormat kFormat, class S>
__device__ void multiply(const Ring<kFormat, S>& ring, int steps, typename S::Sums& acc) {
  const int group = threadIdx.x / 128, warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
  const int row = group * 64 + warp * 16 + lane / 4;  // and 8 further on
  for (int step = 0; step < steps; ++step) {
    const int stage = step % S::kStages;
    ptx::barrier_wait(ring.full + stage, step / S::kStages % 2);
    const uint64_t w = ptx::swizzled_matrix(ring.weights(stage) + group * 64 * kRowBytes);
    uint64_t x[S::kPasses];
#pragma unroll
    for (int pass = 0; pass < S::kPasses; ++pass) x[pass] = ptx::swizzled_matrix(ring.tokens(stage, pass));
#pragma unroll
    for (int block = 0; block < kBlocks<kFormat>; ++block) {
      const float* scales = ring.scales(stage) + block * S::kRows + row;
      const float scale[2] = {scales[0], scales[8]};
      constexpr int kSteps = kDepth / 16 / kBlocks<kFormat>;
      float sums[S::kTokens / 2] = {};
      ptx::warpgroup_fence();
#pragma unroll
      for (int k = block * kSteps; k < (block + 1) * kSteps; ++k)
#pragma unroll
        for (int pass = 0; pass < S::kPasses; ++pass) ptx::warpgroup_mma(sums, w + 2 * k, x[pass] + 2 * k);
      ptx::warpgroup_commit();
      ptx::warpgroup_wait<0>();
#pragma unroll
      for (int i = 0; i < S::kTokens / 2; ++i) acc[0][i] += scale[i / 2 % 2] * sums[i];
    }
    __syncwarp();
    if (lane == 0) ptx::barrier_arrive(ring.empty + stage);
  }
}

#endif

template <WeightFormat kFormat, class S, bool kGated>
__global__ void __launch_bounds__(kThreads<S>, S::kResident)
    packed_kernel(const __grid_constant__ TokenMaps maps, const __grid_constant__ MatmulArgs a) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ unsigned char shared[];
  __shared__ uint64_t full[S::kStages], empty[S::kStages];
  const uint32_t misaligned = ptx::shared_address(shared) % S::kAlignment;
  const Ring<kFormat, S> ring{shared + (misaligned == 0 ? 0 : S::kAlignment - misaligned), full, empty};
  const bool joins = a.output.finish == Finish::gelu_times;  // one tile of tokens; x counts the splits
  const int first_token = joins ? 0 : blockIdx.x * S::kTokens, first_row = blockIdx.y * S::kRows;
  const int steps = (a.w.cols + kDepth - 1) / kDepth, per_split = (steps + a.splits - 1) / a.splits;
  const int begin = (joins ? blockIdx.x : blockIdx.z) * per_split, end = min(begin + per_split, steps);
  ptx::launch_dependents();
  if (threadIdx.x == 0) {
    for (int s = 0; s < S::kStages; ++s) {
      ptx::barrier_init(full + s, kProducers / 32 + 1);
      ptx::barrier_init(empty + s, S::kGroups * 4);
    }
    ptx::fence_barrier_init();
  }
  __syncthreads();
  if (threadIdx.x >= 128 * S::kGroups) {
    const bool last = S::kTokens <= kFewTokens || is_last_tile(joins);
    const TokenBoxes& boxes = last ? maps.last : maps.whole;
    Producer<kFormat, S, kGated>(a, boxes, ring, first_row, first_token).run(begin, end);
    return;
  }
  ptx::wait_for_dependencies();
  typename S::Sums acc = {};
  constexpr bool kMayJoin = !kGated && S::kRows == 64;
  float2 factor = make_float2(0.f, 0.f);
  if (kMayJoin && joins) factor = first_joined_factor<S>(a, first_row);
  multiply<kFormat, S>(ring, end - begin, acc);
  if constexpr (kMayJoin) {
    if (joins) return store_joined<S>(a, acc, ring.memory, first_row, factor);
  }
  store<S, kGated>(a, acc, first_row, first_token);
#endif
}

template <WeightFormat kFormat, class S, bool kGated>
void launch_packed(Queue& queue, const MatmulArgs& a) {
  const TokenMaps maps = token_maps(queue, a, S::kTokens, S::kPasses);
  const unsigned token_tiles = divide_up(a.tokens, S::kTokens), row_tiles = divide_up(a.w.rows, S::kRows);
  LaunchShape shape{dim3(token_tiles, row_tiles, a.splits), kThreads<S>, kSharedBytes<kFormat, S>};
  if (a.output.finish == Finish::gelu_times) {
    shape.grid = dim3(a.splits, row_tiles);
    shape.cluster = a.splits;
  }
  launch(queue, shape, packed_kernel<kFormat, S, kGated>, maps, a);
}

template <WeightFormat kFormat, class S>
void launch_packed(Queue& queue, const MatmulArgs& a) {
  if (a.output.finish == Finish::gated_gelu) {
    launch_packed<kFormat, S, true>(queue, a);
  } else {
    launch_packed<kFormat, S, false>(queue, a);
  }
}

template <WeightFormat kFormat>
void run_format(Queue& queue, const MatmulArgs& a) {
  constexpr int kFewRows = 64, kManyRows = 128;
  if (a.tokens <= 8) return launch_packed<kFormat, Shape<kFewRows, 8, 2, 2>>(queue, a);
  if (a.tokens <= 32) return launch_packed<kFormat, Shape<kFewRows, 32, 2, 2>>(queue, a);
  if (a.tokens <= kFewTokens) return launch_packed<kFormat, Shape<kFewRows, 64, 2, 2>>(queue, a);
  if (a.x.lo) return launch_packed<kFormat, Shape<kManyRows, 128, 2, 1>>(queue, a);
  launch_packed<kFormat, Shape<kManyRows, 128, 1, 1>>(queue, a);
}

}  // namespace

void packed_hopper_matmul(Queue& queue, const MatmulArgs& args) {
  if (args.w.format == WeightFormat::int8) {
    run_format<WeightFormat::int8>(queue, args);
  } else {
    run_format<WeightFormat::int4>(queue, args);
  }
}

}  // namespace carat::cuda
