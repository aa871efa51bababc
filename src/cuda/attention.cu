// context = softmax(q K^T) V over paged float16 keys and values, on the tensor cores, for every head size and
// any mix of prompt and decode rows.
//
// A CTA owns a tile of query rows: neighbouring tokens of one segment times the heads that share one kv head,
// so keys and values are read once for all of them. It walks over blocks of 64 or 128 keys, fewer where
// shared memory is short, with a running maximum (Milakov and Gimelshein 2018; Dao et al. 2022). Its warps
// split the keys of q K^T and the head dimensions of P V, so that a head of 512 fits the registers. Long
// contexts with few rows are split over CTAs; a second kernel joins the parts in order.
#include <algorithm>

#include "cuda/attention_rows.h"

namespace carat::cuda {
namespace {

template <int kHeadDim, int kRows, bool kInt8, int kKeys>
__global__ void __launch_bounds__((TileShape<kHeadDim, kRows, kInt8, kKeys>::kThreads))
    attention_kernel(AttentionArgs a, int splits) {
  using S = TileShape<kHeadDim, kRows, kInt8, kKeys>;
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ float scratch[S::kColumnWarps * kRows];
  __shared__ Places<kKeys> places;
  static_assert(S::kDynamicBytes + sizeof scratch + sizeof places <= S::kSharedBytes);
  ptx::launch_dependents();
  const AttentionTile rows = a.tiles[blockIdx.x];
  const KeyRange keys = key_range<kKeys>(rows, a.window, blockIdx.z, splits);
  Tile<kHeadDim, kRows, kInt8, kKeys> tile(a, rows, reinterpret_cast<float16*>(shared));
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
  walk<kHeadDim, kRows, kInt8, kKeys>(tile, places, scratch, keys, splits);
}

/// With blocks of kKeys keys, or with the largest smaller ones that fit. There are kernels for those only
/// that some GPU needs.
template <int kHeadDim, int kRows, bool kInt8, int kKeys = attention_keys(kHeadDim, kRows)>
void launch_blocks(Queue& queue, const AttentionArgs& a, int splits) {
  using S = TileShape<kHeadDim, kRows, kInt8, kKeys>;
  if constexpr (S::kSharedBytes > kFewestSharedBytes) {
    constexpr int kFewer = kKeys / 2;
    constexpr bool kFewestFit = attention_fits(kHeadDim, kRows, kInt8, kFewestSharedBytes);
    if (S::kSharedBytes > queue.shared_bytes) {
      if constexpr (kFewer > kFewestAttentionKeys || kFewestFit) {
        launch_blocks<kHeadDim, kRows, kInt8, kFewer>(queue, a, splits);
      } else {
        queue.status = cudaErrorInvalidValue;
      }
      return;
    }
  }
  launch(queue, attention_kernel<kHeadDim, kRows, kInt8, kKeys>, dim3(a.tile_count, a.kv.kv_heads, splits),
         S::kThreads, S::kDynamicBytes, a, splits);
}

template <int kRows>
void launch_attention(Queue& queue, const AttentionArgs& a, int splits) {
  with_head_dim(queue, a.kv,
                [&](auto head_dim, auto int8) { launch_blocks<head_dim, kRows, int8>(queue, a, splits); });
}

}  // namespace

int attention_splits(int tile_count, int kv_heads, int sm_count, int most) {
  return std::clamp(2 * sm_count / std::max(1, tile_count * kv_heads), 1,
                    std::min(most, kMostAttentionSplits));
}

void attention(Queue& queue, const AttentionArgs& args, const RopeKvArgs* raw) {
  int splits = attention_splits(args.tile_count, args.kv.kv_heads, queue.sm_count, args.most_splits);
  if (raw) {
    splits = raw_attention(queue, args, *raw, splits);
  } else if (args.tile_rows == 16) {
    launch_attention<16>(queue, args, splits);
  } else if (!hopper_attention(queue, args, splits)) {
    launch_attention<64>(queue, args, splits);
  }
  if (splits > 1) join_attention(queue, args, splits);
}

}  // namespace carat::cuda
