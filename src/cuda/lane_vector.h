// What a lane of a matvec keeps of the vector: its columns of one slice, ready to be multiplied with row
// after row of weights in shared memory. Included by .cu files only.
#pragma once
#include "cuda/kernels.h"
#include "cuda/math.h"
#include "cuda/packed_rows.h"
#include "cuda/ptx.h"
#include "cuda/weight_values.h"

namespace carat::cuda {

/// Sixteen columns as integers: float32 values of at most `largest` times 1 / step, rounded.
struct IntegerScale {
  float step, inverse;

  explicit __device__ IntegerScale(float largest) {
    constexpr float kLargest = 32767.f, kSmallest = 1e-30f;
    inverse = largest > kSmallest ? __fdividef(kLargest, largest) : 0.f;
    step = largest * (1.f / kLargest);
  }
  /// In the low bits, in two's complement: adding 1.5 * 2^23 rounds to an integer.
  __device__ uint32_t bits(float x) const { return __float_as_uint(fmaf(x, inverse, 12582912.f)); }
};

/// The longest slice that fits a lane's registers.
inline constexpr int kMostSliceCols = 1536;

/// Where float4 i of a vector lies in shared memory, such that lanes which read 32 or 64 bytes each meet no
/// bank twice.
__device__ inline int swizzled(int i) { return i ^ (i >> 3 & 3); }

/// Four integers of 16 bits as two words of bytes: value = 256 high + low, high signed.
__device__ inline void split_bytes(const uint32_t (&bits)[4], uint32_t& high, uint32_t& low) {
  const uint32_t first = __byte_perm(bits[0], bits[1], 0x5140);
  const uint32_t second = __byte_perm(bits[2], bits[3], 0x5140);
  low = __byte_perm(first, second, 0x5410);
  high = __byte_perm(first, second, 0x7632);
}

/// A vector in shared memory as LaneVector takes it beside int8 and int4: what many warps need is converted
/// once. Planes of high and of low bytes, 16 columns each 16 bytes, and their scales.
class IntegerVector {
 public:
  /// `memory` has 4 bytes for each of `cols` columns, and at least 64.
  __device__ IntegerVector(WeightFormat format, void* memory, int cols)
      : int4_(format == WeightFormat::int4),
        padded_((cols + 15) / 16 * 16),
        high_(static_cast<uint32_t*>(memory)),
        low_(high_ + padded_ / 4),
        scales_(reinterpret_cast<float*>(low_ + padded_ / 4)) {}

  /// Columns [4 i, 4 i + 4); by whole warps, with neighbouring i and zeros behind the last column.
  __device__ void operator()(int i, const float4& v) const {
    float largest =
        ptx::max_or_nan(ptx::max_or_nan(fabsf(v.x), fabsf(v.y)), ptx::max_or_nan(fabsf(v.z), fabsf(v.w)));
    largest = ptx::max_or_nan(largest, __shfl_xor_sync(kAllLanes, largest, 1));
    largest = ptx::max_or_nan(largest, __shfl_xor_sync(kAllLanes, largest, 2));
    const IntegerScale scale(largest);
    const uint32_t first = __byte_perm(scale.bits(v.x), scale.bits(v.y), 0x5410),
                   second = __byte_perm(scale.bits(v.z), scale.bits(v.w), 0x5410);
    uint32_t a = first, b = second;  // columns 0 1, 2 3
    if (int4_) {                     // columns 0 4 1 5, and 2 6 3 7, of neighbouring lanes
      const bool odd = i % 2 != 0;
      const uint32_t other = __shfl_xor_sync(kAllLanes, odd ? first : second, 1);
      a = odd ? other : first;
      b = odd ? second : other;
    }
    if (4 * i >= padded_) return;
    low_[i] = __byte_perm(a, b, int4_ ? 0x6240 : 0x6420);
    high_[i] = __byte_perm(a, b, int4_ ? 0x7351 : 0x7531);
    if (i % 4 == 0) scales_[i / 4] = scale.step;
  }

  __device__ uint4 high(int chunk) const { return reinterpret_cast<const uint4*>(high_)[chunk]; }
  __device__ uint4 low(int chunk) const { return reinterpret_cast<const uint4*>(low_)[chunk]; }
  __device__ float scale(int chunk) const { return scales_[chunk]; }

 private:
  bool int4_;
  int padded_;
  uint32_t* high_;
  uint32_t* low_;
  float* scales_;
};

/// Beside int8 and int4: 16 columns of each group of 512, as integers of 16 bits with a float32 scale, the
/// largest of the sixteen being 32,767. Sums of 16 products are exact; from there on they are float32.
template <WeightFormat kFormat>
class LaneVector {
 public:
  /// `vector(i)` returns columns [4 i, 4 i + 4) of the slice, which has `cols` of them.
  template <class Vector>
  __device__ void load(int cols, Vector&& vector) {
    const int lane = threadIdx.x % 32;
    float4 columns[kGroups][4];
#pragma unroll
    for (int g = 0; g < kGroups; ++g)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int at = g * kGroupCols / 4 + lane * 4 + i;
        columns[g][i] = 4 * at < cols ? vector(at) : make_float4(0.f, 0.f, 0.f, 0.f);
      }
#pragma unroll
    for (int g = 0; g < kGroups; ++g) quantize(columns[g], parts_[g]);
  }

  /// The slice of `cols` columns from `first_col`, a multiple of 16, on.
  __device__ void load(const IntegerVector& vector, int first_col, int cols) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      const int rest = cols - g * kGroupCols, chunk = (first_col + g * kGroupCols) / kLaneCols + lane;
      Part& p = parts_[g];
      p = {};
      if (!has_columns(rest)) continue;
      const uint4 high = vector.high(chunk), low = vector.low(chunk);
      p.high[0] = high.x, p.high[1] = high.y, p.high[2] = high.z, p.high[3] = high.w;
      p.low[0] = low.x, p.low[1] = low.y, p.low[2] = low.z, p.low[3] = low.w;
      p.scale = vector.scale(chunk);
      correct(p);
    }
  }

  /// This lane's share of the product with a slice of a row.
  __device__ float dot(const unsigned char* row, int cols) const {
    float sum = 0.f;
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      const int rest = cols - g * kGroupCols;
      if (!has_columns(rest)) continue;
      const unsigned char* group = row + g * group_bytes(kFormat, kGroupCols);
      // The scale first: in this order the graph's kernel needs registers enough to keep a third one out.
      const float scale = scale_of(Weights::load_scale(group, rest));
      Weights w;
      w.load_words(group);
      sum += w.sum(parts_[g]) * (scale * parts_[g].scale);
    }
    return sum;
  }

  /// The products with some rows at once: their loads and sums overlap. The slice has kUsed times kStep
  /// columns, or, with kUsed = 0, `cols` of them.
  static constexpr int kStep = kGroupCols;
  template <int kUsed, int kRows>
  __device__ void dot_rows(const unsigned char* const (&rows)[kRows], int cols, float (&sums)[kRows]) const {
    constexpr int kCount = kUsed > 0 ? kUsed : kGroups;
    Weights w[kCount][kRows];
#pragma unroll
    for (int g = 0; g < kCount; ++g) {
      const int rest = kUsed > 0 ? kGroupCols : cols - g * kGroupCols;
      const bool inside = kUsed > 0 || has_columns(rest);
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if (kUsed == 0) w[g][r] = {};
        if (inside) w[g][r].load(rows[r] + g * group_bytes(kFormat, kGroupCols), rest);
      }
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) sums[r] = 0.f;
#pragma unroll
    for (int g = 0; g < kCount; ++g) {
      if (kUsed == 0 && g * kGroupCols >= cols) continue;
#pragma unroll
      for (int r = 0; r < kRows; ++r) sums[r] += w[g][r].sum(parts_[g]) * (w[g][r].scale() * parts_[g].scale);
    }
  }

 private:
  static constexpr int kLaneCols = 16, kGroups = kMostSliceCols / kGroupCols;

  /// Whether this lane has some of a group's columns, or of the `rest` that there are.
  static __device__ bool has_columns(int rest) {
    return kLaneCols * (static_cast<int>(threadIdx.x) % 32) < rest;
  }

  struct Part {
    uint32_t high[4], low[4];  // bytes of 16 columns, in the order of Weights::bytes()
    float scale;
    int correction;  // int4: nibbles are 8 too large
  };

  /// Sixteen weights and their scale, as they lie in a group.
  struct Weights {
    uint32_t words[value_bytes(kFormat, kLaneCols) / 4];
    uint16_t scale_bits;

    static __device__ uint16_t load_scale(const unsigned char* group, int rest) {
      const int padded = min(kGroupCols, round_up(rest, block_cols(kFormat)));
      const auto* scales = reinterpret_cast<const uint16_t*>(group + value_bytes(kFormat, padded));
      return scales[static_cast<int>(threadIdx.x) % 32 / (block_cols(kFormat) / kLaneCols)];
    }
    __device__ void load_words(const unsigned char* group) {
      const unsigned char* from =
          group + static_cast<int>(threadIdx.x) % 32 * value_bytes(kFormat, kLaneCols);
      if constexpr (kFormat == WeightFormat::int8) {
        const uint4 q = *reinterpret_cast<const uint4*>(from);
        words[0] = q.x, words[1] = q.y, words[2] = q.z, words[3] = q.w;
      } else {
        const uint2 q = *reinterpret_cast<const uint2*>(from);
        words[0] = q.x, words[1] = q.y;
      }
    }
    __device__ void load(const unsigned char* group, int rest) {
      load_words(group);
      scale_bits = load_scale(group, rest);
    }

    /// Four of them as signed bytes.
    __device__ uint32_t bytes(int i) const {
      if constexpr (kFormat == WeightFormat::int8) return words[i];
      return words[i / 2] >> i % 2 * 4 & 0x0f0f0f0fu;
    }

    __device__ float scale() const { return scale_of(scale_bits); }

    /// Of the products with the integers of a part.
    __device__ float sum(const Part& x) const {
      int high = 0, low = x.correction;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        high = ptx::dot_signed(bytes(i), x.high[i], high);
        low = ptx::dot_unsigned(bytes(i), x.low[i], low);
      }
      return static_cast<float>(high * 256 + low);
    }
  };

  /// The column of byte b of word i.
  static constexpr int column(int i, int b) {
    return kFormat == WeightFormat::int8 ? 4 * i + b : i / 2 * 8 + i % 2 * 2 + b / 2 + b % 2 * 4;
  }

  static __device__ void quantize(const float4 (&columns)[4], Part& part) {
    float x[kLaneCols], largest = 0.f;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      x[4 * i] = columns[i].x, x[4 * i + 1] = columns[i].y;
      x[4 * i + 2] = columns[i].z, x[4 * i + 3] = columns[i].w;
    }
#pragma unroll
    for (int i = 0; i < kLaneCols; ++i) largest = ptx::max_or_nan(largest, fabsf(x[i]));
    const IntegerScale scale(largest);
    part.scale = scale.step;
    uint32_t bits[kLaneCols];
#pragma unroll
    for (int i = 0; i < kLaneCols; ++i) bits[i] = scale.bits(x[i]);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32_t four[4] = {bits[column(i, 0)], bits[column(i, 1)], bits[column(i, 2)],
                                bits[column(i, 3)]};
      split_bytes(four, part.high[i], part.low[i]);
    }
    correct(part);
  }

  static __device__ void correct(Part& part) {
    int high = 0, low = 0;
#pragma unroll
    for (int i = 0; i < 4 && kFormat == WeightFormat::int4; ++i) {
      constexpr uint32_t kOnes = 0x01010101u;
      high = ptx::dot_signed(kOnes, part.high[i], high);
      low = ptx::dot_unsigned(kOnes, part.low[i], low);
    }
    part.correction = -8 * (high * 256 + low);
  }

  Part parts_[kGroups];
};

/// Beside bf16: float32, 8 columns of each 256.
template <>
class LaneVector<WeightFormat::bf16> {
 public:
  template <class Vector>
  __device__ void load(int cols, Vector&& vector) {
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int at = 2 * chunk(c) + half;
        const float4 v = 4 * at < cols ? vector(at) : make_float4(0.f, 0.f, 0.f, 0.f);
        float* to = x_ + c * 8 + half * 4;
        to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
      }
    }
  }

  __device__ float dot(const unsigned char* row, int cols) const {
    float even = 0.f, odd = 0.f;
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      if (8 * chunk(c) >= cols) continue;
      const uint4 q = reinterpret_cast<const uint4*>(row)[chunk(c)];
      const float* v = x_ + c * 8;
      even += low_bf16(q.x) * v[0];
      odd += high_bf16(q.x) * v[1];
      even += low_bf16(q.y) * v[2];
      odd += high_bf16(q.y) * v[3];
      even += low_bf16(q.z) * v[4];
      odd += high_bf16(q.z) * v[5];
      even += low_bf16(q.w) * v[6];
      odd += high_bf16(q.w) * v[7];
    }
    return even + odd;
  }

  /// As of integers.
  static constexpr int kStep = 256;
  template <int kUsed, int kRows>
  __device__ void dot_rows(const unsigned char* const (&rows)[kRows], int cols, float (&sums)[kRows]) const {
    constexpr int kCount = kUsed > 0 ? kUsed : kChunks;
    uint4 w[kCount][kRows];
#pragma unroll
    for (int c = 0; c < kCount; ++c) {
      const bool inside = kUsed > 0 || 8 * chunk(c) < cols;
#pragma unroll
      for (int r = 0; r < kRows; ++r)
        w[c][r] = inside ? reinterpret_cast<const uint4*>(rows[r])[chunk(c)] : make_uint4(0, 0, 0, 0);
    }
    float even[kRows] = {}, odd[kRows] = {};
#pragma unroll
    for (int c = 0; c < kCount; ++c) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float* v = x_ + c * 8 + 2 * i;
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          const uint32_t pair = i == 0 ? w[c][r].x : i == 1 ? w[c][r].y : i == 2 ? w[c][r].z : w[c][r].w;
          even[r] += low_bf16(pair) * v[0];
          odd[r] += high_bf16(pair) * v[1];
        }
      }
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) sums[r] = even[r] + odd[r];
  }

 private:
  static constexpr int kChunks = kMostSliceCols / 256;  // 16-byte loads of a lane
  static __device__ int chunk(int c) { return c * 32 + static_cast<int>(threadIdx.x) % 32; }

  float x_[kChunks * 8];
};

}  // namespace carat::cuda
