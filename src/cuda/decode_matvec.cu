// y = W x for one row: the kernel that reads nearly all bytes of a decode step.
//
// One CTA per multiprocessor owns neighbouring rows of W; each of its eight warps streams its own rows (or,
// of long rows, its own slice of the columns) through a private ring in shared memory, filled by bulk copies.
// A warp needs no barrier with other warps until its sums are done. The ring is filled before the kernel
// waits for its input, so weights arrive while the kernel in front still computes. The vector stays in
// registers: as float32, or beside int8 and int4 weights as 16-bit integers, see lane_vector.h.
#include <algorithm>
#include <bit>

#include "cuda/decode.h"
#include "cuda/lane_vector.h"
#include "cuda/launch.h"
#include "cuda/math.h"
#include "cuda/ptx.h"
#include "cuda/vector_phase.h"

namespace carat::cuda {
namespace {

constexpr int kWarpsShift = 3, kWarps = kVectorWarps, kThreads = kVectorThreads, kMostStages = 8,
              kMostSlices = 8;
static_assert(kWarps == 1 << kWarpsShift);
/// Weights in flight per CTA. More only lengthens the queue in front of the small reads that the next product
/// waits for.
constexpr int kRingBytes = 48 * 1024;
/// CTAs on a multiprocessor: this product and the next. With a third one in flight all three slow down. What
/// keeps it out are registers: 81 to 96 a thread leave room for two products and attention, fewer for three
/// products.
constexpr int kResident = 2;
constexpr int kSharedVector = 4096;  // longer plain vectors go straight to registers
/// Neighbouring rows that a warp brings on chip with one copy: about 3 KB in any format.
constexpr int copy_rows(WeightFormat format) {
  return format == WeightFormat::bf16 ? 1 : format == WeightFormat::int8 ? 2 : 4;
}

/// How a CTA's share of the outputs is laid out over its warps. Everything is a shift: a division is twenty
/// instructions, and a kernel that runs for two microseconds can't afford to fetch much code.
struct Share {
  int first, count;            // outputs of this CTA
  int rows_shift;              // 1 when gated: two rows of W per output
  int slice;                   // of this warp, columns of all its rows
  int warp_first, warp_count;  // outputs of this warp, numbered within the CTA
  const std::byte* base;       // this warp's first row

  __device__ Share(const MatvecArgs& a) {
    const int cta = blockIdx.x, warp = threadIdx.x / 32;
    first = cta * a.outputs_each + min(cta, a.outputs_rest);
    count = a.outputs_each + (cta < a.outputs_rest ? 1 : 0);
    rows_shift = a.output.finish == VectorFinish::gated_gelu ? 1 : 0;
    slice = warp & ((1 << a.slices_shift) - 1);
    const int group = warp >> a.slices_shift, groups_shift = kWarpsShift - a.slices_shift;
    const int each = count >> groups_shift, rest = count & ((1 << groups_shift) - 1);
    warp_first = group * each + min(group, rest);
    warp_count = slice < a.slices ? each + (group < rest ? 1 : 0) : 0;
    base = a.w.data + static_cast<std::size_t>(first + warp_first) * a.row_bytes + slice * a.slice_bytes;
  }
};

/// Neighbouring rows of one warp.
struct Step {
  int first, count;  // outputs of the warp
  int half;          // 1: their up rows
};

/// One warp's ring of weights, kRows neighbouring rows (slices of them) per stage: its gate rows, or its only
/// ones, from first to last, then its up rows.
template <int kRows>
class Ring {
 public:
  __device__ Ring(const MatvecArgs& a, const Share& share, unsigned char* memory, uint64_t* barriers)
      : a_(a),
        share_(share),
        memory_(memory),
        barriers_(barriers),
        bytes_(min(a.slice_bytes, a.row_bytes - share.slice * a.slice_bytes)),
        half_steps_((share.warp_count + kRows - 1) / kRows) {
    if (threadIdx.x % 32 == 0) {
      policy_ = ptx::policy_evict_first();
#pragma unroll 1
      for (int s = 0; s < a.stages; ++s) ptx::barrier_init(barriers_ + s, 1);
      ptx::fence_barrier_init();
#pragma unroll 1
      for (int s = 0; s < a.stages; ++s) start(s, s);
    }
    __syncwarp();
  }

  __device__ int steps() const { return half_steps_ << share_.rows_shift; }
  __device__ Step step(int index) const {
    const int half = index >= half_steps_ ? 1 : 0, first = (index - half * half_steps_) * kRows;
    return {first, min(kRows, share_.warp_count - first), half};
  }
  /// The current stage; its rows lie slice_bytes apart.
  __device__ const unsigned char* wait() const {
    ptx::barrier_wait(barriers_ + stage_, parity_);
    return stage(stage_);
  }
  /// All lanes have read the stage of step `index`: its place takes the step `stages` further on.
  __device__ void advance(int index) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) start(index + a_.stages, stage_);
    if (++stage_ == a_.stages) {
      stage_ = 0;
      parity_ ^= 1;
    }
  }

 private:
  __device__ unsigned char* stage(int index) const { return memory_ + index * kRows * a_.slice_bytes; }
  __device__ void start(int index, int stage_index) {
    if (index >= steps()) return;
    const Step s = step(index);
    uint64_t* barrier = barriers_ + stage_index;
    const std::byte* from =
        share_.base + static_cast<std::size_t>(s.first + s.half * (a_.w.rows >> 1)) * a_.row_bytes;
    ptx::barrier_expect(barrier, s.count * bytes_);
    // Whole rows follow each other without a gap.
    const int copies = a_.slices == 1 ? 1 : s.count, bytes = a_.slices == 1 ? s.count * bytes_ : bytes_;
#pragma unroll 1
    for (int i = 0; i < copies; ++i)
      ptx::bulk_copy(stage(stage_index) + i * a_.slice_bytes, from + i * a_.row_bytes, bytes, barrier,
                     policy_);
  }

  const MatvecArgs& a_;
  const Share& share_;
  unsigned char* memory_;
  uint64_t* barriers_;
  uint64_t policy_ = 0;
  int bytes_, half_steps_, stage_ = 0;
  uint32_t parity_ = 0;
};

/// All products of this warp; sums[slice][row of the CTA]. One step at a time: a warp has a thousand cycles
/// for each until memory delivers the next one, so a short loop is worth more than overlapped reductions.
/// Short rows go in pairs, which share the latency of their sums.
template <WeightFormat kFormat>
__device__ void multiply_rows(const MatvecArgs& a, const Share& share, Ring<copy_rows(kFormat)>& ring,
                              const LaneVector<kFormat>& x, float* sums) {
  constexpr int kTogether = copy_rows(kFormat) > 1 ? 2 : 1;
  float* mine = sums + share.slice * (share.count << share.rows_shift);
  const int cols = min(a.slice_cols, a.w.cols - share.slice * a.slice_cols), steps = ring.steps();
#pragma unroll 1
  for (int i = 0; i < steps; ++i) {
    const Step step = ring.step(i);
    const unsigned char* w = ring.wait();
#pragma unroll 1
    for (int row = 0; row < step.count; row += kTogether, w += kTogether * a.slice_bytes) {
      float total[kTogether];
#pragma unroll
      for (int r = 0; r < kTogether; ++r) total[r] = x.dot(w + r * a.slice_bytes, cols);
#pragma unroll
      for (int offset = 16; offset > 0; offset /= 2)
#pragma unroll
        for (int r = 0; r < kTogether; ++r) total[r] += __shfl_xor_sync(kAllLanes, total[r], offset);
#pragma unroll
      for (int r = 0; r < kTogether; ++r) {
        const int output = share.warp_first + step.first + row + r;
        if (threadIdx.x % 32 == r && row + r < step.count)
          mine[(output << share.rows_shift) + step.half] = total[r];
      }
    }
    ring.advance(i);
  }
}

/// The factor of this thread's output of a per-layer gate, the rows of whose W are the layer's ple_dim. Read
/// before the wait: the projection had ended before anything behind the first two products could start.
__device__ float per_layer_factor(const MatvecArgs& a, const Share& share, float* scratch) {
  const PerLayerFactor& f = a.output.factor;
  if (!f.gain) return threadIdx.x < share.count ? __ldcg(f.raw + share.first + threadIdx.x) : 0.f;
  float square_sum = 0.f;
#pragma unroll 1
  for (int i = threadIdx.x; i < a.w.rows; i += kThreads) {
    const float v = __ldcg(f.raw + i) * f.project_scale;
    square_sum += v * v;
  }
  square_sum = block_sum<kThreads>(square_sum, scratch);
  if (threadIdx.x >= share.count) return 0.f;
  const float scale = rsqrtf(square_sum / static_cast<float>(a.w.rows) + a.input.eps) * f.project_scale;
  const int i = share.first + static_cast<int>(threadIdx.x), token = __ldcg(a.input.token);
  const float table = load_value(f.table, token < f.table.rows ? token : 0, f.table_column + i);
  return per_layer_input(f, table, scale, i);
}

/// Out of line: the kernel's own code has to stay short.
__device__ __noinline__ void write_head(const MatvecArgs& a, const Share& share, float* sums,
                                        Candidate* scratch) {
  write_logits(a.output, share.first, share.count, sums, scratch, SyncBlock());
}

/// Adds the slices in order and turns sums into outputs.
__device__ void write_outputs(const MatvecArgs& a, const Share& share, float* sums, float factor,
                              Candidate* best) {
  const int rows = share.count << share.rows_shift;
  __syncthreads();
  if (a.slices > 1) {
#pragma unroll 1
    for (int i = threadIdx.x; i < rows; i += kThreads)
#pragma unroll 1
      for (int s = 1; s < a.slices; ++s) sums[i] += sums[s * rows + i];
    __syncthreads();
  }
  if (a.output.finish == VectorFinish::logits) {
    write_head(a, share, sums, best);
    return;
  }
#pragma unroll 1
  for (int i = threadIdx.x; i < share.count; i += kThreads) {
    float v = sums[i << share.rows_shift];
    if (a.output.finish != VectorFinish::store)
      v = gelu_tanh(v) * (share.rows_shift ? sums[2 * i + 1] : factor);
    a.output.out[share.first + i] = v;
  }
}

template <WeightFormat kFormat, int kVectors>
__global__ void __launch_bounds__(kThreads, kResident) matvec_kernel(const __grid_constant__ MatvecArgs a) {
  constexpr int kRows = copy_rows(kFormat);
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ uint64_t barriers[kWarps][kMostStages];
  __shared__ float4 scratch[kWarps];
  __shared__ float factor_scratch[kWarps];
  __shared__ Candidate best[kWarps];
  const int warp = threadIdx.x / 32, ring_bytes = a.stages * kRows * a.slice_bytes;
  float* vector = reinterpret_cast<float*>(shared + kWarps * ring_bytes);
  float* sums = vector + (a.w.cols <= kSharedVector ? round_up(a.w.cols, 16) : 0);
  const Share share(a);
  if (!a.late) ptx::launch_dependents();
  Ring<kRows> ring(a, share, shared + warp * ring_bytes, barriers[warp]);
  const Gains<kVectors> gains(a.input, a.w.cols);
  const float factor =
      a.output.finish == VectorFinish::per_layer ? per_layer_factor(a, share, factor_scratch) : 0.f;
  ptx::wait_for_dependencies();
  if (a.late) ptx::launch_dependents();

  const float4* vectors = reinterpret_cast<const float4*>(vector);
  LaneVector<kFormat> x;
  const int first_col = share.slice * a.slice_cols, cols = min(a.slice_cols, a.w.cols - first_col);
  if (a.w.cols <= kSharedVector) {
    if (a.input.source == VectorSource::plain) {
#pragma unroll 4
      for (int i = threadIdx.x; i < a.w.cols / 4; i += kThreads)
        reinterpret_cast<float4*>(vector)[swizzled(i)] = load4(a.input.in, i);
    } else {
      float4 branch[kVectors];
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        const int i = v * kThreads + static_cast<int>(threadIdx.x);
        branch[v] = a.input.branch && i < a.w.cols / 4 ? load4(a.input.branch, i) : float4{};
      }
      prepare_vector<true>(a.input, a.w.cols, a.input.in, blockIdx.x == 0 ? a.input.x_out : nullptr, branch,
                           gains, StoreFloats{vector, a.w.cols / 4}, scratch, SyncBlock());
    }
    __syncthreads();
    x.load(cols, [&](int i) { return vectors[swizzled(first_col / 4 + i)]; });
  } else {
    x.load(cols, [&](int i) { return load4(a.input.in + first_col, i); });
  }
  multiply_rows(a, share, ring, x, sums);
  write_outputs(a, share, sums, factor, best);
}

__global__ void __launch_bounds__(kThreads)
    pick_kernel(const float* values, const int32_t* ids, int count, int32_t* drawn, int32_t* host_token) {
  __shared__ Candidate scratch[kWarps];
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  Candidate best = no_candidate();
  for (int i = threadIdx.x; i < count; i += kThreads) best = better(best, {values[i], ids[i]});
  best = block_best<kThreads>(best, scratch);
  if (threadIdx.x == 0) *drawn = *host_token = token_of(best);
}

// The first 4 KB are read whatever the size: one trip over the bus for what most steps need.
__global__ void __launch_bounds__(kThreads)
    fetch_kernel(const int32_t* from, int32_t* to, int32_t* token, const int32_t* drawn, SoftTokens soft) {
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  const int i = threadIdx.x, words = *reinterpret_cast<const volatile int32_t*>(from);
  const int4 first = reinterpret_cast<const int4*>(from)[i];
  reinterpret_cast<int4*>(to)[i] = first;
  for (int j = i + kThreads; j * 4 < words; j += kThreads)
    reinterpret_cast<int4*>(to)[j] = reinterpret_cast<const int4*>(from)[j];
  __syncthreads();
  if (i == 0) *token = resolved(*token, drawn, soft);
}

/// Columns per slice when a row is split into `slices`; 0 when it can't be. Groups of int8 and int4 stay
/// whole, so the last slices may have fewer columns or none.
int slice_columns(WeightFormat format, int cols, int slices) {
  if (format == WeightFormat::bf16) return cols % (8 * slices) == 0 ? cols / slices : 0;
  return slices == 1 ? cols : divide_up(divide_up(cols, kGroupCols), slices) * kGroupCols;
}

/// The fewest slices whose share of the vector fits a lane's registers; 0 when there is no such number.
int slices_of(WeightFormat format, int cols) {
  for (int slices = 1; slices <= kMostSlices; slices *= 2) {
    const int slice = slice_columns(format, cols, slices);
    if (slice > 0 && slice <= kMostSliceCols) return slices;
  }
  return 0;
}

/// How a product's columns are cut, and what its CTAs need on chip besides their sums.
struct Cut {
  int slices_shift, slice_cols, slices, slice_bytes, stages, fixed_bytes;

  explicit Cut(const Matrix& w) {
    const int most = slices_of(w.format, w.cols);
    slices_shift = std::countr_zero(static_cast<unsigned>(most));
    slice_cols = slice_columns(w.format, w.cols, most);
    slices = divide_up(w.cols, slice_cols);
    slice_bytes = packed_row_bytes(w.format, slice_cols);
    const int stage_bytes = kWarps * copy_rows(w.format) * slice_bytes;
    stages = std::clamp(kRingBytes / stage_bytes, 2, kMostStages);
    fixed_bytes = stages * stage_bytes + (w.cols <= kSharedVector ? round_up(w.cols, 16) * 4 : 0);
  }
  int shared_bytes(int rows_each) const { return fixed_bytes + rows_each * slices * 4; }
};

template <WeightFormat kFormat>
void launch_matvec(Queue& queue, MatvecArgs args) {
  const int cols = args.w.cols, gated = args.output.finish == VectorFinish::gated_gelu ? 1 : 0;
  const int outputs = args.w.rows >> gated, ctas = matvec_ctas(queue, args.w, gated != 0);
  const Cut cut(args.w);
  args.slices_shift = cut.slices_shift;
  args.slice_cols = cut.slice_cols;
  args.slices = cut.slices;
  args.row_bytes = packed_row_bytes(kFormat, cols);
  args.slice_bytes = cut.slice_bytes;
  args.stages = cut.stages;
  args.outputs_each = outputs / ctas;
  args.outputs_rest = outputs % ctas;
  const auto bytes = static_cast<std::size_t>(cut.shared_bytes(divide_up(outputs, ctas) << gated));
  constexpr int kFewVectors = 2, kManyVectors = 4;  // float4 per thread of the residual stream
  // One kernel for all products of most models: its code stays cached.
  const bool few = args.input.source == VectorSource::plain || cols <= kFewVectors * kThreads * 4;
  launch(queue, few ? matvec_kernel<kFormat, kFewVectors> : matvec_kernel<kFormat, kManyVectors>, dim3(ctas),
         kThreads, bytes, args);
}

}  // namespace

bool matvec_supports(WeightFormat format, int cols) { return slices_of(format, cols) > 0; }

/// One per multiprocessor; more where the sums of so many outputs don't fit, as those of a head on a small
/// GPU.
int matvec_ctas(const Queue& queue, const Matrix& w, bool gated) {
  constexpr int kStaticBytes = 1024;
  const int outputs = gated ? w.rows / 2 : w.rows, rows = gated ? 2 : 1;
  const Cut cut(w);
  int ctas = std::min(queue.sm_count, outputs);
  while (ctas < outputs &&
         cut.shared_bytes(divide_up(outputs, ctas) * rows) + kStaticBytes > queue.shared_bytes)
    ctas = std::min(ctas + queue.sm_count, outputs);
  return ctas;
}

void matvec(Queue& queue, const MatvecArgs& args) {
  switch (args.w.format) {
    case WeightFormat::int8:
      return launch_matvec<WeightFormat::int8>(queue, args);
    case WeightFormat::int4:
      return launch_matvec<WeightFormat::int4>(queue, args);
    default:
      return launch_matvec<WeightFormat::bf16>(queue, args);
  }
}

void pick_candidate(Queue& queue, const float* values, const int32_t* ids, int count, int32_t* drawn,
                    int32_t* host_token) {
  launch(queue, pick_kernel, dim3(1), kThreads, 0, values, ids, count, drawn, host_token);
}

void fetch_step(Queue& queue, const int32_t* from, int32_t* to, int32_t* token, const int32_t* drawn,
                const SoftTokens& soft) {
  launch(queue, fetch_kernel, dim3(1), kThreads, 0, from, to, token, drawn, soft);
}

}  // namespace carat::cuda
