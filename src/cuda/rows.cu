// Row-wise work between the matrix products: embedding rows, norms with residual adds, per-layer inputs,
// gathers. One CTA per row; every reduction runs in a fixed order.
#include "cuda/launch.h"
#include "cuda/math.h"
#include "cuda/ptx.h"

namespace carat::cuda {
namespace {

constexpr int kThreads = 256;

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
  const bfloat16* from = a.table + static_cast<std::size_t>(a.tokens[blockIdx.x]) * d;
  float squares = 0.f;
  for (int i = threadIdx.x; i < d; i += kThreads) {
    const float v = __bfloat162float(from[i]) * a.scale;
    row[i] = v;
    a.x[base + i] = v;
    if (a.raw.hi) store_split(a.raw.hi, a.raw.lo, base + i, v);
    squares += v * v;
  }
  squares = block_sum<kThreads>(squares, scratch);
  write_normed(row, a.norm, a.eps, d, squares, a.normed, base);
}

__global__ void __launch_bounds__(kThreads) add_norm_kernel(AddNormArgs a) {
  extern __shared__ float row[];
  __shared__ float scratch[2][kThreads / 32];
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  const int d = a.d_model;
  const std::size_t base = static_cast<std::size_t>(blockIdx.x) * d;
  const float* branch = a.branch.data + base;
  float squares = 0.f;
  for (int i = threadIdx.x; i < d / 4; i += kThreads) {
    float4 v = make_float4(0.f, 0.f, 0.f, 0.f);
#pragma unroll 8
    for (int part = 0; part < a.branch.parts; ++part) {
      const float4 p = reinterpret_cast<const float4*>(branch + part * a.branch.stride)[i];
      v = make_float4(v.x + p.x, v.y + p.y, v.z + p.z, v.w + p.w);
    }
    reinterpret_cast<float4*>(row)[i] = v;
    squares += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
  }
  const float scale = rsqrtf(block_sum<kThreads>(squares, scratch[0]) / static_cast<float>(d) + a.eps);
  squares = 0.f;
#pragma unroll 4
  for (int i = threadIdx.x; i < d; i += kThreads) {
    const float v = (a.x[base + i] + row[i] * scale * a.gain[i]) * a.scalar;
    row[i] = v;
    a.x[base + i] = v;
    squares += v * v;
  }
  squares = block_sum<kThreads>(squares, scratch[1]);
  write_normed(row, a.next, a.eps, d, squares, a.xn, base);
}

// One warp per (row, layer).
__global__ void __launch_bounds__(kThreads) per_layer_inputs_kernel(PerLayerInputArgs a) {
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  const int layer = blockIdx.y * (kThreads / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (layer >= a.layers) return;
  const std::size_t width = static_cast<std::size_t>(a.layers) * a.ple_dim, slice = layer * a.ple_dim;
  const int token = a.tokens[blockIdx.x];  // ids beyond the table read the padding row
  const bfloat16* table = a.table + (token < a.table_rows ? token : 0) * width + slice;
  float* ple = a.ple + blockIdx.x * width + slice;
  float squares = 0.f;
  for (int i = lane; i < a.ple_dim; i += 32) {
    const float v = ple[i] * a.project_scale;
    squares += v * v;
  }
  const float scale = rsqrtf(warp_sum(squares) / static_cast<float>(a.ple_dim) + a.eps) * a.project_scale;
  constexpr float kMix = 0.7071067811865476f;
  for (int i = lane; i < a.ple_dim; i += 32) {
    ple[i] = (ple[i] * scale * a.gain[i] + __bfloat162float(table[i]) * a.table_scale) * kMix;
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
    resolve_tokens_kernel(int32_t* tokens, int count, const int32_t* drawn) {
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  const int i = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (i < count && tokens[i] < 0) tokens[i] = max(0, drawn[~tokens[i]]);
}

}  // namespace

void embed(Queue& queue, const EmbedArgs& args, int rows) {
  launch(queue, embed_kernel, dim3(rows), kThreads, args.d_model * sizeof(float), args);
}

void add_norm(Queue& queue, const AddNormArgs& args, int rows) {
  launch(queue, add_norm_kernel, dim3(rows), kThreads, args.d_model * sizeof(float), args);
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

void resolve_tokens(Queue& queue, int32_t* tokens, int count, const int32_t* drawn) {
  launch(queue, resolve_tokens_kernel, dim3(divide_up(count, kThreads)), kThreads, 0, tokens, count, drawn);
}

}  // namespace carat::cuda
