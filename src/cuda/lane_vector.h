// What a lane of a matvec keeps of the vector: its columns of one slice, ready to be multiplied with row
// after row of weights in shared memory. Included by .cu files only.
#pragma once
#include "cuda/kernels.h"
#include "cuda/math.h"
#include "cuda/packed_rows.h"
#include "cuda/ptx.h"
#include "cuda/weight_values.h"

namespace carat::cuda {

/// The longest slice that fits a lane's registers.
inline constexpr int kMostSliceCols = 1536;

/// Where float4 i of a vector lies in shared memory, such that lanes which read 32 or 64 bytes each meet no
/// bank twice.
__device__ inline int swizzled(int i) { return i ^ (i >> 3 & 3); }

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

  /// This lane's share of the product with a slice of a row.
  __device__ float dot(const unsigned char* row, int cols) const {
    const int lane = threadIdx.x % 32;
    float sum = 0.f;
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      const int rest = cols - g * kGroupCols;
      if (kLaneCols * lane >= rest) continue;
      const unsigned char* group = row + g * group_bytes(kFormat, kGroupCols);
      const int padded = min(kGroupCols, round_up(rest, block_cols(kFormat)));
      const auto* scales = reinterpret_cast<const float16*>(group + value_bytes(kFormat, padded));
      const float scale = __half2float(scales[lane / (block_cols(kFormat) / kLaneCols)]);
      uint32_t w[4];
      load_bytes(group + lane * value_bytes(kFormat, kLaneCols), w);
      const Part& x = parts_[g];
      int high = 0, low = x.correction;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        high = ptx::dot_signed(w[i], x.high[i], high);
        low = ptx::dot_unsigned(w[i], x.low[i], low);
      }
      sum += static_cast<float>(high * 256 + low) * (scale * x.scale);
    }
    return sum;
  }

 private:
  static constexpr int kLaneCols = 16, kGroups = kMostSliceCols / kGroupCols;

  struct Part {
    uint32_t high[4], low[4];  // bytes of 16 columns, in the order of load_bytes()
    float scale;
    int correction;  // int4: nibbles are 8 too large
  };

  /// Sixteen weights as signed bytes.
  static __device__ void load_bytes(const unsigned char* from, uint32_t (&w)[4]) {
    if constexpr (kFormat == WeightFormat::int8) {
      const uint4 q = *reinterpret_cast<const uint4*>(from);
      w[0] = q.x, w[1] = q.y, w[2] = q.z, w[3] = q.w;
    } else {
      const uint2 q = *reinterpret_cast<const uint2*>(from);
      w[0] = q.x & 0x0f0f0f0fu, w[1] = q.x >> 4 & 0x0f0f0f0fu;
      w[2] = q.y & 0x0f0f0f0fu, w[3] = q.y >> 4 & 0x0f0f0f0fu;
    }
  }

  /// The column of byte b of word i.
  static constexpr int column(int i, int b) {
    return kFormat == WeightFormat::int8 ? 4 * i + b : i / 2 * 8 + i % 2 * 2 + b / 2 + b % 2 * 4;
  }

  static __device__ void quantize(const float4 (&columns)[4], Part& part) {
    constexpr float kLargest = 32767.f, kSmallest = 1e-30f;
    float x[kLaneCols], largest = 0.f;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      x[4 * i] = columns[i].x, x[4 * i + 1] = columns[i].y;
      x[4 * i + 2] = columns[i].z, x[4 * i + 3] = columns[i].w;
    }
#pragma unroll
    for (int i = 0; i < kLaneCols; ++i) largest = ptx::max_or_nan(largest, fabsf(x[i]));
    const float inverse = largest > kSmallest ? __fdividef(kLargest, largest) : 0.f;
    part.scale = largest * (1.f / kLargest);
    // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits, in two's complement.
    constexpr float kMagic = 12582912.f;
    uint32_t bits[kLaneCols];
#pragma unroll
    for (int i = 0; i < kLaneCols; ++i) bits[i] = __float_as_uint(fmaf(x[i], inverse, kMagic));
    int sum = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32_t first = __byte_perm(bits[column(i, 0)], bits[column(i, 1)], 0x5140);
      const uint32_t second = __byte_perm(bits[column(i, 2)], bits[column(i, 3)], 0x5140);
      part.low[i] = __byte_perm(first, second, 0x5410);
      part.high[i] = __byte_perm(first, second, 0x7632);
      constexpr uint32_t kOnes = 0x01010101u;
      if (kFormat == WeightFormat::int4)
        sum += ptx::dot_signed(kOnes, part.high[i], 0) * 256 + ptx::dot_unsigned(kOnes, part.low[i], 0);
    }
    part.correction = -8 * sum;
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

  /// The products with two rows at once: their loads and sums overlap. The slice has kUsed times 256 columns,
  /// or, with kUsed = 0, `cols` of them.
  template <int kUsed>
  __device__ float2 dot_pair(const unsigned char* first, const unsigned char* second, int cols) const {
    constexpr int kCount = kUsed > 0 ? kUsed : kChunks;
    uint4 a[kCount], b[kCount];
#pragma unroll
    for (int c = 0; c < kCount; ++c) {
      const bool inside = kUsed > 0 || 8 * chunk(c) < cols;
      a[c] = inside ? reinterpret_cast<const uint4*>(first)[chunk(c)] : make_uint4(0, 0, 0, 0);
      b[c] = inside ? reinterpret_cast<const uint4*>(second)[chunk(c)] : make_uint4(0, 0, 0, 0);
    }
    float2 even = make_float2(0.f, 0.f), odd = even;
#pragma unroll
    for (int c = 0; c < kCount; ++c) {
      const uint32_t pairs[4][2] = {{a[c].x, b[c].x}, {a[c].y, b[c].y}, {a[c].z, b[c].z}, {a[c].w, b[c].w}};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float* v = x_ + c * 8 + 2 * i;
        even.x += low_bf16(pairs[i][0]) * v[0];
        even.y += low_bf16(pairs[i][1]) * v[0];
        odd.x += high_bf16(pairs[i][0]) * v[1];
        odd.y += high_bf16(pairs[i][1]) * v[1];
      }
    }
    return make_float2(even.x + odd.x, even.y + odd.y);
  }

 private:
  static constexpr int kChunks = kMostSliceCols / 256;  // 16-byte loads of a lane
  static __device__ int chunk(int c) { return c * 32 + static_cast<int>(threadIdx.x) % 32; }

  float x_[kChunks * 8];
};

}  // namespace carat::cuda
