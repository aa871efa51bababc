// A head of q, k or v in the registers of a warp, for attention of one row: chunk S::chunk(c) of eight
// elements lies in x[8 c ..] where S::mine(c). Included by decode_attention.cu.
#pragma once
#include "cuda/math.h"

namespace carat::cuda {

template <class S>
__device__ void load_head(const float* head, float (&x)[S::kLaneElements]) {
#pragma unroll
  for (int c = 0; c < S::kLaneChunks; ++c)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float4 v = S::mine(c) ? load4(head, 2 * S::chunk(c) + half) : make_float4(0.f, 0.f, 0.f, 0.f);
      float* to = x + c * 8 + half * 4;
      to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
    }
}

template <class S>
__device__ void norm_head(float eps, float (&x)[S::kLaneElements]) {
  float square_sum = 0.f;
#pragma unroll
  for (float v : x) square_sum += v * v;
  const float scale = rsqrtf(warp_sum(square_sum) / static_cast<float>(S::kDim) + eps);
#pragma unroll
  for (float& v : x) v *= scale;
}

/// Gain and rotation of a normed head. Its pairs are half a head apart: in one lane, or in two.
template <class S>
__device__ void rotate_head(const float* gain, const float* sines, const float* cosines,
                            float (&x)[S::kLaneElements]) {
#pragma unroll
  for (int c = 0; c < S::kLaneChunks; ++c)
#pragma unroll
    for (int i = 0; i < 8; ++i)
      if (S::mine(c)) x[c * 8 + i] *= gain[S::chunk(c) * 8 + i];
  constexpr int kHalfChunks = S::kChunks / 2;
  const int pair = S::chunk(0) % kHalfChunks * 8;
  const bool first = S::chunk(0) < kHalfChunks;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const float sine = sines[pair + i], cosine = cosines[pair + i];
    if constexpr (S::kLaneChunks == 2) {
      const float low = x[i], high = x[8 + i];
      x[i] = low * cosine - high * sine;
      x[8 + i] = high * cosine + low * sine;
    } else {
      const float other = __shfl_xor_sync(kAllLanes, x[i], kHalfChunks);
      x[i] = x[i] * cosine + (first ? -other : other) * sine;
    }
  }
}

template <class S>
__device__ void store_head(float* head, const float (&x)[S::kLaneElements]) {
#pragma unroll
  for (int c = 0; c < S::kLaneChunks; ++c)
#pragma unroll
    for (int i = 0; i < 8; ++i)
      if (S::mine(c)) head[S::chunk(c) * 8 + i] = x[c * 8 + i];
}

}  // namespace carat::cuda
