// A tile of 16 or 64 query rows of attention on any GPU: scores, softmax and context of block after block of
// keys. Included by attention.cu, and by attention_raw.cu for chunk_at().
#pragma once
#include <algorithm>

#include "cuda/attention_tile.h"
#include "cuda/kv_int8.h"
#include "cuda/launch.h"
#include "cuda/math.h"
#include "cuda/ptx.h"

namespace carat::cuda {

/// Blocks of kBlockKeys keys. int8 keys and values become float16 in shared memory.
template <int kHeadDim, int kRows, bool kInt8, int kBlockKeys>
struct TileShape {
  static constexpr int kKeys = kBlockKeys;
  static constexpr int kRowTiles = kRows / 16;
  static constexpr int kColumnWarps = std::min({kHeadDim / 8, kKeys / 8, kRows == 16 ? 8 : 2});
  static constexpr int kThreads = 32 * kRowTiles * kColumnWarps;
  static constexpr int kKeyTiles = kKeys / kColumnWarps / 8;     // of one warp's share of q K^T
  static constexpr int kDimTiles = kHeadDim / kColumnWarps / 8;  // of one warp's share of P V
  static constexpr int kChunks = kHeadDim / 8;
  static constexpr int kDynamicBytes = attention_dynamic_bytes(kHeadDim, kRows, kKeys, kInt8);
  static constexpr int kSharedBytes = attention_shared_bytes(kHeadDim, kRows, kKeys, kInt8);
};

/// Element offset of a 16-byte chunk in rows of `kChunks` chunks, permuted against bank conflicts.
template <int kChunks>
__device__ inline int chunk_at(int row, int chunk) {
  return (row * kChunks + (chunk ^ (row & (std::min(kChunks, 8) - 1)))) * 8;
}

template <int kHeadDim, int kRows, bool kInt8, int kKeys>
class Tile {
  using S = TileShape<kHeadDim, kRows, kInt8, kKeys>;
  using Int8 = WidenedBlock<kKeys, kHeadDim, S::kThreads>;

 public:
  __device__ Tile(const AttentionArgs& a, const AttentionTile& tile, float16* shared)
      : a_(a),
        tile_(tile),
        q_(shared),
        k_(q_ + kRows * kHeadDim),
        v_(k_ + kKeys * kHeadDim),
        p_(v_ + kKeys * kHeadDim),
        scales_(reinterpret_cast<float4*>(p_ + kRows * kKeys)),
        group_(a.heads / a.kv.kv_heads) {}

  __device__ void load_queries() {
    for (int i = threadIdx.x; i < kRows * S::kChunks; i += S::kThreads) {
      const int row = i / S::kChunks, chunk = i % S::kChunks;
      const bool valid = row < tile_.count * group_;
      const std::size_t head = valid ? row_head(a_, tile_, row, group_) : 0;
      ptx::async_copy16(q_ + chunk_at<S::kChunks>(row, chunk), a_.q + head * kHeadDim + chunk * 8, valid);
    }
  }
  __device__ void find_keys(const float16** places, int first, int last) const {
    cuda::find_keys<kInt8, kKeys, S::kThreads>(a_, tile_, places, first, last);
  }
  /// With the scales of int8; `block` is 0 and 1 in turn.
  __device__ void load_keys(const float16* const* places, int block, int keys) {
    load_block(k_, places, 0, keys);
    if constexpr (kInt8) Int8::load_scales(scales_ + block * kKeys, places, keys);
  }
  __device__ void load_values(const float16* const* places, int keys) {
    load_block(v_, places, a_.kv.value_offset, keys);
  }
  /// Before the barrier behind which keys, or values, are read.
  __device__ void widen_keys() { widen(k_); }
  __device__ void widen_values() { widen(v_); }

  /// Scores of this warp's keys, masked, and the largest of each of the lane's two rows.
  __device__ void score(int block, int first_key, int last_key) {
#pragma unroll
    for (int n = 0; n < S::kKeyTiles; ++n)
#pragma unroll
      for (int c = 0; c < 4; ++c) s_[n][c] = 0.f;
    const int key0 = column_warp() * S::kKeyTiles * 8;
    const auto load_query = [&](uint32_t(&q)[4], int k) {
      ptx::load_matrices(q, q_ + chunk_at<S::kChunks>(row0() + lane() % 16, 2 * k + lane() / 16));
    };
    if constexpr (S::kKeyTiles == 1) {  // one load brings eight keys for two steps
#pragma unroll 4
      for (int k = 0; k < kHeadDim / 16; k += 2) {
        uint32_t first[4], second[4], keys[4];
        load_query(first, k);
        load_query(second, k + 1);
        ptx::load_matrices(keys, k_ + chunk_at<S::kChunks>(key0 + lane() % 8, 2 * k + lane() / 8));
        ptx::mma_f16(s_[0], first, keys[0], keys[1]);
        ptx::mma_f16(s_[0], second, keys[2], keys[3]);
      }
    } else {
#pragma unroll 4
      for (int k = 0; k < kHeadDim / 16; ++k) {
        uint32_t q[4];
        load_query(q, k);
#pragma unroll
        for (int n = 0; n < S::kKeyTiles; n += 2) {
          uint32_t keys[4];
          const int row = key0 + n * 8 + lane() % 8 + lane() / 16 * 8;
          ptx::load_matrices(keys, k_ + chunk_at<S::kChunks>(row, 2 * k + lane() / 8 % 2));
          ptx::mma_f16(s_[n], q, keys[0], keys[1]);
          ptx::mma_f16(s_[n + 1], q, keys[2], keys[3]);
        }
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int position = row_position(tile_, row0() + lane() / 4 + 8 * half, group_);
      const int oldest = a_.window > 0 ? position - a_.window + 1 : 0;
      float largest = -INFINITY;
#pragma unroll
      for (int n = 0; n < S::kKeyTiles; ++n)
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          const int key = first_key + key0 + n * 8 + lane() % 4 * 2 + c;
          float& score = s_[n][2 * half + c];
          if constexpr (kInt8) score *= scales_[block * kKeys + key - first_key].x;
          if (key > position || key < oldest || key >= last_key) score = -INFINITY;
          largest = fmaxf(largest, score);
        }
      largest_[half] = quad_max(largest);
    }
  }

  /// One value per row and column warp, for block-wide maxima and sums.
  __device__ void publish(float* scratch, const float (&value)[2]) const {
    if (lane() % 4 == 0) {
      scratch[column_warp() * kRows + row0() + lane() / 4] = value[0];
      scratch[column_warp() * kRows + row0() + lane() / 4 + 8] = value[1];
    }
  }
  __device__ void publish_largest(float* scratch) const { publish(scratch, largest_); }

  /// Turns scores into weights against the new running maximum and rescales what has been summed so far.
  __device__ void weigh(int block, const float* scratch) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = row0() + lane() / 4 + 8 * half;
      float largest = m_[half];
      for (int w = 0; w < S::kColumnWarps; ++w) largest = fmaxf(largest, scratch[w * kRows + row]);
      const float base = largest == -INFINITY ? 0.f : largest;  // a row may have seen no key yet
      const float rescale = exp2f((m_[half] - base) * kLog2e);
      m_[half] = largest;
      l_[half] *= rescale;
#pragma unroll
      for (int n = 0; n < S::kDimTiles; ++n) {
        o_[n][2 * half] *= rescale;
        o_[n][2 * half + 1] *= rescale;
      }
#pragma unroll
      for (int n = 0; n < S::kKeyTiles; ++n) {
        float first = exp2f((s_[n][2 * half] - base) * kLog2e);
        float second = exp2f((s_[n][2 * half + 1] - base) * kLog2e);
        l_[half] += first + second;
        const int column = column_warp() * S::kKeyTiles * 8 + n * 8 + lane() % 4 * 2;
        if constexpr (kInt8) {
          first *= scales_[block * kKeys + column].y;
          second *= scales_[block * kKeys + column + 1].y;
        }
        *reinterpret_cast<__half2*>(p_ + chunk_at<kKeys / 8>(row, column / 8) + column % 8) =
            __floats2half2_rn(first, second);
      }
    }
  }

  __device__ void add_values() {
    const int chunk0 = column_warp() * S::kDimTiles;
#pragma unroll
    for (int k = 0; k < kKeys / 16; ++k) {
      uint32_t p[4];
      ptx::load_matrices(p, p_ + chunk_at<kKeys / 8>(row0() + lane() % 16, 2 * k + lane() / 16));
#pragma unroll
      for (int n = 0; n < S::kDimTiles; n += 2) {
        uint32_t values[4];
        const int key = k * 16 + lane() % 16, chunk = min(chunk0 + n + lane() / 16, S::kChunks - 1);
        ptx::load_matrices_transposed(values, v_ + chunk_at<S::kChunks>(key, chunk));
        ptx::mma_f16(o_[n], p, values[0], values[1]);
        if (n + 1 < S::kDimTiles) ptx::mma_f16(o_[n + 1 < S::kDimTiles ? n + 1 : n], p, values[2], values[3]);
      }
    }
  }

  __device__ void publish_sums(float* scratch) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      l_[half] = quad_sum(l_[half]);
    }
    publish(scratch, l_);
  }

  /// Writes the context, or one part of it with its maximum and sum.
  __device__ void store(const float* scratch, int split, int splits) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = row0() + lane() / 4 + 8 * half;
      if (row >= tile_.count * group_) continue;
      float sum = 0.f;
      for (int w = 0; w < S::kColumnWarps; ++w) sum += scratch[w * kRows + row];
      const std::size_t head = row_head(a_, tile_, row, group_);
      const int dim0 = column_warp() * S::kDimTiles * 8 + lane() % 4 * 2;
      float* part = a_.partial.data + (head * splits + split) * (kHeadDim + 2);
      for (int n = 0; n < S::kDimTiles; ++n)
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          const int dim = dim0 + n * 8 + c;
          if (splits == 1) {  // never the case for float32
            store_split(a_.context.hi, a_.context.lo, head * kHeadDim + dim, o_[n][2 * half + c] / sum);
          } else {
            part[dim] = o_[n][2 * half + c];
          }
        }
      if (splits > 1 && column_warp() == 0 && lane() % 4 == 0) {
        part[kHeadDim] = m_[half];
        part[kHeadDim + 1] = sum;
      }
    }
  }

 private:
  __device__ int lane() const { return threadIdx.x % 32; }
  __device__ int column_warp() const { return static_cast<int>(threadIdx.x) / 32 / S::kRowTiles; }
  __device__ int row0() const { return static_cast<int>(threadIdx.x) / 32 % S::kRowTiles * 16; }

  /// Zeros from `keys` on.
  __device__ void load_block(float16* to, const float16* const* places, std::size_t offset, int keys) {
    if constexpr (kInt8) {
      Int8::load(to, places, offset, keys);
    } else {
#pragma unroll 8
      for (int i = threadIdx.x; i < kKeys * S::kChunks; i += S::kThreads) {
        const int key = i / S::kChunks, chunk = i % S::kChunks;
        ptx::async_copy16(to + chunk_at<S::kChunks>(key, chunk), places[key] + offset + chunk * 8,
                          key < keys);
      }
    }
  }

  __device__ static void widen(float16* block) {
    if constexpr (kInt8)
      Int8::widen(block, [](int key, int chunk) { return chunk_at<S::kChunks>(key, chunk); });
  }

  const AttentionArgs& a_;
  const AttentionTile& tile_;
  float16 *q_, *k_, *v_, *p_;
  float4* scales_;  // int8: of this block's keys and values, and of the next one's
  int group_;       // query heads per kv head
  float s_[S::kKeyTiles][4];
  float o_[S::kDimTiles][4] = {};
  float largest_[2], m_[2] = {-INFINITY, -INFINITY}, l_[2] = {0.f, 0.f};
};

/// Where the keys of a block lie, of this one and the next.
template <int kKeys>
using Places = const float16* [2][kKeys];

/// All blocks of keys, of which the first is on its way or there; one part of the result.
template <int kHeadDim, int kRows, bool kInt8, int kKeys>
__device__ void walk(Tile<kHeadDim, kRows, kInt8, kKeys>& tile, Places<kKeys>& places, float* scratch,
                     const KeyRange& keys, int splits) {
  for (int key = keys.first, block = 0; key < keys.last; key += kKeys, block ^= 1) {
    const int next = key + kKeys, left = keys.last - next;
    if (left > 0) tile.find_keys(places[block ^ 1], next, keys.last);
    ptx::async_wait<1>();
    tile.widen_keys();
    __syncthreads();  // queries and keys have landed
    tile.score(block, key, keys.last);
    tile.publish_largest(scratch);
    __syncthreads();  // maxima are visible, keys no longer read
    if (left > 0) tile.load_keys(places[block ^ 1], block ^ 1, left);
    ptx::async_commit();
    tile.weigh(block, scratch);
    ptx::async_wait<1>();
    tile.widen_values();
    __syncthreads();  // weights are visible, values have landed
    tile.add_values();
    __syncthreads();  // values no longer read
    if (left > 0) tile.load_values(places[block ^ 1], left);
    ptx::async_commit();
  }
  tile.publish_sums(scratch);
  __syncthreads();
  tile.store(scratch, blockIdx.z, splits);
}

}  // namespace carat::cuda
