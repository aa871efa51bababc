// The tile of attention_raw.cu: up to 16 query heads of one row, block after block of keys. Included by it.
#pragma once
#include <algorithm>

#include "cuda/attention_rows.h"
#include "cuda/kernels.h"
#include "cuda/kv_int8.h"
#include "cuda/math.h"
#include "cuda/ptx.h"

namespace carat::cuda {

inline constexpr int kRawWarps = 16, kRawThreads = 32 * kRawWarps, kMostRawCluster = 8;
static_assert(kRawWarps >= kRawTileRows);  // the softmax of a head is one warp's

/// int8 keys and values stay bytes in shared memory and become float16 in registers.
template <int kHeadDim, bool kInt8>
struct RawShape {
  static constexpr int kKeys = attention_keys(kHeadDim, kRawTileRows);  // of a block
  static constexpr int kRow = kInt8 ? kHeadDim / 2 : kHeadDim;          // of a key, in float16s
  static constexpr int kChunks = kRow / 8, kHalf = kHeadDim / 2;        // a chunk has 16 bytes
  static constexpr int kStep = kRawThreads / kChunks;                   // keys copied at once
  static constexpr int kKeyTiles = kKeys / 16;
  /// Warps that share out the dimensions of q K^T: slices keep the permutation of chunks.
  static constexpr int kSlices = std::min(kRawWarps / kKeyTiles, std::max(1, kHeadDim / 64));
  static constexpr int kSliceSteps = kHeadDim / 16 / kSlices;
  static constexpr int kDimTiles = std::max(1, kHeadDim / 16 / kRawWarps);  // of one warp's share of P V
  static constexpr int kLaneKeys = kKeys / 32;
  // Rows of shared memory, padded against bank conflicts.
  static constexpr int kScoreStride = kKeys + 4, kWeightStride = kKeys + 8, kContextStride = kHeadDim + 4;
  static_assert(kStep % 8 == 0 && kKeys % 32 == 0);

  /// `rows`: 8 or 16 query heads. A cluster's CTAs leave their parts of the context behind everything else.
  static constexpr int own_bytes(int rows) {
    const int scale_bytes = kInt8 ? 2 * kKeys * 16 : 0;
    return key_bytes(rows) + (kKeys * kRow + rows * (kHeadDim + kWeightStride)) * 2 +
           kSlices * rows * kScoreStride * 4 + scale_bytes;
  }
  /// Of a block's keys, or the sums that lie there in the end.
  static constexpr int key_bytes(int rows) {
    return kInt8 ? std::max(kKeys * kRow * 2, rows * kContextStride * 4) : kKeys * kRow * 2;
  }
  static constexpr int shared_bytes(int rows, bool cluster) {
    return own_bytes(rows) + (cluster ? rows * kHeadDim * 4 : 0);
  }
};

/// What doesn't depend on the number of query heads.
template <int kHeadDim>
struct RawConstants {
  float16* places[2][RawShape<kHeadDim, false>::kKeys + 1];  // of a block's keys, and of the row's own
  alignas(16) float gains[3][kHeadDim];                      // of q, k and v: v has none
  float2 turns[2][kHeadDim / 2];                             // cosine, sine: of the position, and none
  float rescale[kRawTileRows];
  float2 parts[kMostRawCluster][kRawTileRows];  // of each CTA and head: the largest score, the sum of weights
};

template <int kHeadDim, bool kInt8>
class RawTile {
  using S = RawShape<kHeadDim, kInt8>;
  static constexpr int kKeys = S::kKeys;

 public:
  __device__ RawTile(const AttentionArgs& a, int rows, unsigned char* shared)
      : a_(a),
        rows_(rows),
        k_(reinterpret_cast<float16*>(shared)),
        v_(k_ + S::key_bytes(rows) / 2),
        q_(v_ + kKeys * S::kRow),
        weights_(q_ + rows * kHeadDim),
        scores_(reinterpret_cast<float*>(weights_ + rows * S::kWeightStride)),
        scales_(reinterpret_cast<float4*>(scores_ + S::kSlices * rows * S::kScoreStride)) {}

  __device__ float16* query(int row) const { return q_ + row * kHeadDim; }
  __device__ float16* key(int key) const { return k_ + key * S::kRow; }
  __device__ float16* value(int key) const { return v_ + key * S::kRow; }
  /// int8: of key `key` of the block and its value, as the pages have them.
  __device__ float* scales(int block, int key) const {
    return reinterpret_cast<float*>(scales_ + block * kKeys + key);
  }

  /// Four neighbouring dimensions of a query, where score_int8() looks for them.
  __device__ void store_query(int row, int dim, const float4& v) const {
    const int at = row * kHeadDim + dim / 16 * 16 + dim % 16 / 2;
    const int permutation = (row & (std::min(kHeadDim / 8, 8) - 1)) * 8;
    *reinterpret_cast<__half2*>(q_ + (at ^ permutation)) = __floats2half2_rn(v.x, v.y);
    *reinterpret_cast<__half2*>(q_ + ((at + 8) ^ permutation)) = __floats2half2_rn(v.z, v.w);
  }

  /// Starts the copies of a block's keys with their scales, or of its values, with zeros behind the last one.
  /// Whatever happens to key `skipped` is the caller's.
  __device__ void load_keys(float16* const* places, int block, int keys, int skipped) const {
    load(k_, places, 0, keys, skipped);
    const int key = threadIdx.x;
    if (kInt8 && key < kKeys && key != skipped)
      ptx::async_copy16(scales(block, key), places[key] + kHeadDim, key < keys);
  }
  __device__ void load_values(float16* const* places, int keys, int skipped) const {
    load(v_, places, a_.kv.value_offset, keys, skipped);
  }
  /// One key and its value, as the pages have them.
  __device__ void load_one(const float16* place, int key) const {
    const int chunk = threadIdx.x % S::kChunks, part = threadIdx.x / S::kChunks;
    if (kInt8 && threadIdx.x == kRawThreads - 1) ptx::async_copy16(scales(0, key), place + kHeadDim, true);
    if (part > 1) return;
    ptx::async_copy16((part == 0 ? k_ : v_) + chunk_at<S::kChunks>(key, chunk),
                      place + (part == 0 ? 0 : a_.kv.value_offset) + chunk * 8, true);
  }

  /// This warp's part of q K^T: 16 keys, a slice of the dimensions.
  __device__ void score(int keys) const {
    if constexpr (kInt8) return score_int8(keys);
    const int tile = warp() % S::kKeyTiles, slice = warp() / S::kKeyTiles;
    if (slice >= S::kSlices || tile * 16 >= keys) return;
    float s[2][4] = {};
    const int first_dim = slice * S::kSliceSteps * 16, key = tile * 16 + lane() % 16;
    const int k = key * kHeadDim + first_dim + permuted(lane() / 16, key);
    const int q =
        second_operand_row() * kHeadDim + first_dim + permuted(lane() / 8 % 2, second_operand_row());
#pragma unroll
    for (int step = 0; step < S::kSliceSteps; ++step) {
      uint32_t keys16[4], heads16[4];
      ptx::load_matrices(keys16, k_ + advanced(k, step));
      ptx::load_matrices(heads16, q_ + advanced(q, step));
      ptx::mma_f16(s[0], keys16, heads16[0], heads16[1]);
      if (wide()) ptx::mma_f16(s[1], keys16, heads16[2], heads16[3]);
    }
    float* to = scores_ + (slice * rows_ + lane() % 4 * 2) * S::kScoreStride + tile * 16 + lane() / 4;
    put_pairs<S::kScoreStride, 8>(to, s);
  }

  /// Turns a head's scores into weights against its new running maximum; a warp per head.
  __device__ void weigh(RawConstants<kHeadDim>& c, int group, int block, int keys) {
    if (warp() >= group) return;
    struct alignas(4 * S::kLaneKeys) Scores {
      float of[S::kLaneKeys];
    } scores{};
    float largest = largest_, sum = 0.f;
#pragma unroll
    for (int slice = 0; slice < S::kSlices; ++slice) {
      const Scores part =
          reinterpret_cast<const Scores*>(scores_ + (slice * rows_ + warp()) * S::kScoreStride)[lane()];
#pragma unroll
      for (int i = 0; i < S::kLaneKeys; ++i) scores.of[i] += part.of[i];
    }
#pragma unroll
    for (int i = 0; i < S::kLaneKeys; ++i) {
      if constexpr (kInt8) scores.of[i] *= scales(block, lane() * S::kLaneKeys + i)[0];
      if (lane() * S::kLaneKeys + i >= keys) scores.of[i] = -INFINITY;
      largest = fmaxf(largest, scores.of[i]);
    }
    largest = warp_max(largest);  // every block has a key
    const float rescale = exp2f((largest_ - largest) * kLog2e);
    largest_ = largest;
#pragma unroll
    for (float& s : scores.of) {
      s = exp2f((s - largest) * kLog2e);
      sum += s;
    }
    total_ = total_ * rescale + sum;
    if constexpr (kInt8) {
#pragma unroll
      for (int i = 0; i < S::kLaneKeys; ++i) scores.of[i] *= scales(block, lane() * S::kLaneKeys + i)[1];
    }
#pragma unroll
    for (int i = 0; i < S::kLaneKeys; i += 2)
      *reinterpret_cast<__half2*>(weights_ + warp() * S::kWeightStride + lane() * S::kLaneKeys + i) =
          __floats2half2_rn(scores.of[i], scores.of[i + 1]);
    if (lane() == 0) c.rescale[warp()] = rescale;
  }

  /// This warp's dimensions of P V.
  __device__ void add_values() {
    if (warp() * S::kDimTiles * 16 >= kHeadDim) return;
    if constexpr (kInt8) return add_int8_values();
    const int key = lane() % 8 + lane() / 16 * 8;
    const float16* p = weights_ + second_operand_row() * S::kWeightStride + lane() / 8 % 2 * 8;
    const float16* v[S::kDimTiles];
#pragma unroll
    for (int m = 0; m < S::kDimTiles; ++m)
      v[m] = v_ + chunk_at<S::kChunks>(key, (warp() * S::kDimTiles + m) * 2 + lane() / 8 % 2);
#pragma unroll
    for (int k = 0; k < S::kKeyTiles; ++k) {
      uint32_t weights[4];
      ptx::load_matrices(weights, p + k * 16);
#pragma unroll
      for (int m = 0; m < S::kDimTiles; ++m) {
        uint32_t values[4];
        ptx::load_matrices_transposed(values, v[m] + k * 16 * kHeadDim);
        ptx::mma_f16(o_[m][0], values, weights[0], weights[1]);
        if (wide()) ptx::mma_f16(o_[m][1], values, weights[2], weights[3]);
      }
    }
  }
  /// What has been summed so far, relative to the new maxima.
  __device__ void rescale(const RawConstants<kHeadDim>& c) {
#pragma unroll
    for (int n = 0; n < 2; ++n)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float by = c.rescale[n * 8 + lane() % 4 * 2 + h];
#pragma unroll
        for (int m = 0; m < S::kDimTiles; ++m) {
          o_[m][n][h] *= by;
          o_[m][n][h + 2] *= by;
        }
      }
  }

  /// Leaves the sums where the keys were: [rows, kContextStride].
  __device__ const float* publish() const {
    float* sums = reinterpret_cast<float*>(k_);
    if (warp() * S::kDimTiles * 16 >= kHeadDim) return sums;
    float* to = sums + lane() % 4 * 2 * S::kContextStride + warp() * S::kDimTiles * 16;
    // Rows lane / 4 and lane / 4 + 8 of the product are these dimensions, or of int8 two neighbouring ones.
    to += kInt8 ? lane() / 4 * 2 : lane() / 4;
#pragma unroll
    for (int m = 0; m < S::kDimTiles; ++m) put_pairs<S::kContextStride, kInt8 ? 1 : 8>(to + m * 16, o_[m]);
    return sums;
  }
  /// The largest score and the sum of weights of this warp's head. Whole warps call it.
  __device__ float2 part() const { return make_float2(largest_, warp_sum(total_)); }

 private:
  __device__ static int lane() { return static_cast<int>(threadIdx.x % 32); }
  __device__ static int warp() { return static_cast<int>(threadIdx.x / 32); }
  __device__ bool wide() const { return rows_ > 8; }
  /// The lane's row of the 8-column operand, of which one load brings 16; there may be only 8.
  __device__ int second_operand_row() const { return lane() % 8 + (wide() ? lane() / 16 * 8 : 0); }
  __device__ static int permuted(int chunk, int row) {
    return (chunk ^ (row & (std::min(S::kChunks, 8) - 1))) * 8;
  }
  __device__ static int permuted_query(int chunk, int row) {
    return (chunk ^ (row & (std::min(kHeadDim / 8, 8) - 1))) * 8;
  }
  /// The same place `steps` of 16 dimensions further on, from a place within the first 64 of them.
  __device__ static int advanced(int place, int steps) { return (place ^ (steps % 4 * 16)) + steps / 4 * 64; }
  /// Sums of rows lane / 4 and lane / 4 + 8, which lie kRowStep apart, columns lane % 4 * 2 and the next,
  /// which lie kStride apart.
  template <int kStride, int kRowStep>
  __device__ void put_pairs(float* to, const float (&sums)[2][4]) const {
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      if (n == 1 && !wide()) break;
      to[n * 8 * kStride] = sums[n][0];
      to[(n * 8 + 1) * kStride] = sums[n][1];
      to[n * 8 * kStride + kRowStep] = sums[n][2];
      to[(n * 8 + 1) * kStride + kRowStep] = sums[n][3];
    }
  }

  /// A word of a key has four neighbouring dimensions, for two places of the product that are eight apart;
  /// store_query() puts those of the queries there, too.
  __device__ void score_int8(int keys) const {
    const int tile = warp() % S::kKeyTiles, slice = warp() / S::kKeyTiles;
    if (slice >= S::kSlices || tile * 16 >= keys) return;
    float s[2][4] = {};
    const int first_step = slice * S::kSliceSteps, key = tile * 16 + lane() % 16;
    const int k = key * S::kRow + permuted(std::min(S::kChunks - 1, 1) * (lane() / 16), key);
    const int q = second_operand_row() * kHeadDim + first_step * 16 +
                  permuted_query(lane() / 8 % 2, second_operand_row());
#pragma unroll
    for (int step = 0; step < S::kSliceSteps; step += 2) {
      uint32_t bytes[4];
      ptx::load_matrices(bytes, k_ + (k ^ ((first_step + step) * 8)));
#pragma unroll
      for (int i = 0; i < 2 && step + i < S::kSliceSteps; ++i) {
        const uint32_t first = unsigned_bytes(bytes[2 * i]), second = unsigned_bytes(bytes[2 * i + 1]);
        const uint32_t keys16[4] = {half_pair<0, 1>(first), half_pair<0, 1>(second), half_pair<2, 3>(first),
                                    half_pair<2, 3>(second)};
        uint32_t heads16[4];
        ptx::load_matrices(heads16, q_ + advanced(q, step + i));
        ptx::mma_f16(s[0], keys16, heads16[0], heads16[1]);
        if (wide()) ptx::mma_f16(s[1], keys16, heads16[2], heads16[3]);
      }
    }
    float* to = scores_ + (slice * rows_ + lane() % 4 * 2) * S::kScoreStride + tile * 16 + lane() / 4;
    put_pairs<S::kScoreStride, 8>(to, s);
  }

  /// A transposed 16-bit element is two neighbouring dimensions of one key: rows i and i + 8 of the product.
  __device__ void add_int8_values() {
#pragma unroll
    for (int m = 0; m < S::kDimTiles; ++m) {
      const float16* v = v_ + chunk_at<S::kChunks>(lane(), warp() * S::kDimTiles + m);
      const float16* p = weights_ + second_operand_row() * S::kWeightStride + lane() / 8 % 2 * 8;
#pragma unroll
      for (int k = 0; k < S::kKeyTiles; k += 2) {
        uint32_t bytes[4];
        ptx::load_matrices_transposed(bytes, v + k * 16 * S::kRow);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const uint32_t first = unsigned_bytes(bytes[2 * i]), second = unsigned_bytes(bytes[2 * i + 1]);
          const uint32_t values[4] = {half_pair<0, 2>(first), half_pair<1, 3>(first), half_pair<0, 2>(second),
                                      half_pair<1, 3>(second)};
          uint32_t weights[4];
          ptx::load_matrices(weights, p + (k + i) * 16);
          ptx::mma_f16(o_[m][0], values, weights[0], weights[1]);
          if (wide()) ptx::mma_f16(o_[m][1], values, weights[2], weights[3]);
        }
      }
    }
  }

  /// A thread's chunk is fixed, its key advances by kStep, which leaves the permutation as it is.
  __device__ void load(float16* block, float16* const* places, std::size_t offset, int keys,
                       int skipped) const {
    const int chunk = threadIdx.x % S::kChunks, first = threadIdx.x / S::kChunks;
    float16* to = block + chunk_at<S::kChunks>(first, chunk);
    offset += chunk * 8;
#pragma unroll 4
    for (int key = first; key < kKeys; key += S::kStep, to += S::kStep * S::kRow)
      if (key != skipped) ptx::async_copy16(to, places[key] + offset, key < keys);
  }

  const AttentionArgs& a_;
  const int rows_;
  float16 *k_, *v_, *q_, *weights_;
  float* scores_;
  float4* scales_;  // int8, of this block and the next: of a key and its value, and two numbers of no use
  float o_[S::kDimTiles][2][4] = {};
  float largest_ = -INFINITY, total_ = 0.f;  // of this warp's head; of this lane's keys
};

}  // namespace carat::cuda
