// Attention of prompts on Hopper: tiles of 64 query rows, blocks of 64 keys, all products by
// warpgroups.
//
// One warpgroup has all scores of a block and up to 256 dimensions of the context in registers; heads of 512
// take two, which both compute the scores rather than exchange them. Weights go from the scores' registers to
// the next product without touching shared memory. Queries, keys and values lie there in blocks of 64
// dimensions, rows of 128 bytes permuted as the tensor cores expect.
#include "cuda/attention_tile.h"
#include "cuda/kv_int8.h"
#include "cuda/launch.h"
#include "cuda/ptx.h"

namespace carat::cuda {
namespace {

constexpr int kRows = 64, kKeys = 64;
constexpr int kPartDims = 128;  // of the context, per product

template <int kHeadDim, bool kInt8>
struct Shape {
  static constexpr int kGroups = kHeadDim > 256 ? 2 : 1, kThreads = 128 * kGroups;
  static constexpr int kResident = kHeadDim > 256 ? 1 : 2;  // CTAs of a multiprocessor
  static constexpr int kAlignment = 1024;
  static constexpr int kScaleBytes = kInt8 ? 2 * kKeys * 16 : 0;
  static constexpr int kSharedBytes = (kRows + 2 * kKeys) * kHeadDim * 2 + kScaleBytes + kAlignment;
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

constexpr int kBlockDims = 64, kBlockElements = 64 * kBlockDims;

/// Element offset of a 16-byte chunk of a row.
__device__ inline int chunk_at(int row, int chunk) {
  return chunk / 8 * kBlockElements + row * kBlockDims + ((chunk % 8) ^ (row % 8)) * 8;
}

/// int8 keys and values become float16 in shared memory.
template <int kHeadDim, bool kInt8>
class PromptTile {
  using S = Shape<kHeadDim, kInt8>;
  using Int8 = WidenedBlock<kKeys, kHeadDim, S::kThreads>;
  static constexpr int kParts = kHeadDim / S::kGroups / kPartDims, kChunks = kHeadDim / 8;

 public:
  __device__ PromptTile(const AttentionArgs& a, const AttentionTile& tile, float16* shared)
      : a_(a),
        tile_(tile),
        q_(shared),
        k_(q_ + kRows * kHeadDim),
        v_(k_ + kKeys * kHeadDim),
        scales_(reinterpret_cast<float4*>(v_ + kKeys * kHeadDim)),
        group_(a.heads / a.kv.kv_heads) {
#pragma unroll
    for (int half = 0; half < 2; ++half) position_[half] = row_position(tile, row(half), group_);
  }

  __device__ void load_queries() {
#pragma unroll 4
    for (int i = threadIdx.x; i < kRows * kChunks; i += S::kThreads) {
      const int r = i / kChunks, chunk = i % kChunks;
      const bool valid = r < tile_.count * group_;
      const std::size_t head = valid ? row_head(a_, tile_, r, group_) : 0;
      ptx::async_copy16(q_ + chunk_at(r, chunk), a_.q + head * kHeadDim + chunk * 8, valid);
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

  /// s = q K^T; returns when the keys are no longer read.
  __device__ void score() {
#pragma unroll
    for (float& s : s_) s = 0.f;
    const uint64_t q = ptx::swizzled_matrix(q_), k = ptx::swizzled_matrix(k_);
    constexpr int kUnit = 16;  // bytes, of addresses in descriptors
    ptx::warpgroup_fence();
#pragma unroll
    for (int step = 0; step < kHeadDim / 16; ++step) {
      const int at = step / 4 * (kBlockElements * 2 / kUnit) + step % 4 * 2;
      ptx::warpgroup_mma_f16(s_, q + at, k + at);
    }
    ptx::warpgroup_commit();
    ptx::warpgroup_wait<0>();
  }

  /// Turns scores into weights against the new running maximum and rescales what has been summed so far.
  __device__ void weigh(int block, int first_key, int last_key) {
    const bool all_visible = first_key + kKeys <= min(last_key, tile_.position + 1) &&
                             (a_.window == 0 || first_key > tile_.position + tile_.count - 1 - a_.window);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int oldest = a_.window > 0 ? position_[half] - a_.window + 1 : 0;
      float largest = m_[half];
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          float& score = s_[n * 4 + 2 * half + c];
          const int key = first_key + n * 8 + static_cast<int>(threadIdx.x) % 4 * 2 + c;
          if constexpr (kInt8) score *= scales_[block * kKeys + key - first_key].x;
          if (!all_visible && (key > position_[half] || key < oldest || key >= last_key)) score = -INFINITY;
          largest = fmaxf(largest, score);
        }
      largest = quad_max(largest);
      const float base = largest == -INFINITY ? 0.f : largest * kLog2e;  // a row may have seen no key yet
      const float rescale = exp2f(m_[half] * kLog2e - base);
      m_[half] = largest;
      l_[half] *= rescale;
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          float& score = s_[n * 4 + 2 * half + c];
          score = exp2f(score * kLog2e - base);
          l_[half] += score;
          if constexpr (kInt8)
            score *= scales_[block * kKeys + n * 8 + static_cast<int>(threadIdx.x) % 4 * 2 + c].y;
        }
#pragma unroll
      for (int part = 0; part < kParts; ++part)
#pragma unroll
        for (int n = 0; n < kPartDims / 8; ++n) {
          o_[part][n * 4 + 2 * half] *= rescale;
          o_[part][n * 4 + 2 * half + 1] *= rescale;
        }
    }
  }

  /// o += P V; returns when the values are no longer read.
  __device__ void add_values() {
    uint32_t p[kKeys / 16][4];
#pragma unroll
    for (int step = 0; step < kKeys / 16; ++step)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        p[step][i] = bits(__floats2half2_rn(s_[step * 8 + 2 * i], s_[step * 8 + 2 * i + 1]));
    constexpr uint64_t kBlockBytes = kBlockElements * 2;
    const int first_block = static_cast<int>(threadIdx.x) / 128 * kParts * (kPartDims / kBlockDims);
    ptx::warpgroup_fence();
#pragma unroll
    for (int step = 0; step < kKeys / 16; ++step)
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        const float16* from =
            v_ + (first_block + part * (kPartDims / kBlockDims)) * kBlockElements + step * 16 * kBlockDims;
        ptx::warpgroup_mma_f16(o_[part], p[step], ptx::swizzled_columns(from, kBlockBytes));
      }
    ptx::warpgroup_commit();
    ptx::warpgroup_wait<0>();
  }

  /// Writes the context, or one part of it with its maximum and sum.
  __device__ void store(int split, int splits) {
    const int first_dim =
        static_cast<int>(threadIdx.x) / 128 * kParts * kPartDims + static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float sum = quad_sum(l_[half]);
      if (row(half) >= tile_.count * group_) continue;
      const std::size_t head = row_head(a_, tile_, row(half), group_);
      float* parts = a_.partial.data + (head * splits + split) * (kHeadDim + 2);
#pragma unroll
      for (int part = 0; part < kParts; ++part)
#pragma unroll
        for (int n = 0; n < kPartDims / 8; ++n) {
          const int dim = first_dim + part * kPartDims + n * 8;
          const float x = o_[part][n * 4 + 2 * half], y = o_[part][n * 4 + 2 * half + 1];
          if (splits == 1) {
            store_split2(a_.context.hi, a_.context.lo, head * kHeadDim + dim, x / sum, y / sum);
          } else {
            parts[dim] = x;
            parts[dim + 1] = y;
          }
        }
      if (splits > 1 && threadIdx.x < 128 && threadIdx.x % 4 == 0) {
        parts[kHeadDim] = m_[half];
        parts[kHeadDim + 1] = sum;
      }
    }
  }

 private:
  __device__ static int row(int half) {
    return static_cast<int>(threadIdx.x) % 128 / 32 * 16 + static_cast<int>(threadIdx.x) % 32 / 4 + 8 * half;
  }

  __device__ void load_block(float16* to, const float16* const* places, std::size_t offset, int keys) {
    if constexpr (kInt8) {
      Int8::load(to, places, offset, keys);
    } else {
#pragma unroll 8
      for (int i = threadIdx.x; i < kKeys * kChunks; i += S::kThreads) {
        const int key = i / kChunks, chunk = i % kChunks;
        ptx::async_copy16(to + chunk_at(key, chunk), places[key] + offset + chunk * 8, key < keys);
      }
    }
  }

  __device__ static void widen(float16* block) {
    if constexpr (kInt8) Int8::widen(block, [](int key, int chunk) { return chunk_at(key, chunk); });
  }

  const AttentionArgs& a_;
  const AttentionTile& tile_;
  float16 *q_, *k_, *v_;
  float4* scales_;  // int8: of this block's keys and values, and of the next one's
  int group_;       // query heads per kv head
  int position_[2];
  float s_[kKeys / 2];
  float o_[kParts][kPartDims / 2] = {};
  float m_[2] = {-INFINITY, -INFINITY}, l_[2] = {0.f, 0.f};
};

#endif

template <int kHeadDim, bool kInt8>
__global__ void __launch_bounds__((Shape<kHeadDim, kInt8>::kThreads), (Shape<kHeadDim, kInt8>::kResident))
    prompt_attention_kernel(AttentionArgs a, int splits) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ unsigned char shared[];
  __shared__ const float16* places[2][kKeys];  // of this block and the next
  constexpr int kAlignment = Shape<kHeadDim, kInt8>::kAlignment;
  const uint32_t misaligned = ptx::shared_address(shared) % kAlignment;
  unsigned char* memory = shared + (misaligned == 0 ? 0 : kAlignment - misaligned);
  ptx::launch_dependents();
  const AttentionTile rows = a.tiles[blockIdx.x];
  const KeyRange keys = key_range<kKeys>(rows, a.window, blockIdx.z, splits);
  PromptTile<kHeadDim, kInt8> tile(a, rows, reinterpret_cast<float16*>(memory));
  if (keys.first < keys.last) tile.find_keys(places[0], keys.first, keys.last);
  __syncthreads();
  ptx::wait_for_dependencies();
  if (keys.first < keys.last) {
    tile.load_queries();
    tile.load_keys(places[0], 0, keys.last - keys.first);
    ptx::async_commit();
    tile.load_values(places[0], keys.last - keys.first);
    ptx::async_commit();
  }
  const auto arrived = [] {  // for all threads and the tensor cores
    ptx::fence_shared_writes();
    __syncthreads();
  };
  for (int key = keys.first, block = 0; key < keys.last; key += kKeys, block ^= 1) {
    const int next = key + kKeys, left = keys.last - next;
    if (left > 0) tile.find_keys(places[block ^ 1], next, keys.last);
    ptx::async_wait<1>();
    tile.widen_keys();
    arrived();
    tile.score();
    __syncthreads();
    if (left > 0) tile.load_keys(places[block ^ 1], block ^ 1, left);
    ptx::async_commit();
    tile.weigh(block, key, keys.last);
    ptx::async_wait<1>();
    tile.widen_values();
    arrived();
    tile.add_values();
    __syncthreads();
    if (left > 0) tile.load_values(places[block ^ 1], left);
    ptx::async_commit();
  }
  tile.store(blockIdx.z, splits);
#endif
}

}  // namespace

bool hopper_attention(Queue& queue, const AttentionArgs& args, int splits) {
  if (!queue.warpgroups || args.tile_rows != kRows || args.kv.head_dim < kPartDims) return false;
  with_head_dim(queue, args.kv, [&](auto head_dim, auto int8) {
    if constexpr (head_dim >= kPartDims) {
      using S = Shape<head_dim, int8>;
      launch(queue, prompt_attention_kernel<head_dim, int8>, dim3(args.tile_count, args.kv.kv_heads, splits),
             S::kThreads, S::kSharedBytes, args, splits);
    }
  });
  return true;
}

}  // namespace carat::cuda
