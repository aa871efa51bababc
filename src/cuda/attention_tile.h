// What the attention kernels share: which keys a CTA reads, where its query rows lie, head sizes. Included by
// .cu files only.
#pragma once
#include <type_traits>

#include "cuda/kernels.h"
#include "cuda/kv_address.h"
#include "cuda/math.h"

namespace carat::cuda {

inline constexpr float kLog2e = 1.4426950408889634f;

/// The keys of one tile that one CTA reads: [first, last).
struct KeyRange {
  int first, last;
};

/// `split` of `splits`, in blocks of kKeys keys.
template <int kKeys>
__device__ inline KeyRange key_range(const AttentionTile& tile, int window, int split, int splits) {
  const int begin = window > 0 ? max(0, tile.position - window + 1) : 0, end = tile.position + tile.count;
  const int blocks = (end - begin + kKeys - 1) / kKeys, per_split = (blocks + splits - 1) / splits;
  const int first = begin + split * per_split * kKeys;
  return {first, min(end, first + per_split * kKeys)};
}

/// Row `row` of a tile is query head `row % group` of the kv head's group, of token `row / group`. Returns
/// its number among [rows, heads].
__device__ inline std::size_t row_head(const AttentionArgs& a, const AttentionTile& tile, int row,
                                       int group) {
  return static_cast<std::size_t>(tile.first_row + row / group) * a.heads + blockIdx.y * group + row % group;
}

__device__ inline int row_position(const AttentionTile& tile, int row, int group) {
  return tile.position + min(row, tile.count * group - 1) / group;
}

/// Looks up where the keys of a block lie: one table access each, instead of one per 16 bytes. Those behind
/// the last are the last.
template <bool kInt8, int kKeys, int kThreads>
__device__ inline void find_keys(const AttentionArgs& a, const AttentionTile& tile, const float16** places,
                                 int first, int last) {
  for (int i = threadIdx.x; i < kKeys; i += kThreads)
    places[i] = kv_address<kInt8>(a.kv, a.tables, tile.sequence, min(first + i, last - 1), blockIdx.y);
}

/// Over the four lanes that hold a row of an accumulator.
__device__ inline float quad_max(float v) {
  v = fmaxf(v, __shfl_xor_sync(kAllLanes, v, 1));
  return fmaxf(v, __shfl_xor_sync(kAllLanes, v, 2));
}
__device__ inline float quad_sum(float v) {
  v += __shfl_xor_sync(kAllLanes, v, 1);
  return v + __shfl_xor_sync(kAllLanes, v, 2);
}

/// Calls use() with the head size, and whether K and V are int8, as constants; the runner refuses other
/// sizes.
template <class Use>
void with_head_dim(Queue& queue, const KvLayer& kv, Use&& use) {
  const auto with_type = [&](auto head_dim) {
    if (kv.int8) return use(head_dim, std::true_type());
    use(head_dim, std::false_type());
  };
  switch (kv.head_dim) {
    case 16:
      return with_type(std::integral_constant<int, 16>());
    case 32:
      return with_type(std::integral_constant<int, 32>());
    case 64:
      return with_type(std::integral_constant<int, 64>());
    case 128:
      return with_type(std::integral_constant<int, 128>());
    case 256:
      return with_type(std::integral_constant<int, 256>());
    case 512:
      return with_type(std::integral_constant<int, 512>());
    default:
      queue.status = cudaErrorInvalidValue;
  }
}

/// attention() of raw q, k and v. Returns the number of parts it leaves to be joined.
int raw_attention(Queue& queue, const AttentionArgs& args, const RopeKvArgs& raw, int most_splits);
/// The contexts from the parts that `splits` CTAs each have left.
void join_attention(Queue& queue, const AttentionArgs& args, int splits);
/// Attention of tiles of 64 query rows on Hopper, of head sizes 128, 256 and 512; false for others.
bool hopper_attention(Queue& queue, const AttentionArgs& args, int splits);

}  // namespace carat::cuda
