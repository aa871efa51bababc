// Attention over long contexts inside the persistent kernel: a CTA takes all query heads of a KV head and a
// part of its keys, so that every key is read once, on the tensor cores. Their M operand is keys, then
// dimensions; the heads are the eight columns. Keys and values go from memory to registers, the first block
// before q is there; only their high halves are read. Included by .cu files only.
#pragma once
#include "cuda/math.h"
#include "cuda/persistent_attention.h"

namespace carat::cuda {

/// What the warps of a CTA tell each other, in shared memory.
template <int kHeadDim>
struct alignas(16) GroupScratch {
  static constexpr int kKeys = 32, kHeads = 8;
  // Strides that keep lanes apart.
  float squares[kVectorWarps][kHeads], own[kVectorWarps][kHeads];  // |q|^2 and q.k of the own key
  float key_squares[kVectorWarps], value_squares[kVectorWarps];
  float scores[kVectorWarps][kHeads][kKeys + 4];  // of a warp's dimensions
  float16 weights[2][kHeads][kKeys + 16];         // high and low halves
  float scale[kHeads], own_weight[kHeads];
  float sums[kVectorWarps][32];  // of parts that a warp has joined, and what these weigh
  float2 sizes[kVectorWarps];
  float own_value[kHeadDim];
};
static_assert(sizeof(GroupScratch<512>) == group_scratch_floats(512) * sizeof(float));

template <int kHeadDim>
class GroupAttention {
  using Scratch = GroupScratch<kHeadDim>;
  static constexpr int kKeys = Scratch::kKeys, kHalf = kHeadDim / 2;

 public:
  __device__ GroupAttention(const PersistentArgs& a, const TokenPhase& p, const ContextPart& part)
      : a_(a),
        p_(p),
        c_(part),
        group_(p.kv.kv_heads == 1 ? p.heads : p.heads / p.kv.kv_heads),
        appends_(p.writes_kv && part.ends),
        stored_(part.count - (appends_ ? 1 : 0)) {
    load_keys();
  }

  /// `rope` has the sines and cosines of this head size at the row's position.
  __device__ void run(Scratch& s, int index, const float2* rope) {
    take_row(s, rope);
    load_values();
    float context[4][4] = {}, total = 0.f;
#pragma unroll 1
    do {
      score(s);
      const int keys = stored_ - block_;
      block_ += kKeys;
      if (block_ < stored_) load_keys();
      SyncVectorThreads()();
      weigh(s, keys, total);
      SyncVectorThreads()();
      add_values(s, context);
      if (block_ < stored_) load_values();
    } while (block_ < stored_);
    publish(s, index, context, warp_sum(total));
    join(s, index);
    if (appends_) release_pages(a_, index);
  }

 private:
  static constexpr float kLog2e = 1.4426950408889634f;

  static __device__ int warp() { return threadIdx.x / 32; }
  static __device__ int row() { return threadIdx.x % 32 / 4; }  // of a fragment
  static __device__ int column() { return threadIdx.x % 4; }    // of a row's four lanes
  /// Of keys a lane has 8 dimensions from here on and as many in the other half of the head, which rotate
  /// with them; of values 8 neighbouring ones.
  static __device__ int pair_dim() { return 32 * warp() + 8 * column(); }
  static __device__ bool has_pairs() { return pair_dim() < kHalf; }
  static __device__ int value_dim() { return 64 * warp() + 8 * row(); }
  static __device__ bool has_values() { return value_dim() < kHeadDim; }

  /// Where tile `tile` of the block begins, in the pages.
  __device__ const float16* tile_address(int tile) const {
    const int at = block_ / ContextPart::kTile + tile;
    return p_.kv.keys + (at * ContextPart::kTile < stored_ ? std::size_t{c_.rows[at]} * 8 : 0);
  }

  static __device__ uint4 load(const float16* from, bool wanted) {
    return wanted ? __ldcg(reinterpret_cast<const uint4*>(from)) : make_uint4(0, 0, 0, 0);
  }

  /// Keys `row` and `row` + 8 of each tile of 16.
  __device__ void load_keys() {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int slot = i % 2 * 8 + row();
      const bool there = block_ + i / 2 * 16 + slot < stored_ && has_pairs();
      const float16* from = tile_address(i / 2) + slot * kHeadDim + pair_dim();
      keys_[i][0] = load(from, there);
      keys_[i][1] = load(from + kHalf, there);
    }
  }

  /// Four neighbouring keys of each 16.
  __device__ void load_values() {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int slot = 4 * column() + i % 4;
      const bool there = block_ + i / 4 * 16 + slot < stored_ && has_values();
      values_[i] = load(tile_address(i / 4) + slot * kHeadDim + p_.kv.value_offset + value_dim(), there);
    }
  }

  /// This lane's dimensions of a raw head of q or k, or zeros.
  __device__ void load_pairs(int head, bool wanted, float (&x)[16]) const {
    int at[4];
    float4 out[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      at[i] = wanted && has_pairs() ? (head * kHeadDim + pair_dim() + i / 2 * kHalf) / 4 + i % 2 : -1;
    load_tagged(a_.qkv, at, tag_of(a_, p_.wait_for), out);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      x[4 * i] = out[i].x, x[4 * i + 1] = out[i].y;
      x[4 * i + 2] = out[i].z, x[4 * i + 3] = out[i].w;
    }
  }

  template <int kCount>
  static __device__ float dot(const float (&x)[kCount], const float (&y)[kCount]) {
    float sum = 0.f;
#pragma unroll
    for (int i = 0; i < kCount; ++i) sum += x[i] * y[i];
    return sum;
  }

  /// The sum over lanes kFirst, 2 kFirst and so on below kEnd apart.
  template <int kFirst, int kEnd>
  static __device__ float sum_lanes(float v) {
#pragma unroll
    for (int offset = kFirst; offset < kEnd; offset *= 2) v += __shfl_xor_sync(kAllLanes, v, offset);
    return v;
  }

  /// Gain and rotation of a head's dimensions.
  __device__ void turn(const float* gain, const float2* rope, float (&x)[16]) const {
    if (!has_pairs()) return;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int pair = pair_dim() + i;
      const float2 angle = pair < a_.rotary_pairs[p_.kv.group] ? rope[pair] : make_float2(0.f, 1.f);
      const float first = x[i] * gain[pair], second = x[i + 8] * gain[pair + kHalf];
      x[i] = first * angle.y - second * angle.x;
      x[i + 8] = second * angle.y + first * angle.x;
    }
  }

  template <class Sums>
  __device__ float norm_scale(Sums&& sums) const {
    float sum = 0.f;
#pragma unroll
    for (int w = 0; w < kVectorWarps; ++w) sum += sums(w);
    return rsqrtf(sum / static_cast<float>(kHeadDim) + a_.eps);
  }

  /// Waits for q; leaves it normed, rotated and split in registers. The own key and value too, where this
  /// part has them: the key's scores are the first of the softmax.
  __device__ void take_row(Scratch& s, const float2* rope) {
    const int head = row(), lane = threadIdx.x % 32, own_head = p_.heads + c_.kv_head;
    float q[16], k[16] = {}, value[8] = {};
    load_pairs(c_.kv_head * group_ + head, head < group_, q);
    const float squares = sum_lanes<1, 4>(dot(q, q));
    if (column() == 0) s.squares[warp()][head] = squares;
    turn(p_.q_norm, rope, q);
    if (appends_) {
      load_pairs(own_head, true, k);
      const float key_squares = sum_lanes<1, 4>(dot(k, k));
      turn(p_.k_norm, rope, k);
      const float own = sum_lanes<1, 4>(dot(q, k));
      if (column() == 0) s.own[warp()][head] = own;
      load_own_value(own_head + (p_.has_v ? p_.kv.kv_heads : 0), value);
      const float value_squares = sum_lanes<4, 32>(dot(value, value));
      if (lane == 0) s.key_squares[warp()] = key_squares;
      if (lane == 0) s.value_squares[warp()] = value_squares;
    }
    SyncVectorThreads()();
    const float scale = norm_scale([&](int w) { return s.squares[w][head]; }) * kLog2e;
#pragma unroll
    for (int i = 0; i < 8; ++i) split(q[2 * i] * scale, q[2 * i + 1] * scale, q_[0][i], q_[1][i]);
    if (!appends_) return;
    const float key_scale = norm_scale([&](int w) { return s.key_squares[w]; }),
                value_scale = norm_scale([&](int w) { return s.value_squares[w]; });
    float own = 0.f;
#pragma unroll
    for (int w = 0; w < kVectorWarps; ++w) own += s.own[w][warp()];
    largest_ = own_score_ =
        own * key_scale * norm_scale([&](int w) { return s.squares[w][warp()]; }) * kLog2e;
#pragma unroll
    for (int i = 0; i < 8; ++i) value[i] *= value_scale;
#pragma unroll
    for (int i = 0; i < 16; ++i) k[i] *= key_scale;
    float16* place = p_.kv.keys + std::size_t{c_.own_row} * 8;
    if (has_pairs() && head == 0) {
      store_eight(place + pair_dim(), k);
      store_eight(place + pair_dim() + kHalf, k + 8);
    }
    if (!has_values() || column() > 0) return;
    store_eight(place + p_.kv.value_offset + value_dim(), value);
#pragma unroll
    for (int i = 0; i < 8; ++i) s.own_value[value_dim() + i] = value[i];
  }

  __device__ void load_own_value(int head, float (&x)[8]) const {
    int at[2];
    float4 out[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) at[i] = has_values() ? (head * kHeadDim + value_dim()) / 4 + i : -1;
    load_tagged(a_.qkv, at, tag_of(a_, p_.wait_for), out);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      x[4 * i] = out[i].x, x[4 * i + 1] = out[i].y;
      x[4 * i + 2] = out[i].z, x[4 * i + 3] = out[i].w;
    }
  }

  /// x and y as the sum of two pairs of float16.
  static __device__ void split(float x, float y, uint32_t& high, uint32_t& low) {
    const __half2 h = __floats2half2_rn(x, y);
    high = bits(h);
    low = bits(__floats2half2_rn(x - __low2float(h), y - __high2float(h)));
  }

  __device__ void store_eight(float16* to, const float* x) const {
    uint32_t high[4], low[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) split(x[2 * i], x[2 * i + 1], high[i], low[i]);
    *reinterpret_cast<uint4*>(to) = make_uint4(high[0], high[1], high[2], high[3]);
    if (p_.kv.low_offset > 0)
      *reinterpret_cast<uint4*>(to + p_.kv.low_offset) = make_uint4(low[0], low[1], low[2], low[3]);
  }

  static __device__ uint32_t word(const uint4& v, int i) {
    return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
  }

  /// The products of this warp's dimensions: keys are rows, heads are columns.
  __device__ void score(Scratch& s) const {
#pragma unroll
    for (int tile = 0; tile < 2; ++tile) {
      float c[4] = {};
      const uint4(&upper)[2] = keys_[2 * tile], (&lower)[2] = keys_[2 * tile + 1];
#pragma unroll
      for (int step = 0; step < 4; ++step) {
        const int half = step / 2, i = step % 2 * 2;
        const uint32_t rows[4] = {word(upper[half], i), word(lower[half], i), word(upper[half], i + 1),
                                  word(lower[half], i + 1)};
#pragma unroll
        for (int part = 0; part < 2; ++part)
          ptx::mma_f16(c, rows, q_[part][4 * half + i], q_[part][4 * half + i + 1]);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i)
        s.scores[warp()][2 * column() + i % 2][16 * tile + 8 * (i / 2) + row()] = c[i];
    }
  }

  /// Softmax over the block's keys: a warp has a head, a lane a key.
  __device__ void weigh(Scratch& s, int keys, float& total) {
    const int head = warp(), lane = threadIdx.x % 32;
    float score = 0.f;
#pragma unroll
    for (int w = 0; w < kVectorWarps; ++w) score += s.scores[w][head][lane];
    if (lane >= keys) score = -INFINITY;
    const float largest = fmaxf(largest_, warp_largest(score)), base = largest == -INFINITY ? 0.f : largest,
                scale = exp2f(largest_ - base), weight = exp2f(score - base);
    largest_ = largest;
    total = total * scale + weight;
    const float16 high = __float2half_rn(weight);
    s.weights[0][head][lane] = high;
    s.weights[1][head][lane] = __float2half_rn(weight - __half2float(high));
    if (lane == 0) s.scale[head] = scale;
  }

  /// Dimensions are rows, heads are columns: rows r and r + 8 of tile m are the dimensions 8 r + 2 m and the
  /// next one of this warp.
  __device__ void add_values(const Scratch& s, float (&context)[4][4]) const {
    const float2 scale = *reinterpret_cast<const float2*>(s.scale + 2 * column());
#pragma unroll
    for (int m = 0; m < 4; ++m) {
      context[m][0] *= scale.x, context[m][1] *= scale.y;
      context[m][2] *= scale.x, context[m][3] *= scale.y;
    }
#pragma unroll
    for (int step = 0; step < 2; ++step) {
      const int key = 16 * step + 4 * column();
      const uint2 high = *reinterpret_cast<const uint2*>(&s.weights[0][row()][key]),
                  low = *reinterpret_cast<const uint2*>(&s.weights[1][row()][key]);
      const uint4* v = values_ + 4 * step;
#pragma unroll
      for (int m = 0; m < 4; ++m) {
        const uint32_t x[4] = {word(v[0], m), word(v[1], m), word(v[2], m), word(v[3], m)};
        const uint32_t rows[4] = {__byte_perm(x[0], x[1], 0x5410), __byte_perm(x[0], x[1], 0x7632),
                                  __byte_perm(x[2], x[3], 0x5410), __byte_perm(x[2], x[3], 0x7632)};
        ptx::mma_f16(context[m], rows, high.x, high.y);
        ptx::mma_f16(context[m], rows, low.x, low.y);
      }
    }
  }

  /// Where part `part` of a head is in the buffers.
  __device__ int part_at(int head, int part) const { return (head << c_.parts_shift) + part; }

  __device__ void publish(Scratch& s, int index, float (&context)[4][4], float total) const {
    const uint32_t tag = tag_of(a_, index);
    const int first_head = c_.kv_head * group_, lane = threadIdx.x % 32;
    float2 own = make_float2(0.f, 0.f);
    if (appends_) {
      const float weight = exp2f(own_score_ - largest_);
      total += weight;
      if (lane == 0) s.own_weight[warp()] = weight;
      SyncVectorThreads()();
      own = *reinterpret_cast<const float2*>(s.own_weight + 2 * column());
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int head = 2 * column() + i;
      if (head >= group_ || !has_values()) continue;
      TaggedFloat* to =
          a_.parts + static_cast<std::size_t>(part_at(first_head + head, c_.part)) * kHeadDim + value_dim();
      const float weight = i == 0 ? own.x : own.y;
#pragma unroll
      for (int m = 0; m < 4; ++m) {
        float2 x = make_float2(context[m][i], context[m][2 + i]);
        if (appends_) {
          x.x += weight * s.own_value[value_dim() + 2 * m];
          x.y += weight * s.own_value[value_dim() + 2 * m + 1];
        }
        ptx::store_relaxed_pair(to + 2 * m, tagged(tag, x.x), tagged(tag, x.y));
      }
    }
    if (lane == 0 && warp() < group_)
      ptx::store_relaxed_pair(a_.part_sizes + 2 * part_at(first_head + warp(), c_.part),
                              tagged(tag, largest_), tagged(tag, total));
  }

  /// A share of the heads' dimensions, at most 32, from all parts; a warp joins some of the parts.
  __device__ void join(Scratch& s, int index) const {
    constexpr int kMost = kMostGroupParts / kVectorWarps;
    const uint32_t tag = tag_of(a_, index);
    const int lane = threadIdx.x % 32, share = group_ * kHeadDim >> c_.parts_shift,
              share_shift = __ffs(share) - 1, groups_shift = 5 - share_shift,
              count = 1 << c_.parts_shift >> 3,  // parts of this warp
        place = c_.part * share + (lane & (share - 1)), head = c_.kv_head * group_ + place / kHeadDim,
              dim = place % kHeadDim, first = part_at(head, warp() * count);
    const TaggedFloat* from[kMost + 2];
    float x[kMost + 2];
#pragma unroll
    for (int i = 0; i < kMost; ++i) {
      const int part = (i << groups_shift) + (lane >> share_shift);
      from[i] = part < count ? a_.parts + static_cast<std::size_t>(first + part) * kHeadDim + dim : nullptr;
    }
    for (int i = 0; i < 2; ++i)
      from[kMost + i] = lane < count ? a_.part_sizes + 2 * (first + lane) + i : nullptr;
    load_words(from, tag, x);
    const float largest = lane < count ? x[kMost] : -INFINITY, most = warp_largest(largest),
                weight = part_weight(largest, most), total = warp_sum(weight * x[kMost + 1]);
    float sum = 0.f;
#pragma unroll
    for (int i = 0; i < kMost; ++i)
      sum += __shfl_sync(kAllLanes, weight, min((i << groups_shift) + (lane >> share_shift), 31)) * x[i];
#pragma unroll 1
    for (int offset = 16; offset >= share; offset /= 2) sum += __shfl_xor_sync(kAllLanes, sum, offset);
    s.sums[warp()][lane] = sum;
    if (lane == 0) s.sizes[warp()] = make_float2(most, total);
    SyncVectorThreads()();
    if (warp() > 0 || lane >= share) return;
    float all_most = -INFINITY, all_total = 0.f, all = 0.f;
#pragma unroll
    for (int w = 0; w < kVectorWarps; ++w) all_most = fmaxf(all_most, s.sizes[w].x);
#pragma unroll
    for (int w = 0; w < kVectorWarps; ++w) {
      const float by = part_weight(s.sizes[w].x, all_most);
      all_total += by * s.sizes[w].y;
      all += by * s.sums[w][lane];
    }
    store_context(a_, p_, head * kHeadDim + dim, all / all_total);
  }

  const PersistentArgs& a_;
  const TokenPhase& p_;
  const ContextPart& c_;
  int group_;
  bool appends_;            // the row's own key and value
  int block_ = 0, stored_;  // of this part's keys, those from stored_ on aren't in the pages
  uint32_t q_[2][8];        // high and low halves of head `row`, as fragments
  float own_score_ = 0.f, largest_ = -INFINITY;  // largest_: of head `warp`
  uint4 keys_[4][2], values_[8];
};

/// Short contexts read keys and values with both halves, long ones those of sliding layers only, and beside
/// int8 and int4 weights none: there, as on the CPU, float16 is enough.
inline constexpr int kBothHalves = 256;

/// Which part of attention this CTA has; the first threads fill in where its keys are.
__device__ inline void write_part(const PersistentArgs& a, int group, int position, ContextPart& part) {
  const ContextShape shape = a.contexts[group];
  const int keys = shape.window > 0 ? min(position + 1, shape.window) : position + 1, end = position + 1,
            per_kv_head = shape.heads / shape.kv_heads, cta = blockIdx.x;
  const bool grouped = shape.window == 0 && a.group_parts_shift >= 0 && position >= kGroupedFrom;
  int shift = grouped ? a.group_parts_shift : 0;
  const int most = min(kMostContextParts, static_cast<int>(gridDim.x) / shape.heads);
  while (!grouped && keys > kKeysOfPart << shift && 2 << shift <= most) ++shift;
  const int unit = cta >> shift, index = cta & ((1 << shift) - 1), step = grouped ? ContextPart::kTile : 1,
            each = ((keys + (step << shift) - 1) >> shift) / step * step;
  const int first = min(end - keys + index * each, end), count = min(each, end - first),
            kv_head = grouped ? unit : unit / per_kv_head;
  const auto row = [&](int key) {
    const int page = __ldcg(a.tables.pages + __ldcg(a.tables.offset + group) + (key >> a.page_shift));
    const int slot = (kv_head << a.page_shift) + (key & ((1 << a.page_shift) - 1));
    return page * shape.page_rows + slot * (shape.head_dim / 8);
  };
  const bool works = kv_head < shape.kv_heads;
  const int i = threadIdx.x;
  if (works && i * step < count) part.rows[i] = row(first + i * step);
  if (i > 0) return;
  part.parts_shift = shift;
  part.kv_head = works ? kv_head : -1;
  part.head = unit;
  part.part = index;
  part.count = count;
  part.grouped = grouped;
  part.first_head = grouped || unit == kv_head * per_kv_head;
  part.both_halves =
      shape.two_halves && ((a.format == WeightFormat::bf16 && shape.window > 0) || position < kBothHalves);
  part.ends = count > 0 && first + count == end;
  part.own_row = works ? row(position) : 0;
}

/// Out of line: what other phases keep in registers is saved around it.
template <int kHeadDim>
__device__ __noinline__ void attend_group(const PersistentArgs& a, const TokenPhase& p, int index,
                                          const ContextPart& part, const float2* rope, float* scratch) {
  GroupAttention<kHeadDim>(a, p, part).run(*reinterpret_cast<GroupScratch<kHeadDim>*>(scratch), index, rope);
}

/// Attention in a layer that sees everything.
template <int kHeadDim, bool kTimed, class KeepNext>
__device__ void attend_all(const PersistentArgs& a, const TokenPhase& p, int index, const ContextPart& part,
                           const float2* rope, float* scratch, const KeepNext& keep_next) {
  if (!part.grouped || part.kv_head < 0)
    return attend_part<kHeadDim, kTimed>(a, p, index, part, rope, scratch, keep_next);
  SyncVectorThreads()();  // all warps have left the phase in front
  keep_next();
  attend_group<kHeadDim>(a, p, index, part, rope, scratch);
}

}  // namespace carat::cuda
