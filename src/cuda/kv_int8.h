// Keys and values of KvType::int8: from floats to bytes that share a scale, and back to what the kernels
// multiply. Included by .cu files only.
#pragma once
#include <algorithm>

#include "cuda/kernels.h"
#include "cuda/math.h"
#include "cuda/ptx.h"

namespace carat::cuda {

/// A head of K or V of one token, as the CPU backend defines it: byte * scale, the largest byte being 127.
/// What is not finite gives a scale that is not either, so that it shows.
class HeadScale {
 public:
  /// `largest` magnitude of the head.
  explicit __device__ HeadScale(float largest)
      : scale_(largest / 127.f), inverse_(largest > kSmallest ? 127.f / largest : 0.f) {}

  __device__ float scale() const { return scale_; }
  __device__ uint32_t bytes(const float4& v) const {
    return __byte_perm(__byte_perm(integer(v.x), integer(v.y), 0x0040),
                       __byte_perm(integer(v.z), integer(v.w), 0x0040), 0x5410);
  }

 private:
  static constexpr float kSmallest = 1e-30f;  // whose inverse is still finite
  __device__ int integer(float x) const { return __float2int_rn(x * inverse_); }

  float scale_, inverse_;
};

/// Largest magnitude of a head whose lanes each have their own; NaN when one is.
__device__ inline float warp_max_or_nan(float v) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2)
    v = ptx::max_or_nan(v, __shfl_xor_sync(kAllLanes, v, offset));
  return v;
}
__device__ inline float max_magnitude(float largest, const float4& v) {
  largest = ptx::max_or_nan(ptx::max_or_nan(largest, fabsf(v.x)), fabsf(v.y));
  return ptx::max_or_nan(ptx::max_or_nan(largest, fabsf(v.z)), fabsf(v.w));
}

/// Four bytes, each with 128 added: then one in the mantissa of a larger number is that number plus the byte,
/// without a conversion instruction.
__device__ inline uint32_t unsigned_bytes(uint32_t bytes) { return bytes ^ 0x80808080u; }

/// Two of unsigned_bytes() as float16.
template <int kFirst, int kSecond>
__device__ uint32_t half_pair(uint32_t bytes) {
  const uint32_t word = __byte_perm(bytes, 0x64646464u, 0x4040 | kFirst | kSecond << 8);  // 1024 + byte
  return bits(__hsub2(reinterpret_cast<const __half2&>(word), __float2half2_rn(1152.f)));
}
/// One of them as float32.
template <int kByte>
__device__ float float_of(uint32_t bytes) {
  return __uint_as_float(__byte_perm(bytes, 0x4b000000u, 0x7540 + kByte)) - 8388736.f;  // 2^23 + 128
}

/// Sixteen bytes as float16 in two chunks of eight.
struct Widened {
  uint4 chunk[2];

  explicit __device__ Widened(const uint4& from) {
    const uint32_t words[4] = {unsigned_bytes(from.x), unsigned_bytes(from.y), unsigned_bytes(from.z),
                               unsigned_bytes(from.w)};
#pragma unroll
    for (int i = 0; i < 2; ++i)
      chunk[i] = make_uint4(half_pair<0, 1>(words[2 * i]), half_pair<2, 3>(words[2 * i]),
                            half_pair<0, 1>(words[2 * i + 1]), half_pair<2, 3>(words[2 * i + 1]));
  }
};

/// A block of keys, or values, that arrives as bytes and becomes float16 in the same place: each thread
/// widens what it has fetched itself, once all threads have read theirs. Scales are not applied.
template <int kKeys, int kHeadDim, int kThreads>
struct WidenedBlock {
  static constexpr int kVectors = kHeadDim / 16, kAll = kKeys * kVectors;  // of 16 bytes
  static constexpr int kEach = (kAll + kThreads - 1) / kThreads;

  /// Starts the copies of what lies `offset` behind the tokens; zeros from `keys` on.
  __device__ static void load(float16* block, const float16* const* places, std::size_t offset, int keys) {
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const int i = j * kThreads + static_cast<int>(threadIdx.x), key = i / kVectors;
      if (i < kAll) ptx::async_copy16(block + i * 8, places[key] + offset + i % kVectors * 8, key < keys);
    }
  }
  /// Starts the copies of the scales: of a key, of its value, and two numbers of no use.
  __device__ static void load_scales(float4* to, const float16* const* places, int keys) {
    for (int i = threadIdx.x; i < kKeys; i += kThreads)
      ptx::async_copy16(to + i, places[i] + kHeadDim, i < keys);
  }

  /// Eight numbers go to chunk_at(key, chunk). To be called once this thread's copies have arrived; has a
  /// barrier, and the result needs another one.
  template <class ChunkAt>
  __device__ static void widen(float16* block, ChunkAt&& chunk_at) {
    uint4 bytes[kEach];
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const int i = j * kThreads + static_cast<int>(threadIdx.x);
      if (i < kAll) bytes[j] = reinterpret_cast<const uint4*>(block)[i];
    }
    __syncthreads();
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const int i = j * kThreads + static_cast<int>(threadIdx.x);
      if (i >= kAll) continue;
      const Widened wide(bytes[j]);
#pragma unroll
      for (int c = 0; c < 2; ++c)
        *reinterpret_cast<uint4*>(block + chunk_at(i / kVectors, i % kVectors * 2 + c)) = wide.chunk[c];
    }
  }
};

}  // namespace carat::cuda
