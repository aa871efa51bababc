// Weights in registers: eight neighbouring columns of a row, as they are loaded and as the kernels compute
// with them. Included by .cu files only.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "cuda/kernels.h"
#include "cuda/math.h"
#include "cuda/packed_rows.h"
#include "cuda/ptx.h"

namespace carat::cuda {

/// Columns [column, column + 8) of a row of `cols`, `column` a multiple of 8. Their weights are pairs() times
/// scale(); pairs() are bfloat16 without a rounding error.
template <WeightFormat kFormat>
struct Eight;

template <>
struct Eight<WeightFormat::bf16> {
  uint4 bits;

  __device__ void load(const std::byte* row, int column, int) {
    bits = ptx::load_streaming(row + value_offset(WeightFormat::bf16, column));
  }
  __device__ uint4 pairs() const { return bits; }
  __device__ float scale() const { return 1.f; }
};

__device__ inline uint16_t load_scale_bits(const std::byte* at) {
  return *reinterpret_cast<const uint16_t*>(at);
}
__device__ inline float scale_of(uint16_t bits) { return __half2float(__ushort_as_half(bits)); }

__device__ inline uint32_t as_word(const __nv_bfloat162& pair) {
  return static_cast<uint32_t>(__bfloat16_as_ushort(pair.x)) |
         static_cast<uint32_t>(__bfloat16_as_ushort(pair.y)) << 16;
}

template <>
struct Eight<WeightFormat::int8> {
  uint2 bits;
  uint16_t factor;  // as it is loaded: a conversion would wait for it right there

  __device__ void load(const std::byte* row, int column, int cols) {
    load_at(row + value_offset(WeightFormat::int8, column),
            row + scale_offset(WeightFormat::int8, column, cols));
  }
  __device__ void load_at(const std::byte* values, const std::byte* scale) {
    bits = *reinterpret_cast<const uint2*>(values);
    factor = load_scale_bits(scale);
  }
  __device__ uint4 pairs() const {
    return make_uint4(pair<0>(bits.x), pair<2>(bits.x), pair<0>(bits.y), pair<2>(bits.y));
  }
  __device__ float scale() const { return scale_of(factor); }

 private:
  /// Bytes kFirst and kFirst + 1. A byte in the mantissa of 2^23 is a float without a conversion instruction.
  template <int kFirst>
  static __device__ uint32_t pair(uint32_t bytes) {
    constexpr uint32_t kOffset = 0x4b000000u;      // 2^23
    const uint32_t shifted = bytes ^ 0x80808080u;  // + 128
    const float first = __uint_as_float(__byte_perm(shifted, kOffset, 0x7540 + kFirst)) - 8388736.f;
    const float second = __uint_as_float(__byte_perm(shifted, kOffset, 0x7541 + kFirst)) - 8388736.f;
    return as_word(__floats2bfloat162_rn(first, second));
  }
};

template <>
struct Eight<WeightFormat::int4> {
  uint32_t bits;
  uint16_t factor;

  __device__ void load(const std::byte* row, int column, int cols) {
    load_at(row + value_offset(WeightFormat::int4, column),
            row + scale_offset(WeightFormat::int4, column, cols));
  }
  __device__ void load_at(const std::byte* values, const std::byte* scale) {
    bits = *reinterpret_cast<const uint32_t*>(values);
    factor = load_scale_bits(scale);
  }
  __device__ uint4 pairs() const { return make_uint4(pair(0), pair(4), pair(8), pair(12)); }
  __device__ float scale() const { return scale_of(factor); }

 private:
  /// A nibble in the mantissa of 128 is a bfloat16: 128 + n.
  __device__ uint32_t pair(int shift) const {
    const uint32_t word = (bits >> shift & 0x000f000fu) | 0x43004300u;
    return as_word(__floats2bfloat162_rn(low_bf16(word) - 136.f, high_bf16(word) - 136.f));
  }
};

/// The eight weights as model/weights.h defines them.
template <WeightFormat kFormat>
__device__ inline void to_floats(const Eight<kFormat>& eight, float (&out)[8]) {
  const uint4 p = eight.pairs();
  const uint32_t words[4] = {p.x, p.y, p.z, p.w};
  const float scale = eight.scale();
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    out[2 * i] = low_bf16(words[i]) * scale;
    out[2 * i + 1] = high_bf16(words[i]) * scale;
  }
}

/// Calls `use` with the format as a type, for kernels that serve all of them.
template <class Use>
__device__ inline void with_format(WeightFormat format, Use&& use) {
  if (format == WeightFormat::int8)
    use(Eight<WeightFormat::int8>());
  else if (format == WeightFormat::int4)
    use(Eight<WeightFormat::int4>());
  else
    use(Eight<WeightFormat::bf16>());
}

__device__ inline const std::byte* row_of(const Matrix& w, std::size_t row) {
  return w.data + row * static_cast<std::size_t>(packed_row_bytes(w.format, w.cols));
}

/// One weight, for tables of which a step reads a row. Kept out of the kernels' own code, which has to stay
/// short.
__device__ __noinline__ inline float load_value(const Matrix& w, std::size_t row, int column) {
  if (w.format == WeightFormat::bf16)
    return __bfloat162float(reinterpret_cast<const bfloat16*>(w.data)[row * w.cols + column]);
  const std::byte* at = row_of(w, row);
  const float scale = scale_of(load_scale_bits(at + scale_offset(w.format, column, w.cols)));
  if (w.format == WeightFormat::int8)
    return scale * static_cast<float>(*reinterpret_cast<const int8_t*>(at + value_offset(w.format, column)));
  const int j = column % 8;
  const uint32_t word = *reinterpret_cast<const uint32_t*>(at + value_offset(w.format, column - j));
  return scale * (static_cast<float>(word >> (j / 2 * 4 + j % 2 * 16) & 15u) - 8.f);
}

}  // namespace carat::cuda
