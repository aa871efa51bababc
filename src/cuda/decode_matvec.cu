// y = W x for one row: the kernel that reads nearly all bytes of a decode step.
//
// One CTA per multiprocessor owns neighbouring rows of W; each of its eight warps streams its own rows (or,
// of long rows, its own slice of the columns) through a private ring in shared memory, filled by bulk copies.
// A warp needs no barrier with other warps until its sums are done. The ring is filled before the kernel
// waits for its input, so weights arrive while the kernel in front still computes. The vector stays in
// registers, 8 columns of each 256 per lane.
#include <algorithm>
#include <bit>

#include "cuda/decode.h"
#include "cuda/greedy.h"
#include "cuda/launch.h"
#include "cuda/math.h"
#include "cuda/ptx.h"

namespace carat::cuda {
namespace {

constexpr int kWarpsShift = 3, kWarps = 1 << kWarpsShift, kThreads = 32 * kWarps, kMostStages = 8,
              kMostSliceCols = 1536, kMostSlices = 8;
/// Weights in flight per CTA. More only lengthens the queue in front of the small reads that the next product
/// waits for.
constexpr int kRingBytes = 48 * 1024;
/// CTAs on a multiprocessor: this product and the next. With a third one in flight all three slow down.
constexpr int kResident = 2;
constexpr int kChunks = kMostSliceCols / 256;  // 16-byte loads of a lane per slice
constexpr int kSharedVector = 4096;            // longer plain vectors go straight to registers

/// How a CTA's share of the outputs is laid out over its warps. Everything is a shift: a division is twenty
/// instructions, and a kernel that runs for two microseconds can't afford to fetch much code.
struct Share {
  int first, count;  // outputs of this CTA
  int rows_shift;    // 1 when gated: two rows of W per output
  int slice, group, groups_shift;
  const bfloat16* base;  // this warp's first item

  __device__ Share(const MatvecArgs& a) {
    const int cta = blockIdx.x, warp = threadIdx.x / 32;
    first = cta * a.outputs_each + min(cta, a.outputs_rest);
    count = a.outputs_each + (cta < a.outputs_rest ? 1 : 0);
    rows_shift = a.output.finish == VectorFinish::gated_gelu ? 1 : 0;
    slice = warp & ((1 << a.slices_shift) - 1);
    group = warp >> a.slices_shift;
    groups_shift = kWarpsShift - a.slices_shift;
    base = a.w.data + static_cast<std::size_t>(first + group) * a.w.cols + slice * a.slice_cols;
  }
  /// Items (slices of rows) of this warp.
  __device__ int items() const {
    return count > group ? (((count - group - 1) >> groups_shift) + 1) << rows_shift : 0;
  }
  /// Number of an item among the CTA's rows.
  __device__ int index(int item) const {
    return ((group + (item >> rows_shift << groups_shift)) << rows_shift) + (item & rows_shift);
  }
  __device__ const bfloat16* address(const MatvecArgs& a, int item) const {
    const std::size_t row = (item >> rows_shift << groups_shift) + (item & rows_shift) * (a.w.rows >> 1);
    return base + row * a.w.cols;
  }
};

/// One warp's ring of weight slices.
class Ring {
 public:
  __device__ Ring(const MatvecArgs& a, const Share& share, unsigned char* memory, uint64_t* barriers)
      : a_(a),
        share_(share),
        memory_(memory),
        barriers_(barriers),
        bytes_(a.slice_cols * 2),
        items_(share.items()) {
    if (threadIdx.x % 32 == 0) {
      policy_ = ptx::policy_evict_first();
#pragma unroll 1
      for (int s = 0; s < a.stages; ++s) ptx::barrier_init(barriers_ + s, 1);
      ptx::fence_barrier_init();
#pragma unroll 1
      for (int i = 0; i < a.stages; ++i) start(i, i);
    }
    __syncwarp();
  }

  __device__ const uint4* wait() const {
    ptx::barrier_wait(barriers_ + stage_, parity_);
    return reinterpret_cast<const uint4*>(memory_ + stage_ * bytes_);
  }
  /// The current item has been read by all lanes: its place takes the item `stages` further on.
  __device__ void advance(int item) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) start(item + a_.stages, stage_);
    if (++stage_ == a_.stages) {
      stage_ = 0;
      parity_ ^= 1;
    }
  }
  __device__ int items() const { return items_; }

 private:
  __device__ void start(int item, int stage) {
    if (item >= items_) return;
    ptx::barrier_expect(barriers_ + stage, bytes_);
    ptx::bulk_copy(memory_ + stage * bytes_, share_.address(a_, item), bytes_, barriers_ + stage, policy_);
  }

  const MatvecArgs& a_;
  const Share& share_;
  unsigned char* memory_;
  uint64_t* barriers_;
  uint64_t policy_ = 0;
  int bytes_, items_, stage_ = 0;
  uint32_t parity_ = 0;
};

/// The gains of a residual input, read before the kernel waits.
template <int kVectors>
struct Gains {
  float4 branch[kVectors], norm[kVectors];

  __device__ Gains(const VectorInput& in, int d) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int i = v * kThreads + static_cast<int>(threadIdx.x);
      if (in.branch_gain && i < d / 4) branch[v] = load4(in.branch_gain, i);
      if (in.norm_gain && i < d / 4) norm[v] = load4(in.norm_gain, i);
    }
  }
};

/// Four sums over the CTA with one barrier.
__device__ inline float4 block_sums(float4 v, float4* scratch) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    v.x += __shfl_xor_sync(kAllLanes, v.x, offset);
    v.y += __shfl_xor_sync(kAllLanes, v.y, offset);
    v.z += __shfl_xor_sync(kAllLanes, v.z, offset);
    v.w += __shfl_xor_sync(kAllLanes, v.w, offset);
  }
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = v;
  __syncthreads();
  float4 total = make_float4(0.f, 0.f, 0.f, 0.f);
#pragma unroll
  for (int w = 0; w < kWarps; ++w) {
    const float4 part = scratch[w];
    total = make_float4(total.x + part.x, total.y + part.y, total.z + part.z, total.w + part.w);
  }
  return total;
}

/// Computes x and the vector that the product needs of it; leaves the vector in shared memory. With y =
/// branch * gain and c = 1 / rms(branch), |x + c y|^2 = |x|^2 + 2 c x.y + c^2 |y|^2: both norms need only one
/// round of sums.
template <int kVectors>
__device__ void prepare_vector(const MatvecArgs& a, const Gains<kVectors>& gains, float* vector,
                               float4* scratch) {
  const VectorInput& in = a.input;
  const int d = a.w.cols, vectors = d / 4;
  const bool embedding = in.source == VectorSource::embedding;
  const float4 zero = make_float4(0.f, 0.f, 0.f, 0.f);
  const uint2* row = nullptr;
  if (embedding)
    row = reinterpret_cast<const uint2*>(in.embedding + static_cast<std::size_t>(__ldcg(in.token)) * d);
  float4 x[kVectors], y[kVectors], sums = zero;  // |branch|^2, |x|^2, x.y, |y|^2
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const int i = v * kThreads + static_cast<int>(threadIdx.x);
    x[v] = y[v] = zero;
    if (i >= vectors) continue;
    if (embedding) {
      const uint2 q = row[i];
      x[v] = make_float4(low_bf16(q.x), high_bf16(q.x), low_bf16(q.y), high_bf16(q.y));
    } else {
      const float4 branch = load4(in.branch, i);
      x[v] = load4(in.in, i);
      y[v] = times(branch, gains.branch[v]);
      sums.x += dot(branch, branch);
    }
    sums.y += dot(x[v], x[v]);
    sums.z += dot(x[v], y[v]);
    sums.w += dot(y[v], y[v]);
  }
  sums = block_sums(sums, scratch);
  const float width = static_cast<float>(d), c = rsqrtf(sums.x / width + in.eps);
  const float square_sum = (sums.y + 2.f * c * sums.z + c * c * sums.w) * in.scalar * in.scalar;
  const float scale = in.norm_gain ? rsqrtf(fmaxf(square_sum, 0.f) / width + in.eps) : 1.f;
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const int i = v * kThreads + static_cast<int>(threadIdx.x);
    if (i >= vectors) continue;
    float4 r = make_float4((x[v].x + c * y[v].x) * in.scalar, (x[v].y + c * y[v].y) * in.scalar,
                           (x[v].z + c * y[v].z) * in.scalar, (x[v].w + c * y[v].w) * in.scalar);
    if (in.x_out && blockIdx.x == 0) reinterpret_cast<float4*>(in.x_out)[i] = r;
    if (in.norm_gain)
      r = times(make_float4(r.x * scale, r.y * scale, r.z * scale, r.w * scale), gains.norm[v]);
    reinterpret_cast<float4*>(vector)[i] = r;
  }
}

/// The lane's share of its warp's slice of `from`: chunk c holds columns 8 (32 c + lane) and on.
__device__ void load_share(const float* from, int slice_cols, float (&x)[kChunks * 8]) {
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    const int chunk = c * 32 + static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float4 v =
          chunk * 8 < slice_cols ? load4(from, chunk * 2 + half) : make_float4(0.f, 0.f, 0.f, 0.f);
      float* to = x + c * 8 + half * 4;
      to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
    }
  }
}

__device__ float multiply(const uint4* w, int slice_chunks, const float (&x)[kChunks * 8]) {
  float even = 0.f, odd = 0.f;
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    const int chunk = c * 32 + static_cast<int>(threadIdx.x) % 32;
    if (chunk >= slice_chunks) continue;
    const uint4 q = w[chunk];
    const float* v = x + c * 8;
    even += low_bf16(q.x) * v[0];
    odd += high_bf16(q.x) * v[1];
    even += low_bf16(q.y) * v[2];
    odd += high_bf16(q.y) * v[3];
    even += low_bf16(q.z) * v[4];
    odd += high_bf16(q.z) * v[5];
    even += low_bf16(q.w) * v[6];
    odd += high_bf16(q.w) * v[7];
  }
  return even + odd;
}

/// All products of this warp; sums[slice][row of the CTA]. One row at a time: a warp has a thousand cycles
/// for each until memory delivers the next one, so a short loop is worth more than overlapped reductions.
__device__ void multiply_rows(const MatvecArgs& a, const Share& share, Ring& ring,
                              const float (&x)[kChunks * 8], float* sums) {
  float* mine = sums + share.slice * (share.count << share.rows_shift);
#pragma unroll 1
  for (int item = 0; item < ring.items(); ++item) {
    const float sum = multiply(ring.wait(), a.slice_cols / 8, x);
    ring.advance(item);
    const float total = warp_sum(sum);
    if (threadIdx.x % 32 == 0) mine[share.index(item)] = total;
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
  const bfloat16* row = f.table + (token < f.table_rows ? token : 0) * f.table_stride;
  return (__ldcg(f.raw + i) * scale * f.gain[i] + __bfloat162float(row[i]) * f.table_scale) *
         0.7071067811865476f;
}

__device__ __noinline__ void write_logits(const MatvecArgs& a, const Share& share, float* sums,
                                          Candidate* scratch) {
  const VectorOutput& o = a.output;
#pragma unroll 1
  for (int i = threadIdx.x; i < o.suppressed_count; i += kThreads) {
    const int at = o.suppressed[i] - share.first;
    if (at >= 0 && at < share.count) sums[at] = -INFINITY;
  }
  __syncthreads();
  Candidate best = no_candidate();
#pragma unroll 1
  for (int i = threadIdx.x; i < share.count; i += kThreads) {
    const float logit = sums[i] == -INFINITY ? sums[i] : soft_cap(sums[i], o.cap);
    o.out[share.first + i] = logit;
    best = better(best, {logit, share.first + i});
  }
  best = block_best<kThreads>(best, scratch);
  if (threadIdx.x == 0) {
    o.candidate_values[blockIdx.x] = best.value;
    o.candidate_ids[blockIdx.x] = best.id;
  }
}

/// Adds the slices in order and turns sums into outputs.
__device__ void write_outputs(const MatvecArgs& a, const Share& share, float* sums, float factor,
                              Candidate* best) {
  const int rows = share.count << share.rows_shift, slices = 1 << a.slices_shift;
  __syncthreads();
  if (slices > 1) {
#pragma unroll 1
    for (int i = threadIdx.x; i < rows; i += kThreads)
#pragma unroll 1
      for (int s = 1; s < slices; ++s) sums[i] += sums[s * rows + i];
    __syncthreads();
  }
  if (a.output.finish == VectorFinish::logits) {
    write_logits(a, share, sums, best);
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

template <int kVectors>
__global__ void __launch_bounds__(kThreads, kResident) matvec_kernel(const __grid_constant__ MatvecArgs a) {
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ uint64_t barriers[kWarps][kMostStages];
  __shared__ float4 scratch[kWarps];
  __shared__ float factor_scratch[kWarps];
  __shared__ Candidate best[kWarps];
  const int warp = threadIdx.x / 32, ring_bytes = a.stages * a.slice_cols * 2;
  float* vector = reinterpret_cast<float*>(shared + kWarps * ring_bytes);
  float* sums = vector + (a.w.cols <= kSharedVector ? a.w.cols : 0);
  const Share share(a);
  if (!a.late) ptx::launch_dependents();
  Ring ring(a, share, shared + warp * ring_bytes, barriers[warp]);
  const Gains<kVectors> gains(a.input, a.w.cols);
  const float factor =
      a.output.finish == VectorFinish::per_layer ? per_layer_factor(a, share, factor_scratch) : 0.f;
  ptx::wait_for_dependencies();
  if (a.late) ptx::launch_dependents();

  float x[kChunks * 8];
  if (a.w.cols <= kSharedVector) {
    if (a.input.source == VectorSource::plain) {
#pragma unroll 4
      for (int i = threadIdx.x; i < a.w.cols / 4; i += kThreads)
        reinterpret_cast<float4*>(vector)[i] = load4(a.input.in, i);
    } else {
      prepare_vector<kVectors>(a, gains, vector, scratch);
    }
    __syncthreads();
    load_share(vector + share.slice * a.slice_cols, a.slice_cols, x);
  } else {
    load_share(a.input.in + share.slice * a.slice_cols, a.slice_cols, x);
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
    fetch_kernel(const int32_t* from, int32_t* to, int32_t* token, const int32_t* drawn) {
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  const int i = threadIdx.x, words = *reinterpret_cast<const volatile int32_t*>(from);
  const int4 first = reinterpret_cast<const int4*>(from)[i];
  reinterpret_cast<int4*>(to)[i] = first;
  for (int j = i + kThreads; j * 4 < words; j += kThreads)
    reinterpret_cast<int4*>(to)[j] = reinterpret_cast<const int4*>(from)[j];
  __syncthreads();
  if (i == 0 && *token < 0) *token = max(0, drawn[~*token]);
}

/// The fewest slices whose share of the vector fits a lane's registers; 0 when there is no such number.
int slices_of(int cols) {
  for (int slices = 1; slices <= kMostSlices; slices *= 2) {
    if (cols % (8 * slices) == 0 && cols / slices <= kMostSliceCols) return slices;
  }
  return 0;
}

}  // namespace

bool matvec_supports(int cols) { return slices_of(cols) > 0; }

void matvec(Queue& queue, MatvecArgs args) {
  const int slices = slices_of(args.w.cols), gated = args.output.finish == VectorFinish::gated_gelu ? 1 : 0;
  const int outputs = args.w.rows >> gated, ctas = std::min(queue.sm_count, outputs);
  args.slices_shift = std::countr_zero(static_cast<unsigned>(slices));
  args.slice_cols = args.w.cols / slices;
  args.stages = std::clamp(kRingBytes / (kWarps * args.slice_cols * 2), 2, kMostStages);
  args.outputs_each = outputs / ctas;
  args.outputs_rest = outputs % ctas;
  const std::size_t vector = args.w.cols <= kSharedVector ? args.w.cols : 0;
  const std::size_t sums = static_cast<std::size_t>(divide_up(outputs, ctas) << gated) * slices;
  const std::size_t ring = static_cast<std::size_t>(kWarps) * args.stages * args.slice_cols * 2;
  const std::size_t bytes = ring + (vector + sums) * 4;
  constexpr int kFewVectors = 2, kManyVectors = 4;  // float4 per thread of the residual stream
  const bool few = args.w.cols <= kFewVectors * kThreads * 4;
  launch(queue, few ? matvec_kernel<kFewVectors> : matvec_kernel<kManyVectors>, dim3(ctas), kThreads, bytes,
         args);
}

void pick_candidate(Queue& queue, const float* values, const int32_t* ids, int count, int32_t* drawn,
                    int32_t* host_token) {
  launch(queue, pick_kernel, dim3(1), kThreads, 0, values, ids, count, drawn, host_token);
}

void fetch_step(Queue& queue, const int32_t* from, int32_t* to, int32_t* token, const int32_t* drawn) {
  launch(queue, fetch_kernel, dim3(1), kThreads, 0, from, to, token, drawn);
}

}  // namespace carat::cuda
