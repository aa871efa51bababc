// What the kernels of a single row do around a product: the vector it takes and the logits it gives. Eight
// warps work on it; `sync` is their barrier. Included by .cu files only.
#pragma once
#include "cuda/decode.h"
#include "cuda/greedy.h"
#include "cuda/lane_vector.h"
#include "cuda/math.h"
#include "cuda/weight_values.h"

namespace carat::cuda {

inline constexpr int kVectorWarps = 8, kVectorThreads = 32 * kVectorWarps;

struct SyncBlock {
  __device__ void operator()() const { __syncthreads(); }
};

/// The gains of a residual input, read before the kernel waits.
template <int kVectors>
struct Gains {
  float4 branch[kVectors], norm[kVectors];

  __device__ Gains(const VectorInput& in, int d) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int i = v * kVectorThreads + static_cast<int>(threadIdx.x);
      // What isn't loaded is set: registers that a loop may leave as they were stay occupied all the time.
      branch[v] = norm[v] = make_float4(0.f, 0.f, 0.f, 0.f);
      if (in.branch_gain && i < d / 4) branch[v] = load4(in.branch_gain, i);
      if (in.norm_gain && i < d / 4) norm[v] = load4(in.norm_gain, i);
    }
  }
};

/// Sums over kLanes lanes, kStride apart, of kCount values each: the values are shared out on the way. A lane
/// ends with the sums of v[i] for `first` <= i < `first` + max(1, kCount / kLanes), in v[0] and so on.
template <int kCount, int kLanes, int kStride>
__device__ inline int spread_sums(float (&v)[kCount]) {
  int first = 0, count = kCount;
#pragma unroll
  for (int offset = kLanes / 2 * kStride; offset >= kStride; offset /= 2) {
    const bool upper = threadIdx.x & offset;
    if (count == 1) {
      v[0] += __shfl_xor_sync(kAllLanes, v[0], offset);
      continue;
    }
    count /= 2;
    if (upper) first += count;
#pragma unroll
    for (int i = 0; i < kCount / 2; ++i) {
      if (i >= count) break;
      const float send = upper ? v[i] : v[i + count], keep = upper ? v[i + count] : v[i];
      v[i] = keep + __shfl_xor_sync(kAllLanes, send, offset);
    }
  }
  return first;
}

/// Four sums over the warps with one barrier.
template <class Sync>
__device__ inline float4 sum_over_warps(float4 v, float4* scratch, Sync&& sync) {
  float sums[4] = {v.x, v.y, v.z, v.w};
  const int first = spread_sums<4, 32, 1>(sums), thread = ptx::thread_index();
  if (thread % 8 == 0) reinterpret_cast<float*>(scratch + thread / 32)[first] = sums[0];
  sync();
  float4 total = make_float4(0.f, 0.f, 0.f, 0.f);
#pragma unroll
  for (int w = 0; w < kVectorWarps; ++w) {
    const float4 part = scratch[w];
    total = make_float4(total.x + part.x, total.y + part.y, total.z + part.z, total.w + part.w);
  }
  return total;
}

/// Columns [4 i, 4 i + 4) of a token's embedding.
__device__ inline float4 embedding4(const Matrix& table, int token, int i) {
  return make_float4(load_value(table, token, 4 * i), load_value(table, token, 4 * i + 1),
                     load_value(table, token, 4 * i + 2), load_value(table, token, 4 * i + 3));
}

/// Leaves a vector of float32, swizzled, in shared memory.
struct StoreFloats {
  float* to;
  int vectors;

  __device__ void operator()(int i, const float4& v) const {
    if (i < vectors) reinterpret_cast<float4*>(to)[swizzled(i)] = v;
  }
};

/// Computes x [d] and the vector that a product needs of it; each thread stores its columns [4 i, 4 i + 4)
/// with `store(i, columns)`, also zeros behind the last ones.
/// With y = branch * gain and c = 1 / rms(branch), |x + c y|^2 = |x|^2 + 2 c x.y + c^2 |y|^2: both norms need
/// only one round of sums. A thread brings its vectors of the branch. x is read from `x_in` (not for an
/// embedding, where kMayEmbed) and written to `x_out` unless null; they may be the same.
template <bool kMayEmbed, int kVectors, class Store, class Sync>
__device__ void prepare_vector(const VectorInput& in, int d, const float* x_in, float* x_out,
                               const float4 (&branch)[kVectors], const Gains<kVectors>& gains,
                               const Store& store, float4* scratch, Sync&& sync) {
  const int vectors = d / 4, thread = ptx::thread_index();
  const float scalar = in.scalar, eps = in.eps, of_width = 1.f / static_cast<float>(d);
  const bool normed = in.norm_gain;
  const bool embedding = kMayEmbed && in.source == VectorSource::embedding;
  const float4 zero = make_float4(0.f, 0.f, 0.f, 0.f);
  const int token = embedding ? __ldcg(in.token) : 0;
  float4 x[kVectors], y[kVectors], sums = zero;  // |branch|^2, |x|^2, x.y, |y|^2
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const int i = v * kVectorThreads + thread;
    x[v] = y[v] = zero;
    if (i >= vectors) continue;
    if (embedding) {
      x[v] = embedding4(in.embedding, token, i);
    } else {
      x[v] = load4(x_in, i);
      y[v] = times(branch[v], gains.branch[v]);
      sums.x += dot(branch[v], branch[v]);
    }
    sums.y += dot(x[v], x[v]);
    sums.z += dot(x[v], y[v]);
    sums.w += dot(y[v], y[v]);
  }
  sums = sum_over_warps(sums, scratch, sync);
  const float c = rsqrtf(sums.x * of_width + eps);
  const float square_sum = (sums.y + 2.f * c * sums.z + c * c * sums.w) * scalar * scalar;
  const float scale = normed ? rsqrtf(fmaxf(square_sum, 0.f) * of_width + eps) : 1.f;
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const int i = v * kVectorThreads + thread;
    float4 r = make_float4((x[v].x + c * y[v].x) * scalar, (x[v].y + c * y[v].y) * scalar,
                           (x[v].z + c * y[v].z) * scalar, (x[v].w + c * y[v].w) * scalar);
    if (x_out && i < vectors) reinterpret_cast<float4*>(x_out)[i] = r;
    if (normed) r = times(make_float4(r.x * scale, r.y * scale, r.z * scale, r.w * scale), gains.norm[v]);
    store(i, r);
  }
}

/// Element i of what a per-layer gate is multiplied with; `scale` is that of the projection's norm, with its
/// own factor, and `table` the element of the token's row.
__device__ inline float per_layer_input(const PerLayerFactor& f, float table, float scale, int i) {
  return (__ldcg(f.raw + i) * scale * f.gain[i] + table * f.table_scale) * 0.7071067811865476f;
}

/// Caps and writes the logits [first, first + count) that lie in `sums`; the best of them goes to this CTA's
/// candidate.
template <class Sync>
__device__ void write_logits(const VectorOutput& o, int first, int count, float* sums, Candidate* scratch,
                             Sync&& sync) {
#pragma unroll 1
  for (int i = threadIdx.x; i < o.suppressed_count; i += kVectorThreads) {
    const int at = o.suppressed[i] - first;
    if (at >= 0 && at < count) sums[at] = -INFINITY;
  }
  sync();
  Candidate best = no_candidate();
#pragma unroll 1
  for (int i = threadIdx.x; i < count; i += kVectorThreads) {
    const float logit = sums[i] == -INFINITY ? sums[i] : soft_cap(sums[i], o.cap);
    o.out[first + i] = logit;
    best = better(best, {logit, first + i});
  }
  best = block_best<kVectorThreads>(best, scratch, sync);
  if (threadIdx.x == 0) {
    o.candidate_values[blockIdx.x] = best.value;
    o.candidate_ids[blockIdx.x] = best.id;
  }
}

}  // namespace carat::cuda
