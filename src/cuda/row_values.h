// Rows of a table and their norms, as kernels with one CTA per row read and write them. Included by .cu files
// only.
#pragma once
#include "cuda/kernels.h"
#include "cuda/math.h"
#include "cuda/weight_values.h"

namespace carat::cuda {

/// Two vectors of four out of eight values.
__device__ inline float4 half_of(const float (&v)[8], int half) {
  return make_float4(v[4 * half], v[4 * half + 1], v[4 * half + 2], v[4 * half + 3]);
}

/// Eight neighbouring values of a table's row, times `scale`. One by one they would be as many accesses to
/// memory in a row.
__device__ inline void load_eight(const Matrix& table, std::size_t row, int column, float scale,
                                  float (&v)[8]) {
  with_format(table.format, [&](auto eight) {
    eight.load(row_of(table, row), column, table.cols);
    to_floats(eight, v);
  });
#pragma unroll
  for (float& value : v) value *= scale;
}

/// Calls store(column, four values) for all of norm(row, gain), or of the row itself without a gain. `row` is
/// complete.
template <int kThreads, class Store>
__device__ void for_normed(const float* row, const float* gain, float eps, int d, float square_sum,
                           Store&& store) {
  const float scale = gain ? rsqrtf(square_sum / static_cast<float>(d) + eps) : 1.f;
  for (int i = threadIdx.x; i < d / 4; i += kThreads) {
    float4 v = load4(row, i);
    if (gain) v = times(make_float4(v.x * scale, v.y * scale, v.z * scale, v.w * scale), load4(gain, i));
    store(4 * i, v);
  }
}

/// xn = norm(row, gain), likewise.
template <int kThreads>
__device__ void write_normed(const float* row, const float* gain, float eps, int d, float square_sum,
                             Split xn, std::size_t base) {
  for_normed<kThreads>(row, gain, eps, d, square_sum,
                       [&](int at, const float4& v) { store_split4(xn.hi, xn.lo, base + at, v); });
}

}  // namespace carat::cuda
