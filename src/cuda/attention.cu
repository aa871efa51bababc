// context = softmax(q K^T) V over paged float16 keys and values, on the tensor cores, for every head size and
// any mix of prompt and decode rows.
//
// A CTA owns a tile of query rows: neighbouring tokens of one segment times the heads that share one kv head,
// so keys and values are read once for all of them. It walks over blocks of 64 or 128 keys with a running
// maximum (Milakov and Gimelshein 2018; Dao et al. 2022). Its warps split the keys of q K^T and the head
// dimensions of P V, so that a head of 512 fits the registers. Long contexts with few rows are split over
// CTAs; a second kernel joins the parts in order.
#include <algorithm>

#include "cuda/attention_tile.h"
#include "cuda/kv_address.h"
#include "cuda/launch.h"
#include "cuda/math.h"
#include "cuda/ptx.h"

namespace carat::cuda {
namespace {

constexpr int kMostSplits = kMostAttentionSplits;
constexpr int kJoinThreads = 256;

template <int kHeadDim, int kRows>
struct Shape {
  static constexpr int kKeys = attention_keys(kHeadDim, kRows);
  static constexpr int kRowTiles = kRows / 16;
  static constexpr int kColumnWarps = std::min(kHeadDim / 8, kRows == 16 ? 8 : 2);
  static constexpr int kThreads = 32 * kRowTiles * kColumnWarps;
  static constexpr int kKeyTiles = kKeys / kColumnWarps / 8;     // of one warp's share of q K^T
  static constexpr int kDimTiles = kHeadDim / kColumnWarps / 8;  // of one warp's share of P V
  static constexpr int kChunks = kHeadDim / 8;
  static constexpr int kSharedBytes = attention_shared_bytes(kHeadDim, kRows);
};

/// Element offset of a 16-byte chunk in rows of `kChunks` chunks, permuted against bank conflicts.
template <int kChunks>
__device__ inline int chunk_at(int row, int chunk) {
  return (row * kChunks + (chunk ^ (row & (std::min(kChunks, 8) - 1)))) * 8;
}

template <int kHeadDim, int kRows>
class Tile {
  using S = Shape<kHeadDim, kRows>;
  static constexpr int kKeys = S::kKeys;

 public:
  __device__ Tile(const AttentionArgs& a, const AttentionTile& tile, float16* shared)
      : a_(a),
        tile_(tile),
        q_(shared),
        k_(q_ + kRows * kHeadDim),
        v_(k_ + kKeys * kHeadDim),
        p_(v_ + kKeys * kHeadDim),
        group_(a.heads / a.kv.kv_heads) {}

  __device__ void load_queries() {
    for (int i = threadIdx.x; i < kRows * S::kChunks; i += S::kThreads) {
      const int row = i / S::kChunks, chunk = i % S::kChunks;
      const bool valid = row < tile_.count * group_;
      const std::size_t head = valid ? row_head(a_, tile_, row, group_) : 0;
      ptx::async_copy16(q_ + chunk_at<S::kChunks>(row, chunk), a_.q + head * kHeadDim + chunk * 8, valid);
    }
  }
  /// Looks up where the keys of a block lie: one table access each, instead of one per 16 bytes.
  __device__ void find_keys(const float16** places, int first, int last) const {
    for (int i = threadIdx.x; i < kKeys; i += S::kThreads)
      places[i] = kv_address(a_.kv, a_.tables, tile_.sequence, min(first + i, last - 1), blockIdx.y);
  }
  __device__ void load_keys(const float16* const* places, int keys) { load_block(k_, places, 0, keys); }
  __device__ void load_values(const float16* const* places, int keys) {
    load_block(v_, places, a_.kv.value_offset, keys);
  }

  /// Scores of this warp's keys, masked, and the largest of each of the lane's two rows.
  __device__ void score(int first_key, int last_key) {
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
  __device__ void weigh(const float* scratch) {
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
        const float first = exp2f((s_[n][2 * half] - base) * kLog2e);
        const float second = exp2f((s_[n][2 * half + 1] - base) * kLog2e);
        l_[half] += first + second;
        const int column = column_warp() * S::kKeyTiles * 8 + n * 8 + lane() % 4 * 2;
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

  __device__ void load_block(float16* to, const float16* const* places, std::size_t offset, int keys) {
#pragma unroll 8
    for (int i = threadIdx.x; i < kKeys * S::kChunks; i += S::kThreads) {
      const int key = i / S::kChunks, chunk = i % S::kChunks;
      ptx::async_copy16(to + chunk_at<S::kChunks>(key, chunk), places[key] + offset + chunk * 8, key < keys);
    }
  }

  const AttentionArgs& a_;
  const AttentionTile& tile_;
  float16 *q_, *k_, *v_, *p_;
  int group_;  // query heads per kv head
  float s_[S::kKeyTiles][4];
  float o_[S::kDimTiles][4] = {};
  float largest_[2], m_[2] = {-INFINITY, -INFINITY}, l_[2] = {0.f, 0.f};
};

template <int kHeadDim, int kRows>
__global__ void __launch_bounds__((Shape<kHeadDim, kRows>::kThreads))
    attention_kernel(AttentionArgs a, int splits) {
  constexpr int kKeys = Shape<kHeadDim, kRows>::kKeys;
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ float scratch[Shape<kHeadDim, kRows>::kColumnWarps * kRows];
  __shared__ const float16* places[2][kKeys];  // of this block and the next
  ptx::launch_dependents();
  const AttentionTile rows = a.tiles[blockIdx.x];
  const KeyRange keys = key_range<kKeys>(rows, a.window, blockIdx.z, splits);
  Tile<kHeadDim, kRows> tile(a, rows, reinterpret_cast<float16*>(shared));
  if (keys.first < keys.last) tile.find_keys(places[0], keys.first, keys.last);
  __syncthreads();
  ptx::wait_for_dependencies();
  if (keys.first < keys.last) {
    tile.load_queries();
    tile.load_keys(places[0], keys.last - keys.first);
    ptx::async_commit();
    tile.load_values(places[0], keys.last - keys.first);
    ptx::async_commit();
  }
  for (int key = keys.first, block = 0; key < keys.last; key += kKeys, block ^= 1) {
    const int next = key + kKeys, left = keys.last - next;
    if (left > 0) tile.find_keys(places[block ^ 1], next, keys.last);
    ptx::async_wait<1>();
    __syncthreads();  // queries and keys have landed
    tile.score(key, keys.last);
    tile.publish_largest(scratch);
    __syncthreads();  // maxima are visible, keys no longer read
    if (left > 0) tile.load_keys(places[block ^ 1], left);
    ptx::async_commit();
    tile.weigh(scratch);
    ptx::async_wait<1>();
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

// One CTA per (head, row): context = sum of parts, each weighed by exp(its maximum - the largest one).
__global__ void __launch_bounds__(kJoinThreads) join_kernel(AttentionArgs a, int splits) {
  __shared__ float weights[kMostSplits];
  __shared__ float scratch[kJoinThreads / 32];
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  const int d = a.kv.head_dim, split = threadIdx.x;
  const std::size_t head = static_cast<std::size_t>(blockIdx.y) * a.heads + blockIdx.x, stride = d + 2;
  const float* parts = a.partial.data + head * splits * stride;
  const float mine = split < splits ? parts[split * stride + d] : -INFINITY;
  float largest = mine;
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2)
    largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, offset));
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = largest;
  __syncthreads();
  for (int w = 0; w < kJoinThreads / 32; ++w) largest = fmaxf(largest, scratch[w]);
  __syncthreads();
  const float weight = split < splits ? exp2f((mine - largest) * kLog2e) : 0.f;
  if (split < splits) weights[split] = weight;
  const float sum =
      block_sum<kJoinThreads>(split < splits ? weight * parts[split * stride + d + 1] : 0.f, scratch);
  for (int i = threadIdx.x; i < d; i += kJoinThreads) {
    float v = 0.f;
#pragma unroll 16
    for (int s = 0; s < splits; ++s) {
      const float part = parts[s * stride + i];
      if (weights[s] > 0.f) v += part * weights[s];  // a split without keys left nothing
    }
    if (a.context32) {
      a.context32[head * d + i] = v / sum;
    } else {
      store_split(a.context.hi, a.context.lo, head * d + i, v / sum);
    }
  }
}

template <int kHeadDim, int kRows>
void launch_attention(Queue& queue, const AttentionArgs& a, int splits) {
  using S = Shape<kHeadDim, kRows>;
  launch(queue, attention_kernel<kHeadDim, kRows>, dim3(a.tile_count, a.kv.kv_heads, splits), S::kThreads,
         S::kSharedBytes, a, splits);
}

template <int kRows>
void dispatch(Queue& queue, const AttentionArgs& a, int splits) {
  switch (a.kv.head_dim) {
    case 16:
      return launch_attention<16, kRows>(queue, a, splits);
    case 32:
      return launch_attention<32, kRows>(queue, a, splits);
    case 64:
      return launch_attention<64, kRows>(queue, a, splits);
    case 128:
      return launch_attention<128, kRows>(queue, a, splits);
    case 256:
      return launch_attention<256, kRows>(queue, a, splits);
    case 512:
      return launch_attention<512, kRows>(queue, a, splits);
    default:
      queue.status = cudaErrorInvalidValue;  // refused when the runner was made
  }
}

}  // namespace

int attention_splits(int tile_count, int kv_heads, int sm_count, int most) {
  return std::clamp(2 * sm_count / std::max(1, tile_count * kv_heads), 1, std::min(most, kMostSplits));
}

void attention(Queue& queue, const AttentionArgs& args) {
  const int splits = attention_splits(args.tile_count, args.kv.kv_heads, queue.sm_count, args.most_splits);
  if (args.tile_rows == 16) {
    dispatch<16>(queue, args, splits);
  } else if (!hopper_attention(queue, args, splits)) {
    dispatch<64>(queue, args, splits);
  }
  if (splits > 1) launch(queue, join_kernel, dim3(args.heads, args.rows), kJoinThreads, 0, args, splits);
}

}  // namespace carat::cuda
