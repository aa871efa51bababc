// Device arithmetic shared by the kernels. Included by .cu files only.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace carat::cuda {

inline constexpr unsigned kAllLanes = 0xffffffffu;

/// The float32 values of two neighbouring bfloat16 in one word, without a conversion instruction.
__device__ inline float low_bf16(uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ inline float high_bf16(uint32_t pair) { return __uint_as_float(pair & 0xffff0000u); }

__device__ inline float warp_sum(float v) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) v += __shfl_xor_sync(kAllLanes, v, offset);
  return v;
}

/// The sum over the CTA, the same bits in every thread. `scratch` holds one float per warp and is free again
/// after the caller's next __syncthreads().
template <int kThreads>
__device__ inline float block_sum(float v, float* scratch) {
  v = warp_sum(v);
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = v;
  __syncthreads();
  float total = 0.f;
#pragma unroll
  for (int w = 0; w < kThreads / 32; ++w) total += scratch[w];
  return total;
}

/// 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
__device__ inline float gelu_tanh(float x) {
  return 0.5f * x * (1.f + tanhf(0.7978845608028654f * (x + 0.044715f * x * x * x)));
}

__device__ inline float soft_cap(float x, float cap) { return cap == 0.f ? x : cap * tanhf(x / cap); }

__device__ inline void store_split(__nv_bfloat16* hi, __nv_bfloat16* lo, std::size_t at, float v) {
  const __nv_bfloat16 high = __float2bfloat16_rn(v);
  hi[at] = high;
  if (lo) lo[at] = __float2bfloat16_rn(v - __bfloat162float(high));
}

}  // namespace carat::cuda
