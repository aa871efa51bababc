// Attention of steps in which every sequence takes one token, without rope_kv() in front: the tile's warps
// norm and rotate q, k and v themselves, while the keys of earlier tokens have been on their way since before
// the wait.
#include "cuda/attention_rows.h"
#include "cuda/raw_head.h"

namespace carat::cuda {
namespace {

/// The raw q, k and v of one row that belong to one kv head, shared out over the CTA's warps. Gains are read
/// before the wait; `turns` are the cosines and sines of the row's position.
template <int kHeadDim>
class RawRow {
  static constexpr int kVectors = raw_head_vectors(kHeadDim), kHalf = kHeadDim / 2, kTogether = 2;
  using Head = RawHead<kVectors>;

 public:
  __device__ RawRow(const RopeKvArgs& a, const float2* turns) : a_(a), turns_(turns) {
#pragma unroll
    for (int i = 0; i < kVectors; ++i)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const bool inside = Head::dim(i) < kHalf;
        const float4 one = make_float4(1.f, 1.f, 1.f, 1.f);
        q_gain_[i][h] = inside ? load4(a.q_norm + h * kHalf, Head::dim(i) / 4) : one;
        k_gain_[i][h] = inside && a.writes_kv ? load4(a.k_norm + h * kHalf, Head::dim(i) / 4) : one;
      }
  }

  /// Calls store(kind, query, first dimension, four values); of k and v only where `with_kv`.
  enum Kind { kQuery, kKey, kValue };
  template <class Store>
  __device__ void finish(int row, int kv_head, int group, bool with_kv, Store&& store) const {
    const int warp = threadIdx.x / 32, warps = blockDim.x / 32, jobs = group + (with_kv ? 2 : 0);
    const std::size_t base = static_cast<std::size_t>(row) * a_.width;
#pragma unroll 1
    for (int first = warp; first < jobs; first += kTogether * warps) {
      Head heads[kTogether];  // both are loaded before either is worked on
#pragma unroll
      for (int t = 0; t < kTogether; ++t) {
        const int job = first + t * warps;
        if (job < jobs) heads[t].load(a_.sums, base + slot(job, kv_head, group) * kHeadDim, kHalf);
      }
#pragma unroll 1
      for (int job = first; job < min(jobs, first + kTogether * warps); job += warps) {
        const Head head = job == first ? heads[0] : heads[1];
        const Kind kind = job < group ? kQuery : job == group ? kKey : kValue;
        const float4 one = make_float4(1.f, 1.f, 1.f, 1.f);
        head.finish(
            kHalf, a_.eps,
            [&](int i, int h) { return kind == kQuery ? q_gain_[i][h]
                                       : kind == kKey ? k_gain_[i][h]
                                                      : one; },
            [&](int i, int e) { return kind == kValue ? make_float2(1.f, 0.f) : turns_[Head::dim(i) + e]; },
            [&](int dim, const float4& v) { store(kind, job, dim, v); });
      }
    }
  }

 private:
  /// The number of a job's head among those of the row; where there is no v, it is the raw k.
  __device__ std::size_t slot(int job, int kv_head, int group) const {
    if (job < group) return static_cast<std::size_t>(kv_head * group + job);
    const int values = job > group && a_.has_v ? a_.kv.kv_heads : 0;
    return static_cast<std::size_t>(a_.heads + values + kv_head);
  }

  const RopeKvArgs& a_;
  const float2* turns_;
  float4 q_gain_[kVectors][2], k_gain_[kVectors][2];
};

/// Tiles of one token each, from raw q, k and v. All keys but the token's own have been in the pages since
/// earlier steps.
template <int kHeadDim>
__global__ void __launch_bounds__((TileShape<kHeadDim, kRawTileRows>::kThreads))
    raw_attention_kernel(const __grid_constant__ AttentionArgs a, const __grid_constant__ RopeKvArgs raw,
                         int splits) {
  constexpr int kRows = kRawTileRows, kKeys = TileShape<kHeadDim, kRows>::kKeys;
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ float scratch[TileShape<kHeadDim, kRows>::kColumnWarps * kRows];
  __shared__ Places<kHeadDim, kRows> places;
  __shared__ float2 turns[kHeadDim / 2];
  ptx::launch_dependents();
  const AttentionTile rows = a.tiles[blockIdx.x];
  const KeyRange keys = key_range<kKeys>(rows, a.window, blockIdx.z, splits);
  const int position = rows.position, own = position - keys.first;  // the token's key, within the range
  const int kv_head = blockIdx.y, group = a.heads / a.kv.kv_heads;
  Tile<kHeadDim, kRows> tile(a, rows, reinterpret_cast<float16*>(shared));
  const bool any = keys.first < keys.last, has_own = any && position < keys.last;
  if (any) tile.find_keys(places[0], keys.first, keys.last);
  __syncthreads();
  if (any) {
    tile.clear_queries();
    tile.load_keys(places[0], keys.last - keys.first, has_own ? own : -1);
    tile.load_values(places[0], keys.last - keys.first, has_own ? own : -1);
  }
  const RawRow<kHeadDim> row(raw, turns);
#pragma unroll 1
  for (int j = threadIdx.x; j < kHeadDim / 2; j += blockDim.x)
    turns[j] = turn_of(raw, j, static_cast<float>(position));
  float16* const own_place = has_own ? kv_address(a.kv, a.tables, rows.sequence, position, kv_head) : nullptr;
  __syncthreads();  // turns are visible
  ptx::wait_for_dependencies();
  const bool appends = has_own && raw.writes_kv, own_first = has_own && own < kKeys;
  row.finish(rows.first_row, kv_head, group, appends, [&](auto kind, int query, int dim, const float4& v) {
    if (kind == RawRow<kHeadDim>::kQuery) {
      store_halves(tile.query_at(query, dim), nullptr, v);
      return;
    }
    const bool is_key = kind == RawRow<kHeadDim>::kKey;
    float16* page = own_place + (is_key ? 0 : a.kv.value_offset) + dim;
    store_halves(page, page + a.kv.low_offset, v);
    if (own_first) store_halves(is_key ? tile.key_at(own, dim) : tile.value_at(own, dim), nullptr, v);
  });
  if (own_first && !appends) tile.load_one(own_place, own);
  ptx::async_commit();
  ptx::async_wait<0>();
  walk<kHeadDim, kRows>(tile, places, scratch, keys, splits);
}

}  // namespace

void raw_attention(Queue& queue, const AttentionArgs& args, const RopeKvArgs& raw, int splits) {
  with_head_dim(queue, args.kv.head_dim, [&](auto head_dim) {
    using S = TileShape<head_dim, kRawTileRows>;
    launch(queue, raw_attention_kernel<head_dim>, dim3(args.tile_count, args.kv.kv_heads, splits),
           S::kThreads, S::kSharedBytes, args, raw, splits);
  });
}

}  // namespace carat::cuda
