// Partial sums of a product, added where they are read. Included by .cu files only.
#pragma once
#include "cuda/math.h"

namespace carat::cuda {

/// Adds kParts parts of kVectors vectors, which begin `at` vectors of four behind `from`, in order; all are
/// in flight at once.
template <int kParts, int kVectors>
__device__ inline void add_parts(const float* from, std::size_t stride, const int (&at)[kVectors],
                                 float4 (&total)[kVectors]) {
  float4 part[kParts][kVectors];
#pragma unroll
  for (int p = 0; p < kParts; ++p)
#pragma unroll
    for (int v = 0; v < kVectors; ++v) part[p][v] = load4(from + p * stride, at[v]);
  __syncwarp();  // the compiler would put sums in front of loads to save registers
#pragma unroll
  for (int p = 0; p < kParts; ++p)
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      total[v].x += part[p][v].x;
      total[v].y += part[p][v].y;
      total[v].z += part[p][v].z;
      total[v].w += part[p][v].w;
    }
}

/// The same for `parts` of them, kMost at most: one path of code for each number, since a path that skips
/// some takes longer.
template <int kMost, int kVectors>
__device__ inline void add_few_parts(int parts, const float* from, std::size_t stride,
                                     const int (&at)[kVectors], float4 (&total)[kVectors]) {
  if (parts == kMost) return add_parts<kMost>(from, stride, at, total);
  if constexpr (kMost > 1) add_few_parts<kMost - 1>(parts, from, stride, at, total);
}

/// Vectors of partial sums, as add_parts() names them; whole warps call it. The order of the sum is that of
/// the parts.
template <int kVectors>
__device__ inline void sum_parts(const PartialSums& sums, std::size_t base, const int (&at)[kVectors],
                                 float4 (&total)[kVectors]) {
  constexpr int kAtOnce = kVectors > 2 ? 4 : 8;
#pragma unroll
  for (float4& t : total) t = make_float4(0.f, 0.f, 0.f, 0.f);
  const float* from = sums.data + base;
  int left = sums.parts;
#pragma unroll 1
  for (; left > kAtOnce; left -= kAtOnce, from += kAtOnce * sums.stride)
    add_parts<kAtOnce>(from, sums.stride, at, total);
  add_few_parts<kAtOnce>(left, from, sums.stride, at, total);
}

}  // namespace carat::cuda
