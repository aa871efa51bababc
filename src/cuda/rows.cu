// Row-wise work between the matrix products: embedding rows, norms with residual adds, per-layer inputs,
// gathers. One CTA per row; every reduction runs in a fixed order.
#include "cuda/launch.h"
#include "cuda/math.h"
#include "cuda/ptx.h"
#include "cuda/weight_values.h"

namespace carat::cuda {
namespace {

constexpr int kThreads = 256, kMostNormThreads = 1024;

// xn = norm(row, gain), or the row itself without a gain. `row` is in shared memory and complete.
__device__ void write_normed(const float* row, const float* gain, float eps, int d, float square_sum,
                             Split xn, std::size_t base) {
  const float scale = gain ? rsqrtf(square_sum / static_cast<float>(d) + eps) : 1.f;
  for (int i = threadIdx.x; i < d; i += kThreads) {
    store_split(xn.hi, xn.lo, base + i, gain ? row[i] * scale * gain[i] : row[i]);
  }
}

__global__ void __launch_bounds__(kThreads) embed_kernel(EmbedArgs a) {
  extern __shared__ float row[];
  __shared__ float scratch[kThreads / 32];
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  const int d = a.d_model;
  const std::size_t base = static_cast<std::size_t>(blockIdx.x) * d;
  const std::size_t token = static_cast<std::size_t>(a.tokens[a.rows ? a.rows[blockIdx.x] : blockIdx.x]);
  float squares = 0.f;
  for (int i = threadIdx.x; i < d; i += kThreads) {
    const float v = load_value(a.table, token, i) * a.scale;
    row[i] = v;
    if (a.x) a.x[base + i] = v;
    if (a.raw.hi) store_split(a.raw.hi, a.raw.lo, base + i, v);
    squares += v * v;
  }
  if (!a.x) return;
  squares = block_sum<kThreads>(squares, scratch);
  write_normed(row, a.norm, a.eps, d, squares, a.normed, base);
}

/// Four sums over a CTA of any size with one barrier, the same bits in every thread.
__device__ inline float4 row_sums(float4 v, float4* scratch) {
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
#pragma unroll 4
  for (unsigned w = 0; w < blockDim.x / 32; ++w) {
    const float4 part = scratch[w];
    total = make_float4(total.x + part.x, total.y + part.y, total.z + part.z, total.w + part.w);
  }
  return total;
}

/// A row in registers, kVectors float4 a thread. Gains are read before the wait, everything else in one round
/// of loads. With y = branch * gain and c = 1 / rms(branch), |x + c y|^2 = |x|^2 + 2 c x.y + c^2 |y|^2: both
/// norms need only one round of sums.
template <int kVectors>
__global__ void __launch_bounds__(kMostNormThreads) add_norm_kernel(AddNormArgs a) {
  __shared__ float4 scratch[kMostNormThreads / 32];
  const int vectors = a.d_model / 4;
  const std::size_t base = static_cast<std::size_t>(blockIdx.x) * a.d_model;
  const float4 zero = make_float4(0.f, 0.f, 0.f, 0.f);
  const auto at = [&](int v) { return v * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x); };
  ptx::launch_dependents();
  float4 gain[kVectors], next[kVectors], x[kVectors], branch[kVectors];
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    gain[v] = next[v] = x[v] = branch[v] = zero;
    if (at(v) >= vectors) continue;
    gain[v] = load4(a.gain, at(v));
    if (a.next) next[v] = load4(a.next, at(v));
  }
  ptx::wait_for_dependencies();
  float4 sums = zero;  // |branch|^2, |x|^2, x.y, |y|^2
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    if (at(v) >= vectors) continue;
    x[v] = load4(a.x + base, at(v));
    branch[v] = sum_parts(a.branch, base, at(v));
    sums.x += dot(branch[v], branch[v]);
    branch[v] = times(branch[v], gain[v]);
    sums.y += dot(x[v], x[v]);
    sums.z += dot(x[v], branch[v]);
    sums.w += dot(branch[v], branch[v]);
  }
  sums = row_sums(sums, scratch);
  const float width = static_cast<float>(a.d_model), c = rsqrtf(sums.x / width + a.eps);
  const float square_sum = (sums.y + 2.f * c * sums.z + c * c * sums.w) * a.scalar * a.scalar;
  const float scale = rsqrtf(fmaxf(square_sum, 0.f) / width + a.eps);
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    if (at(v) >= vectors) continue;
    float4 r = make_float4((x[v].x + c * branch[v].x) * a.scalar, (x[v].y + c * branch[v].y) * a.scalar,
                           (x[v].z + c * branch[v].z) * a.scalar, (x[v].w + c * branch[v].w) * a.scalar);
    reinterpret_cast<float4*>(a.x + base)[at(v)] = r;
    if (a.next) r = times(make_float4(r.x * scale, r.y * scale, r.z * scale, r.w * scale), next[v]);
    store_split4(a.xn.hi, a.xn.lo, base + 4 * at(v), r);
  }
}

// One warp per (row, layer).
__global__ void __launch_bounds__(kThreads) per_layer_inputs_kernel(PerLayerInputArgs a) {
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  const int layer = blockIdx.y * (kThreads / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (layer >= a.layers) return;
  const std::size_t width = static_cast<std::size_t>(a.layers) * a.ple_dim, slice = layer * a.ple_dim;
  const int token = a.tokens[a.rows ? a.rows[blockIdx.x] : blockIdx.x];
  const std::size_t row = token < a.table.rows ? token : 0;  // ids beyond the table
  const int column = (a.first_layer + layer) * a.ple_dim;
  float* ple = a.ple + blockIdx.x * width + slice;
  float squares = 0.f;
  for (int i = lane; i < a.ple_dim; i += 32) {
    const float v = ple[i] * a.project_scale;
    squares += v * v;
  }
  const float scale = rsqrtf(warp_sum(squares) / static_cast<float>(a.ple_dim) + a.eps) * a.project_scale;
  constexpr float kMix = 0.7071067811865476f;
  for (int i = lane; i < a.ple_dim; i += 32) {
    const float table = load_value(a.table, row, column + i);
    ple[i] = (ple[i] * scale * a.gain[i] + table * a.table_scale) * kMix;
  }
}

__global__ void __launch_bounds__(kThreads)
    gather_rows_kernel(const uint4* from, uint4* to, int words, const int32_t* rows) {
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  const std::size_t source = static_cast<std::size_t>(rows[blockIdx.x]) * words;
  const std::size_t target = static_cast<std::size_t>(blockIdx.x) * words;
  for (int i = threadIdx.x; i < words; i += kThreads) to[target + i] = from[source + i];
}

__global__ void __launch_bounds__(kThreads)
    resolve_tokens_kernel(int32_t* tokens, int count, const int32_t* drawn, SoftTokens soft) {
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  const int i = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (i < count) tokens[i] = resolved(tokens[i], drawn, soft);
}

}  // namespace

void embed(Queue& queue, const EmbedArgs& args, int rows) {
  launch(queue, embed_kernel, dim3(rows), kThreads, args.d_model * sizeof(float), args);
}

void add_norm(Queue& queue, const AddNormArgs& args, int rows) {
  constexpr int kMany = 4;
  const int vectors = args.d_model / 4;
  const bool few = vectors <= kMostNormThreads;
  const int threads = divide_up(few ? vectors : divide_up(vectors, kMany), 32) * 32;
  launch(queue, few ? add_norm_kernel<1> : add_norm_kernel<kMany>, dim3(rows), threads, 0, args);
}

void per_layer_inputs(Queue& queue, const PerLayerInputArgs& args, int rows) {
  launch(queue, per_layer_inputs_kernel, dim3(rows, divide_up(args.layers, kThreads / 32)), kThreads, 0,
         args);
}

void gather_rows(Queue& queue, const void* from, void* to, std::size_t width_bytes, const int32_t* rows,
                 int count) {
  launch(queue, gather_rows_kernel, dim3(count), kThreads, 0, static_cast<const uint4*>(from),
         static_cast<uint4*>(to), static_cast<int>(width_bytes / sizeof(uint4)), rows);
}

void resolve_tokens(Queue& queue, int32_t* tokens, int count, const int32_t* drawn, const SoftTokens& soft) {
  launch(queue, resolve_tokens_kernel, dim3(divide_up(count, kThreads)), kThreads, 0, tokens, count, drawn,
         soft);
}

}  // namespace carat::cuda
