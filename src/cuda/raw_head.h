// A head of q, k or v as the projections leave it, on its way to attention: norm, gain and rotation by one
// warp. Included by .cu files only.
#pragma once
#include "cuda/kernels.h"
#include "cuda/kv_int8.h"
#include "cuda/math.h"
#include "cuda/partial_sums.h"

namespace carat::cuda {

/// Vectors of four that a lane holds of either half of a head.
constexpr int raw_head_vectors(int head_dim) { return head_dim > 256 ? 2 : 1; }

template <int kVectors>
class RawHead {
 public:
  /// Where vector `i` of this lane begins in either half; beyond the half there is nothing to do.
  static __device__ int dim(int i) { return (i * 32 + static_cast<int>(threadIdx.x) % 32) * 4; }

  /// The head begins at `from`; `half` is half of its size.
  __device__ void load(const PartialSums& sums, std::size_t from, int half) {
    int at[2 * kVectors];  // lanes beyond the half read its beginning
    float4 v[2 * kVectors];
#pragma unroll
    for (int i = 0; i < 2 * kVectors; ++i) at[i] = ((dim(i / 2) < half ? dim(i / 2) : 0) + i % 2 * half) / 4;
    sum_parts(sums, from, at, v);
#pragma unroll
    for (int i = 0; i < 2 * kVectors; ++i)
      v_[i / 2][i % 2] = dim(i / 2) < half ? v[i] : make_float4(0.f, 0.f, 0.f, 0.f);
  }

  /// rope(norm(x) * gain): gain(i, h) is a float4, turn(i, e) cosine and sine of pair dim(i) + e. Calls
  /// store(first dimension, four values).
  template <class Gain, class Turn, class Store>
  __device__ void finish(int half, float eps, Gain&& gain, Turn&& turn, Store&& store) const {
    float squares = 0.f;
#pragma unroll
    for (int i = 0; i < kVectors; ++i) squares += dot(v_[i][0], v_[i][0]) + dot(v_[i][1], v_[i][1]);
    const float scale = rsqrtf(warp_sum(squares) / static_cast<float>(2 * half) + eps);
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      if (dim(i) >= half) continue;
      float first[4], second[4];
      const float4 x = times(v_[i][0], gain(i, 0)), y = times(v_[i][1], gain(i, 1));
      const float xs[4] = {x.x, x.y, x.z, x.w}, ys[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float2 t = turn(i, e);
        first[e] = (xs[e] * t.x - ys[e] * t.y) * scale;
        second[e] = (ys[e] * t.x + xs[e] * t.y) * scale;
      }
      store(dim(i), make_float4(first[0], first[1], first[2], first[3]));
      store(half + dim(i), make_float4(second[0], second[1], second[2], second[3]));
    }
  }

  /// The same as bytes: store(first dimension, four of them). Returns what they are multiplied with.
  template <class Gain, class Turn, class Store>
  __device__ float finish_int8(int half, float eps, Gain&& gain, Turn&& turn, Store&& store) const {
    float largest = 0.f;
    finish(half, eps, gain, turn, [&](int, const float4& v) { largest = max_magnitude(largest, v); });
    const HeadScale scale(warp_max_or_nan(largest));
    finish(half, eps, gain, turn, [&](int dim, const float4& v) { store(dim, scale.bytes(v)); });
    return scale.scale();
  }

 private:
  float4 v_[kVectors][2];
};

/// Four neighbouring values as float16 and, with `low`, what float16 lost of them.
__device__ inline void store_halves(float16* high, float16* low, const float4& v) {
  const __half2 first = __floats2half2_rn(v.x, v.y), second = __floats2half2_rn(v.z, v.w);
  *reinterpret_cast<uint2*>(high) = make_uint2(bits(first), bits(second));
  if (!low) return;
  *reinterpret_cast<uint2*>(low) =
      make_uint2(bits(__floats2half2_rn(v.x - __low2float(first), v.y - __high2float(first))),
                 bits(__floats2half2_rn(v.z - __low2float(second), v.w - __high2float(second))));
}

/// Cosine and sine of pair j at a position.
__device__ inline float2 turn_of(const RopeKvArgs& a, int j, float position) {
  float2 turn = make_float2(1.f, 0.f);
  if (j < a.rotary_pairs) sincosf(position * a.frequencies[j], &turn.y, &turn.x);
  return turn;
}

}  // namespace carat::cuda
