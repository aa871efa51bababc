// Row-wise work between the matrix products: embedding rows, norms with residual adds, per-layer inputs,
// gathers. One CTA per row; every reduction runs in a fixed order.
#include "cuda/launch.h"
#include "cuda/math.h"
#include "cuda/partial_sums.h"
#include "cuda/ptx.h"
#include "cuda/row_values.h"

namespace carat::cuda {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads) embed_kernel(EmbedArgs a) {
  extern __shared__ float4 shared[];
  __shared__ float scratch[kThreads / 32];
  float* const row = reinterpret_cast<float*>(shared);
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  const int d = a.d_model;
  const std::size_t base = static_cast<std::size_t>(blockIdx.x) * d;
  const std::size_t token = static_cast<std::size_t>(a.tokens[a.rows ? a.rows[blockIdx.x] : blockIdx.x]);
  float squares = 0.f;
  for (int i = threadIdx.x; i < d / 8; i += kThreads) {
    float eight[8];
    load_eight(a.table, token, 8 * i, a.scale, eight);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float4 v = half_of(eight, half);
      const std::size_t at = base + 8 * i + 4 * half;
      shared[2 * i + half] = v;
      if (a.x) *reinterpret_cast<float4*>(a.x + at) = v;
      if (a.raw.hi) store_split4(a.raw.hi, a.raw.lo, at, v);
      squares += dot(v, v);
    }
  }
  if (!a.x) return;
  squares = block_sum<kThreads>(squares, scratch);
  write_normed<kThreads>(row, a.norm, a.eps, d, squares, a.normed, base);
}

/// Four sums over a CTA of any size with one barrier, the same bits in every thread. Lanes share out the four
/// from the first exchange on: six exchanges instead of twenty.
__device__ inline float4 row_sums(const float4& v, float4* scratch) {
  const unsigned lane = threadIdx.x % 32;
  const auto halve = [&](float first, float second, unsigned offset) {
    const bool upper = lane & offset;
    return (upper ? second : first) + __shfl_xor_sync(kAllLanes, upper ? first : second, offset);
  };
  float sum = halve(halve(v.x, v.z, 16), halve(v.y, v.w, 16), 8);
#pragma unroll
  for (unsigned offset = 4; offset > 0; offset /= 2) sum += __shfl_xor_sync(kAllLanes, sum, offset);
  // Lanes 0, 8, 16 and 24 have x, y, z and w.
  if (lane % 8 == 0) reinterpret_cast<float*>(scratch + threadIdx.x / 32)[lane / 8] = sum;
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
__global__ void __launch_bounds__(kMostNormThreads) add_norm_kernel(AddNormArgs a, float per_width) {
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
    const bool inside = at(v) < vectors;
    const int place[1] = {inside ? at(v) : 0};  // sum_parts() takes whole warps
    float4 whole[1];
    if (inside) x[v] = load4(a.x + base, at(v));
    sum_parts(a.branch, base, place, whole);
    if (inside) branch[v] = whole[0];
    sums.x += dot(branch[v], branch[v]);
    branch[v] = times(branch[v], gain[v]);
    sums.y += dot(x[v], x[v]);
    sums.z += dot(x[v], branch[v]);
    sums.w += dot(branch[v], branch[v]);
  }
  sums = row_sums(sums, scratch);
  const float c = rsqrtf(sums.x * per_width + a.eps);
  const float square_sum = (sums.y + 2.f * c * sums.z + c * c * sums.w) * a.scalar * a.scalar;
  const float scale = rsqrtf(fmaxf(square_sum, 0.f) * per_width + a.eps);
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
  for (int i = lane; i < a.ple_dim / 4; i += 32) {
    const float4 v = load4(ple, i);
    squares += dot(v, v) * a.project_scale * a.project_scale;
  }
  const float scale = rsqrtf(warp_sum(squares) / static_cast<float>(a.ple_dim) + a.eps) * a.project_scale;
  constexpr float kMix = 0.7071067811865476f;
  for (int i = lane; i < a.ple_dim / 8; i += 32) {
    float table[8];
    load_eight(a.table, row, column + 8 * i, a.table_scale, table);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float4* const at = reinterpret_cast<float4*>(ple) + 2 * i + half;
      const float4 v = *at, gain = load4(a.gain, 2 * i + half), t = half_of(table, half);
      *at = make_float4((v.x * scale * gain.x + t.x) * kMix, (v.y * scale * gain.y + t.y) * kMix,
                        (v.z * scale * gain.z + t.z) * kMix, (v.w * scale * gain.w + t.w) * kMix);
    }
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
  const int vectors = args.d_model / 4;
  const auto with = [&](auto kernel, int each) {
    launch(queue, kernel, dim3(rows), divide_up(divide_up(vectors, each), 32) * 32, 0, args,
           1.f / static_cast<float>(args.d_model));
  };
  if (vectors <= kMostNormThreads) return with(add_norm_kernel<1>, 1);
  if (vectors <= 2 * kMostNormThreads) return with(add_norm_kernel<2>, 2);
  with(add_norm_kernel<4>, 4);
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
