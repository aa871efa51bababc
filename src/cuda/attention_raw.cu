// Attention of steps in which every sequence takes one token, without rope_kv() in front: the kernel norms
// and rotates q, k and v itself, while the keys of earlier tokens have been on their way since before the
// wait.
//
// A CTA owns the query heads of one row that share a kv head. It runs once, on few multiprocessors, so what
// counts is the length of the path through its code: the keys are the 16-row operand of the tensor cores and
// the heads the 8-column one, each warp takes a tile of keys and a slice of their dimensions, the softmax of
// a head is one warp's, and all sums leave through shared memory, four to a thread.
#include <algorithm>

#include "cuda/attention_rows.h"
#include "cuda/kv_address.h"
#include "cuda/launch.h"
#include "cuda/math.h"
#include "cuda/ptx.h"
#include "cuda/raw_head.h"

namespace carat::cuda {
namespace {

constexpr int kWarps = 16, kThreads = 32 * kWarps, kMostRawCluster = 8;
static_assert(kWarps >= kRawTileRows);  // the softmax of a head is one warp's

template <int kHeadDim>
struct RawShape {
  static constexpr int kKeys = attention_keys(kHeadDim, kRawTileRows);  // of a block
  static constexpr int kChunks = kHeadDim / 8, kHalf = kHeadDim / 2;    // a chunk has 16 bytes
  static constexpr int kStep = kThreads / kChunks;                      // keys copied at once
  static constexpr int kKeyTiles = kKeys / 16;
  /// Warps that share out the dimensions of q K^T: slices keep the permutation of chunks.
  static constexpr int kSlices = std::min(kWarps / kKeyTiles, std::max(1, kChunks / 8));
  static constexpr int kSliceSteps = kHeadDim / 16 / kSlices;
  static constexpr int kDimTiles = std::max(1, kHeadDim / 16 / kWarps);  // of one warp's share of P V
  static constexpr int kLaneKeys = kKeys / 32;
  // Rows of shared memory, padded against bank conflicts.
  static constexpr int kScoreStride = kKeys + 4, kWeightStride = kKeys + 8, kContextStride = kHeadDim + 4;
  static_assert(kStep % 8 == 0 && kKeys % 32 == 0);

  /// `rows`: 8 or 16 query heads. A cluster's CTAs leave their parts of the context behind everything else.
  static constexpr int own_bytes(int rows) {
    return (2 * kKeys * kHeadDim + rows * (kHeadDim + kWeightStride)) * 2 + kSlices * rows * kScoreStride * 4;
  }
  static constexpr int shared_bytes(int rows, bool cluster) {
    return own_bytes(rows) + (cluster ? rows * kHeadDim * 4 : 0);
  }
};

/// What doesn't depend on the number of query heads.
template <int kHeadDim>
struct RawConstants {
  float16* places[2][RawShape<kHeadDim>::kKeys + 1];  // of a block's keys, and of the row's own
  alignas(16) float gains[3][kHeadDim];               // of q, k and v: v has none
  float2 turns[2][kHeadDim / 2];                      // cosine, sine: of the position, and none
  float rescale[kRawTileRows];
  float2 parts[kMostRawCluster][kRawTileRows];  // of each CTA and head: the largest score, the sum of weights
};

template <int kHeadDim>
class RawTile {
  using S = RawShape<kHeadDim>;
  static constexpr int kKeys = S::kKeys;

 public:
  __device__ RawTile(const AttentionArgs& a, int rows, unsigned char* shared)
      : a_(a),
        rows_(rows),
        k_(reinterpret_cast<float16*>(shared)),
        v_(k_ + kKeys * kHeadDim),
        q_(v_ + kKeys * kHeadDim),
        weights_(q_ + rows * kHeadDim),
        scores_(reinterpret_cast<float*>(weights_ + rows * S::kWeightStride)) {}

  __device__ float16* query(int row) const { return q_ + row * kHeadDim; }
  __device__ float16* key(int key) const { return k_ + key * kHeadDim; }
  __device__ float16* value(int key) const { return v_ + key * kHeadDim; }

  /// Starts the copies of a block's keys, or values, with zeros behind the last one. Whatever happens to key
  /// `skipped` is the caller's.
  __device__ void load_keys(float16* const* places, int keys, int skipped) const {
    load(k_, places, 0, keys, skipped);
  }
  __device__ void load_values(float16* const* places, int keys, int skipped) const {
    load(v_, places, a_.kv.value_offset, keys, skipped);
  }
  /// One key and its value, as the pages have them.
  __device__ void load_one(const float16* place, int key) const {
    const int chunk = threadIdx.x % S::kChunks, part = threadIdx.x / S::kChunks;
    if (part > 1) return;
    ptx::async_copy16((part == 0 ? k_ : v_) + chunk_at<S::kChunks>(key, chunk),
                      place + (part == 0 ? 0 : a_.kv.value_offset) + chunk * 8, true);
  }

  /// This warp's part of q K^T: 16 keys, a slice of the dimensions.
  __device__ void score(int keys) const {
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
    put_pairs<S::kScoreStride>(to, s);
  }

  /// Turns a head's scores into weights against its new running maximum; a warp per head.
  __device__ void weigh(RawConstants<kHeadDim>& c, int group, int keys) {
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
#pragma unroll
    for (int i = 0; i < S::kLaneKeys; i += 2)
      *reinterpret_cast<__half2*>(weights_ + warp() * S::kWeightStride + lane() * S::kLaneKeys + i) =
          __floats2half2_rn(scores.of[i], scores.of[i + 1]);
    if (lane() == 0) c.rescale[warp()] = rescale;
  }

  /// This warp's dimensions of P V.
  __device__ void add_values() {
    if (warp() * S::kDimTiles * 16 >= kHeadDim) return;
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
    float* to = sums + lane() % 4 * 2 * S::kContextStride + warp() * S::kDimTiles * 16 + lane() / 4;
#pragma unroll
    for (int m = 0; m < S::kDimTiles; ++m) put_pairs<S::kContextStride>(to + m * 16, o_[m]);
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
  /// The same place `steps` of 16 dimensions further on, from a place within the first 64 of them.
  __device__ static int advanced(int place, int steps) { return (place ^ (steps % 4 * 16)) + steps / 4 * 64; }
  /// Sums of rows lane / 4 and lane / 4 + 8, columns lane % 4 * 2 and the next, columns lying kStride apart.
  template <int kStride>
  __device__ void put_pairs(float* to, const float (&sums)[2][4]) const {
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      if (n == 1 && !wide()) break;
      to[n * 8 * kStride] = sums[n][0];
      to[(n * 8 + 1) * kStride] = sums[n][1];
      to[n * 8 * kStride + 8] = sums[n][2];
      to[(n * 8 + 1) * kStride + 8] = sums[n][3];
    }
  }

  /// A thread's chunk is fixed, its key advances by kStep, which leaves the permutation as it is.
  __device__ void load(float16* block, float16* const* places, std::size_t offset, int keys,
                       int skipped) const {
    const int chunk = threadIdx.x % S::kChunks, first = threadIdx.x / S::kChunks;
    float16* to = block + chunk_at<S::kChunks>(first, chunk);
    offset += chunk * 8;
#pragma unroll 4
    for (int key = first; key < kKeys; key += S::kStep, to += S::kStep * kHeadDim)
      if (key != skipped) ptx::async_copy16(to, places[key] + offset, key < keys);
  }

  const AttentionArgs& a_;
  const int rows_;
  float16 *k_, *v_, *q_, *weights_;
  float* scores_;
  float o_[S::kDimTiles][2][4] = {};
  float largest_ = -INFINITY, total_ = 0.f;  // of this warp's head; of this lane's keys
};

/// Where the keys of a block lie, and behind them the row's own.
template <int kHeadDim>
__device__ void find_keys(const AttentionArgs& a, const AttentionTile& row, float16** places, int first,
                          int last) {
  constexpr int kKeys = RawShape<kHeadDim>::kKeys;
  const int i = threadIdx.x;
  if (i > kKeys) return;
  const int position = i == kKeys ? row.position : min(first + i, last - 1);
  places[i] = kv_address(a.kv, a.tables, row.sequence, position, blockIdx.y);
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
template <int kHeadDim>
__device__ void finish_heads(const RopeKvArgs& raw, const RawTile<kHeadDim>& tile,
                             const RawConstants<kHeadDim>& c, int row, int group, float16* page, int own) {
  using S = RawShape<kHeadDim>;
  constexpr int kVectors = raw_head_vectors(kHeadDim);
  using Head = RawHead<kVectors>;
  const int jobs = group + (page ? 2 : 0), kv_head = blockIdx.y;
#pragma unroll 1
  for (int job = threadIdx.x / 32; job < jobs; job += kWarps) {
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
    const int permutation = (to_row & (std::min(S::kChunks, 8) - 1)) * 8;
    float16* const high = page + (kind == 2 ? raw.kv.value_offset : 0);
    float16* const low = raw.kv.low_offset > 0 ? high + raw.kv.low_offset : nullptr;
    head.finish(
        S::kHalf, raw.eps, [&](int i, int h) { return load4(gains + h * S::kHalf, Head::dim(i) / 4); },
        [&](int i, int e) { return turns[Head::dim(i) + e]; },
        [&](int dim, const float4& v) {
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
    keys = key_range<RawShape<kHeadDim>::kKeys>(part.row, a.window, part.split, s.splits);
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
  for (int i = threadIdx.x; i < group * kVectors; i += kThreads) {
    const int head = i / kVectors, dim = i % kVectors * 4;
    const float4 v = load4(sums + head * RawShape<kHeadDim>::kContextStride, i % kVectors);
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
  for (int i = threadIdx.x; i < group * kVectors; i += kThreads) {
    const int head = i / kVectors, vector = i % kVectors;
    const float4 v = load4(sums + head * RawShape<kHeadDim>::kContextStride, vector);
    const int at = ((split * group + head) << share_bits) + (vector & (share - 1));
    ptx::cluster_pointer(joined, vector >> share_bits)[at] = v;
  }
  if (warp < group && lane < s.splits) *ptx::cluster_pointer(&c.parts[split][warp], lane) = own;
  ptx::cluster_arrive();
  ptx::cluster_wait();
#pragma unroll 1
  for (int i = threadIdx.x; i < group << share_bits; i += kThreads) {
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
template <int kHeadDim>
__global__ void __launch_bounds__(kThreads + 128)
    raw_attention_kernel(const __grid_constant__ AttentionArgs a, const __grid_constant__ RopeKvArgs raw,
                         int group, int rows, RawSplits splits) {
  constexpr int kKeys = RawShape<kHeadDim>::kKeys;
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ RawConstants<kHeadDim> c;
  ptx::launch_dependents();
  if (splits.cluster_bits > 0) ptx::cluster_arrive_relaxed();
  const RawPart part = part_of<kHeadDim>(a, splits);
  RawTile<kHeadDim> tile(a, rows, shared);
  const int count = part.count, last = part.first + count, own = part.row.position - part.first;
  const bool has_own = own >= 0 && own < count, appends = has_own && raw.writes_kv;
  const int own_key = has_own && own < kKeys ? own : -1;  // within the first block
  find_keys<kHeadDim>(a, part.row, c.places[0], part.first, last);
  prepare<kHeadDim>(raw, part.row.position + raw.lead, c);
  __syncthreads();
  tile.load_keys(c.places[0], count, own_key);
  tile.load_values(c.places[0], count, own_key);
  ptx::wait_for_dependencies();
  float16* const own_place = c.places[0][kKeys];
  if (own_key >= 0 && !appends) tile.load_one(own_place, own);
  ptx::async_commit();
  if (count > 0)
    finish_heads<kHeadDim>(raw, tile, c, part.row.first_row, group, appends ? own_place : nullptr, own_key);
  ptx::async_wait<0>();
  // One block: the way from q to the weighed sum of values, while the next one's keys and values are fetched.
  const auto take = [&](int first, int block) {
    const int left = count - first - kKeys;  // behind this block
    if (left > 0) find_keys<kHeadDim>(a, part.row, c.places[block ^ 1], last - left, last);
    ptx::async_wait<1>();
    __syncthreads();  // queries and keys have landed
    tile.score(left + kKeys);
    __syncthreads();  // scores are visible, keys no longer read
    if (left > 0) tile.load_keys(c.places[block ^ 1], left, -1);
    ptx::async_commit();
    tile.weigh(c, group, left + kKeys);
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
  float* const joined = reinterpret_cast<float*>(shared + RawShape<kHeadDim>::own_bytes(rows));
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
         RawShape<kHeadDim>::kKeys << bits < a.most_keys)
    ++bits;
  if (bits == 0 || 1 << bits < splits) return {splits, 0};
  return {1 << bits, bits};
}

}  // namespace

int raw_attention(Queue& queue, const AttentionArgs& args, const RopeKvArgs& raw, int most_splits) {
  const int group = args.heads / args.kv.kv_heads, rows = group <= 8 ? 8 : kRawTileRows;
  int parts = 1;
  with_head_dim(queue, args.kv.head_dim, [&](auto head_dim) {
    const RawSplits s = choose_splits<head_dim>(queue, args, most_splits);
    const bool cluster = s.cluster_bits > 0;
    if (!cluster) parts = s.splits;
    LaunchShape shape{dim3(args.tile_count * (cluster ? s.splits : 1), args.kv.kv_heads, parts), kThreads,
                      static_cast<std::size_t>(RawShape<head_dim>::shared_bytes(rows, cluster))};
    if (cluster) shape.cluster = s.splits;
    launch(queue, shape, raw_attention_kernel<head_dim>, args, raw, group, rows, s);
  });
  return parts;
}

}  // namespace carat::cuda
