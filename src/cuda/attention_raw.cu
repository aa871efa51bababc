// Attention of steps in which every sequence takes one token, without rope_kv() in front: the kernel norms
// and rotates q, k and v itself, while the keys of earlier tokens have been on their way since before the
// wait.
//
// A CTA owns the query heads of one row that share a kv head. It runs once, on few multiprocessors, so what
// counts is the length of the path through its code: the keys are the 16-row operand of the tensor cores and
// the heads the 8-column one, each warp takes a tile of keys and a slice of their dimensions, the softmax of
// a head is one warp's, and all sums leave through shared memory, four to a thread.
#include <algorithm>

#include "cuda/attention_raw_tile.h"
#include "cuda/kv_address.h"
#include "cuda/launch.h"
#include "cuda/math.h"
#include "cuda/ptx.h"
#include "cuda/raw_head.h"

namespace carat::cuda {
namespace {

/// Where the keys of a block lie, and behind them the row's own.
template <int kHeadDim, bool kInt8>
__device__ void find_keys(const AttentionArgs& a, const AttentionTile& row, float16** places, int first,
                          int last) {
  constexpr int kKeys = RawShape<kHeadDim, kInt8>::kKeys;
  const int i = threadIdx.x;
  if (i > kKeys) return;
  const int position = i == kKeys ? row.position : min(first + i, last - 1);
  places[i] = kv_address<kInt8>(a.kv, a.tables, row.sequence, position, blockIdx.y);
}

/// What a row needs besides its keys, read before the kernel waits.
template <int kHeadDim>
__device__ void prepare(const RopeKvArgs& raw, int position, RawConstants<kHeadDim>& c) {
  const int i = threadIdx.x;
  if (i < kHeadDim) {
    c.gains[0][i] = raw.q_norm[i];
    c.gains[1][i] = raw.writes_kv ? raw.k_norm[i] : 0.f;
    c.gains[2][i] = 1.f;
  }
  if (i >= kHeadDim / 2) return;
  c.turns[0][i] = turn_of(raw, i, static_cast<float>(position));
  c.turns[1][i] = make_float2(1.f, 0.f);
}

/// The norms and rotations of the row's heads, a warp each: queries and, with `page`, key and value too, into
/// the page and, from `own` >= 0 on, into the block.
template <int kHeadDim, bool kInt8>
__device__ void finish_heads(const RopeKvArgs& raw, const RawTile<kHeadDim, kInt8>& tile,
                             const RawConstants<kHeadDim>& c, int row, int group, float16* page, int own) {
  using S = RawShape<kHeadDim, kInt8>;
  constexpr int kVectors = raw_head_vectors(kHeadDim);
  using Head = RawHead<kVectors>;
  const int jobs = group + (page ? 2 : 0), kv_head = blockIdx.y;
#pragma unroll 1
  for (int job = threadIdx.x / 32; job < jobs; job += kRawWarps) {
    const int kind = max(0, job - group + 1);  // query, key, value
    int slot = kv_head * group + job;
    // Where there is no v, it is the raw k.
    if (kind > 0) slot = raw.heads + kv_head + (kind == 2 && raw.has_v ? raw.kv.kv_heads : 0);
    Head head;
    head.load(raw.sums, static_cast<std::size_t>(row) * raw.width + slot * kHeadDim, S::kHalf);
    const float* gains = c.gains[kind];
    const float2* turns = c.turns[kind / 2];
    const int to_row = kind == 0 ? job : own;
    float16* to = kind == 0 ? tile.query(to_row) : kind == 1 ? tile.key(to_row) : tile.value(to_row);
    const auto gain = [&](int i, int h) { return load4(gains + h * S::kHalf, Head::dim(i) / 4); };
    const auto turn = [&](int i, int e) { return turns[Head::dim(i) + e]; };
    if constexpr (kInt8) {
      if (kind == 0) {
        head.finish(S::kHalf, raw.eps, gain, turn,
                    [&](int dim, const float4& v) { tile.store_query(job, dim, v); });
        continue;
      }
      auto* const stored = reinterpret_cast<uint32_t*>(page + (kind == 2 ? raw.kv.value_offset : 0));
      auto* const block = reinterpret_cast<uint32_t*>(to);
      const int words = (own & (std::min(S::kChunks, 8) - 1)) * 4;  // of the permutation
      const float scale = head.finish_int8(S::kHalf, raw.eps, gain, turn, [&](int dim, uint32_t bytes) {
        stored[dim / 4] = bytes;
        if (own >= 0) block[dim / 4 ^ words] = bytes;
      });
      if (threadIdx.x % 32 != 0) continue;
      reinterpret_cast<float*>(page + kHeadDim)[kind - 1] = scale;
      if (own >= 0) tile.scales(0, own)[kind - 1] = scale;
      continue;
    }
    const int permutation = (to_row & (std::min(S::kChunks, 8) - 1)) * 8;
    float16* const high = page + (kind == 2 ? raw.kv.value_offset : 0);
    float16* const low = raw.kv.low_offset > 0 ? high + raw.kv.low_offset : nullptr;
    head.finish(S::kHalf, raw.eps, gain, turn, [&](int dim, const float4& v) {
      if (to_row >= 0) store_halves(to + (dim ^ permutation), nullptr, v);
      if (kind > 0) store_halves(high + dim, low ? low + dim : nullptr, v);
    });
  }
}

/// How the keys of a row are shared out: `splits` CTAs, a cluster when cluster_bits > 0, then splits is
/// 1 << cluster_bits.
struct RawSplits {
  int splits, cluster_bits;
};

/// What this CTA does.
struct RawPart {
  AttentionTile row;
  int split, first, count;  // keys: `count` from position `first` on
};

template <int kHeadDim>
__device__ RawPart part_of(const AttentionArgs& a, const RawSplits& s) {
  RawPart part;
  part.split = s.cluster_bits > 0 ? blockIdx.x & (s.splits - 1) : blockIdx.z;
  part.row = a.tiles[blockIdx.x >> s.cluster_bits];
  const int begin = a.window > 0 ? max(0, part.row.position - a.window + 1) : 0;
  const int end = part.row.position + 1;
  KeyRange keys{begin, end};
  if (s.cluster_bits > 0) {
    const int each = (((end - begin + s.splits - 1) >> s.cluster_bits) + 15) & ~15;  // whole tiles
    keys.first = min(begin + part.split * each, end);
    keys.last = min(keys.first + each, end);
  } else if (s.splits > 1) {
    keys = key_range<RawShape<kHeadDim, false>::kKeys>(part.row, a.window, part.split, s.splits);
  }
  part.first = keys.first;
  part.count = max(0, keys.last - keys.first);
  return part;
}

/// The contexts, or one part of them with its maximum and sum.
template <int kHeadDim>
__device__ void store(const AttentionArgs& a, const RawConstants<kHeadDim>& c, const float* sums,
                      int first_head, int group, int split, int splits) {
  constexpr int kVectors = kHeadDim / 4;
  float* const parts = a.partial.data + static_cast<std::size_t>(split) * (kHeadDim + 2);
  const std::size_t stride = static_cast<std::size_t>(splits) * (kHeadDim + 2);
#pragma unroll 1
  for (int i = threadIdx.x; i < group * kVectors; i += kRawThreads) {
    const int head = i / kVectors, dim = i % kVectors * 4;
    const float4 v = load4(sums + head * RawShape<kHeadDim, false>::kContextStride, i % kVectors);
    const std::size_t at = static_cast<std::size_t>(first_head + head);
    if (splits == 1) {
      const float by = __fdividef(1.f, c.parts[0][head].y);
      store_split4(a.context.hi, a.context.lo, at * kHeadDim + dim,
                   make_float4(v.x * by, v.y * by, v.z * by, v.w * by));
    } else {
      float2* to = reinterpret_cast<float2*>(parts + at * stride + dim);
      to[0] = make_float2(v.x, v.y);
      to[1] = make_float2(v.z, v.w);
    }
  }
  const int head = threadIdx.x;
  if (splits > 1 && head < group)
    *reinterpret_cast<float2*>(parts + (first_head + head) * stride + kHeadDim) = c.parts[0][head];
}

/// The parts of a cluster's CTAs become the contexts: each CTA sends the others what lies in their share of
/// the dimensions, then joins its own, in order. `joined` is [splits, group, share] in every CTA.
template <int kHeadDim>
__device__ void join_cluster(const AttentionArgs& a, RawConstants<kHeadDim>& c, const float* sums,
                             const float2& own, float4* joined, int first_head, int group, int split,
                             const RawSplits& s) {
  constexpr int kVectors = kHeadDim / 4;
  const int share_bits = __ffs(kVectors) - 1 - s.cluster_bits, share = 1 << share_bits;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  ptx::cluster_wait();  // all have started
#pragma unroll 1
  for (int i = threadIdx.x; i < group * kVectors; i += kRawThreads) {
    const int head = i / kVectors, vector = i % kVectors;
    const float4 v = load4(sums + head * RawShape<kHeadDim, false>::kContextStride, vector);
    const int at = ((split * group + head) << share_bits) + (vector & (share - 1));
    ptx::cluster_pointer(joined, vector >> share_bits)[at] = v;
  }
  if (warp < group && lane < s.splits) *ptx::cluster_pointer(&c.parts[split][warp], lane) = own;
  ptx::cluster_arrive();
  ptx::cluster_wait();
#pragma unroll 1
  for (int i = threadIdx.x; i < group << share_bits; i += kRawThreads) {
    const int head = i >> share_bits, vector = i & (share - 1);
    float largest = -INFINITY, total = 0.f;
    for (int r = 0; r < s.splits; ++r) largest = fmaxf(largest, c.parts[r][head].x);
    float4 v = make_float4(0.f, 0.f, 0.f, 0.f);
    for (int r = 0; r < s.splits; ++r) {
      const float2 part = c.parts[r][head];
      const float4 x = joined[((r * group + head) << share_bits) + vector];
      const float weight = exp2f((part.x - largest) * kLog2e);
      total += part.y * weight;
      v = make_float4(v.x + x.x * weight, v.y + x.y * weight, v.z + x.z * weight, v.w + x.w * weight);
    }
    const float by = __fdividef(1.f, total);
    store_split4(a.context.hi, a.context.lo,
                 static_cast<std::size_t>(first_head + head) * kHeadDim + (split * share + vector) * 4,
                 make_float4(v.x * by, v.y * by, v.z * by, v.w * by));
  }
}

/// The bounds leave the compiler 96 registers and a multiprocessor room for a CTA of the product in front:
/// only then do keys travel while that one multiplies.
template <int kHeadDim, bool kInt8>
__global__ void __launch_bounds__(kRawThreads + 128)
    raw_attention_kernel(const __grid_constant__ AttentionArgs a, const __grid_constant__ RopeKvArgs raw,
                         int group, int rows, RawSplits splits) {
  constexpr int kKeys = RawShape<kHeadDim, kInt8>::kKeys;
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ RawConstants<kHeadDim> c;
  ptx::launch_dependents();
  if (splits.cluster_bits > 0) ptx::cluster_arrive_relaxed();
  const RawPart part = part_of<kHeadDim>(a, splits);
  RawTile<kHeadDim, kInt8> tile(a, rows, shared);
  const int count = part.count, last = part.first + count, own = part.row.position - part.first;
  const bool has_own = own >= 0 && own < count, appends = has_own && raw.writes_kv;
  const int own_key = has_own && own < kKeys ? own : -1;  // within the first block
  find_keys<kHeadDim, kInt8>(a, part.row, c.places[0], part.first, last);
  prepare<kHeadDim>(raw, part.row.position + raw.lead, c);
  __syncthreads();
  tile.load_keys(c.places[0], 0, count, own_key);
  tile.load_values(c.places[0], count, own_key);
  ptx::wait_for_dependencies();
  float16* const own_place = c.places[0][kKeys];
  if (own_key >= 0 && !appends) tile.load_one(own_place, own);
  ptx::async_commit();
  if (count > 0)
    finish_heads<kHeadDim, kInt8>(raw, tile, c, part.row.first_row, group, appends ? own_place : nullptr,
                                  own_key);
  ptx::async_wait<0>();
  // One block: the way from q to the weighed sum of values, while the next one's keys and values are fetched.
  const auto take = [&](int first, int block) {
    const int left = count - first - kKeys;  // behind this block
    if (left > 0) find_keys<kHeadDim, kInt8>(a, part.row, c.places[block ^ 1], last - left, last);
    ptx::async_wait<1>();
    __syncthreads();  // queries and keys have landed
    tile.score(left + kKeys);
    __syncthreads();  // scores are visible, keys no longer read
    if (left > 0) tile.load_keys(c.places[block ^ 1], block ^ 1, left, -1);
    ptx::async_commit();
    tile.weigh(c, group, block, left + kKeys);
    ptx::async_wait<1>();
    __syncthreads();  // weights are visible, values have landed
    if (first > 0) tile.rescale(c);
    tile.add_values();
    if (left <= 0) return;
    __syncthreads();  // values no longer read
    tile.load_values(c.places[block ^ 1], left, -1);
    ptx::async_commit();
  };
  // Without keys what publish() writes are the zeros that lie there already.
  if (count > 0) take(0, 0);  // apart from the loop, whose addresses would be computed in front of it
#pragma unroll 1
  for (int first = kKeys, block = 1; first < count; first += kKeys, block ^= 1) take(first, block);
  const float* sums = tile.publish();
  const float2 own_part = tile.part();
  const bool cluster = splits.cluster_bits > 0;  // others write to parts[], too
  if (!cluster && threadIdx.x % 32 == 0 && threadIdx.x / 32 < group) c.parts[0][threadIdx.x / 32] = own_part;
  __syncthreads();
  const int first_head = part.row.first_row * a.heads + blockIdx.y * group;
  if (!cluster) return store<kHeadDim>(a, c, sums, first_head, group, part.split, splits.splits);
  float* const joined = reinterpret_cast<float*>(shared + RawShape<kHeadDim, kInt8>::own_bytes(rows));
  join_cluster<kHeadDim>(a, c, sums, own_part, reinterpret_cast<float4*>(joined), first_head, group,
                         part.split, splits);
}

/// A cluster when it splits the keys as finely as CTAs with a second kernel would: it fits the GPU at once
/// (a cluster's CTAs share a GPC, of which some are smaller), and most CTAs have one block.
template <int kHeadDim>
RawSplits choose_splits(const Queue& queue, const AttentionArgs& a, int splits) {
  if (!queue.warpgroups || kHeadDim < 32 * kMostRawCluster) return {splits, 0};
  const int room = queue.sm_count * 7 / 8 / std::max(1, a.tile_count * a.kv.kv_heads);
  int bits = 0;
  while (1 << (bits + 1) <= std::min(room, kMostRawCluster) &&
         RawShape<kHeadDim, false>::kKeys << bits < a.most_keys)
    ++bits;
  if (bits == 0 || 1 << bits < splits) return {splits, 0};
  return {1 << bits, bits};
}

/// The rows of a tile for so many query heads of a KV head.
int tile_rows(int group) { return group <= 8 ? 8 : kRawTileRows; }

}  // namespace

bool raw_attention_fits(Queue& queue, const KvLayer& kv, int heads_per_kv) {
  int needed = 0;
  with_head_dim(queue, kv, [&](auto head_dim, auto int8) {
    needed = RawShape<head_dim, int8>::shared_bytes(tile_rows(heads_per_kv), /*cluster=*/false) +
             static_cast<int>(sizeof(RawConstants<head_dim>));
  });
  return needed <= queue.shared_bytes;
}

int raw_attention(Queue& queue, const AttentionArgs& args, const RopeKvArgs& raw, int most_splits) {
  const int group = args.heads / args.kv.kv_heads, rows = tile_rows(group);
  int parts = 1;
  with_head_dim(queue, args.kv, [&](auto head_dim, auto int8) {
    using S = RawShape<head_dim, int8>;
    const RawSplits s = choose_splits<head_dim>(queue, args, most_splits);
    const bool cluster = s.cluster_bits > 0;
    if (!cluster) parts = s.splits;
    LaunchShape shape{dim3(args.tile_count * (cluster ? s.splits : 1), args.kv.kv_heads, parts), kRawThreads,
                      static_cast<std::size_t>(S::shared_bytes(rows, cluster))};
    if (cluster) shape.cluster = s.splits;
    launch(queue, shape, raw_attention_kernel<head_dim, int8>, args, raw, group, rows, s);
  });
  return parts;
}

}  // namespace carat::cuda
