// Device arithmetic shared by the kernels. Included by .cu files only.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "cuda/kernels.h"

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

__device__ inline float warp_max(float v) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) v = fmaxf(v, __shfl_xor_sync(kAllLanes, v, offset));
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

/// 0.5 x (1 + tanh(u)) = x / (1 + exp(-2 u)) with u = sqrt(2 / pi) (x + 0.044715 x^3): no cancellation, and a
/// third of the instructions.
__device__ inline float gelu_tanh(float x) {
  const float u = 0.7978845608028654f * (x + 0.044715f * x * x * x);
  return __fdividef(x, 1.f + __expf(-2.f * u));
}

/// The token whose rows of the tables a step's `token` reads: negative ones name a draw.
__device__ inline int32_t resolved(int32_t token, const int32_t* drawn, const SoftTokens& soft) {
  if (token < 0) token = max(0, drawn[~token]);
  for (int i = 0; i < soft.count; ++i)
    if (token == soft.ids[i]) return soft.padding;
  return token;
}

__device__ inline float soft_cap(float x, float cap) { return cap == 0.f ? x : cap * tanhf(x / cap); }

__device__ inline float4 load4(const float* p, int i) { return reinterpret_cast<const float4*>(p)[i]; }
__device__ inline float dot(const float4& a, const float4& b) {
  return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
}
__device__ inline float4 times(const float4& a, const float4& b) {
  return make_float4(a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w);
}

__device__ inline void store_split(__nv_bfloat16* hi, __nv_bfloat16* lo, std::size_t at, float v) {
  const __nv_bfloat16 high = __float2bfloat16_rn(v);
  hi[at] = high;
  if (lo) lo[at] = __float2bfloat16_rn(v - __bfloat162float(high));
}

__device__ inline uint32_t bits(const __nv_bfloat162& pair) {
  return *reinterpret_cast<const uint32_t*>(&pair);
}
__device__ inline uint32_t bits(const __half2& pair) { return *reinterpret_cast<const uint32_t*>(&pair); }

/// The same for two neighbouring values; `at` is even.
__device__ inline void store_split2(__nv_bfloat16* hi, __nv_bfloat16* lo, std::size_t at, float x, float y) {
  const __nv_bfloat162 high = __floats2bfloat162_rn(x, y);
  *reinterpret_cast<__nv_bfloat162*>(hi + at) = high;
  if (lo)
    *reinterpret_cast<__nv_bfloat162*>(lo + at) =
        __floats2bfloat162_rn(x - __low2float(high), y - __high2float(high));
}

/// The same for four neighbouring values; `at` is a multiple of 4.
__device__ inline void store_split4(__nv_bfloat16* hi, __nv_bfloat16* lo, std::size_t at, const float4& v) {
  const __nv_bfloat162 first = __floats2bfloat162_rn(v.x, v.y), second = __floats2bfloat162_rn(v.z, v.w);
  *reinterpret_cast<uint2*>(hi + at) = make_uint2(bits(first), bits(second));
  if (!lo) return;
  *reinterpret_cast<uint2*>(lo + at) =
      make_uint2(bits(__floats2bfloat162_rn(v.x - __low2float(first), v.y - __high2float(first))),
                 bits(__floats2bfloat162_rn(v.z - __low2float(second), v.w - __high2float(second))));
}

}  // namespace carat::cuda
