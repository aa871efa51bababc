// Attention inside the persistent kernel: every CTA takes one query head and a part of its keys, a block of
// them at a time. Scores: a warp has some keys of the block with all their dimensions. Values: a warp has
// some dimensions of all keys. Keys and values go straight from L2 to registers, the first block before q is
// there. The CTAs of a head then join their parts, each some dimensions. Included by .cu files only.
#pragma once
#include "cuda/kv_address.h"
#include "cuda/math.h"
#include "cuda/persistent_sync.h"

namespace carat::cuda {

/// Block of keys that a CTA takes at a time, and how its warps share it out.
template <int kHeadDim>
struct KeyBlock {
  static constexpr int kKeys = kHeadDim < 512 ? 32 : 16;
  static constexpr int kPairs = kHeadDim / 2;  // of dimensions that rotate; a thread has one
  // Scores: kKeyLanes lanes have a key, each kChunks times 8 neighbouring dimensions.
  static constexpr int kKeyLanes = kHeadDim / 8 < 32 ? kHeadDim / 8 : 32, kChunks = kHeadDim / 8 / kKeyLanes;
  static constexpr int kKeysAtOnce = 32 / kKeyLanes, kWarpKeys = kKeys / kVectorWarps;
  static constexpr int kScoreLoads = kKeysAtOnce < kWarpKeys ? kWarpKeys / kKeysAtOnce : 1;
  // Values: kDimLanes lanes have the dimensions of a warp, 8 each, of a key.
  static constexpr int kWarpDims = kHeadDim / kVectorWarps < 8 ? 8 : kHeadDim / kVectorWarps;
  static constexpr int kValueWarps = kHeadDim / kWarpDims, kDimLanes = kWarpDims / 8;
  static constexpr int kSlots = 32 / kDimLanes, kValueLoads = kSlots < kKeys ? kKeys / kSlots : 1;
  static constexpr int kDimsLeft = kSlots < 8 ? 8 / kSlots : 1;  // of a lane, once a warp's are summed up
};

/// The largest value of a warp, without a round of shuffles: floats are ordered like integers.
__device__ inline float warp_largest(float v) {
  const auto ordered = [](int i) { return i ^ (i >> 31 & 0x7fffffff); };
  return __int_as_float(ordered(__reduce_max_sync(kAllLanes, ordered(__float_as_int(v)))));
}

/// What a part of some keys weighs beside others: 2^(its largest score - most).
__device__ inline float part_weight(float largest, float most) {
  return largest == -INFINITY ? 0.f : exp2f(largest - most);
}

/// Behind a barrier: later layers may read what this CTA wrote to the pages. By a thread that joins no parts.
__device__ inline void release_pages(const PersistentArgs& a, int phase) {
  if (threadIdx.x == kVectorThreads - 1) ptx::add_release(counter_of(a, phase), 0);
}

/// A word of attention's context.
__device__ inline void store_context(const PersistentArgs& a, const TokenPhase& p, int at, float v) {
  ptx::store_relaxed(reinterpret_cast<MarkedFloat*>(p.output.out) + at, marked(bit_of(a, p.output_mark), v));
}

/// What the warps of a CTA tell each other, in shared memory. Sums are over a warp's pairs of dimensions.
template <int kHeadDim>
struct alignas(16) AttentionScratch {
  float q[kHeadDim], value[kHeadDim];  // q rotated, both without their norms' scales
  float squares[kVectorWarps];         // |q|^2
  float own[3][kVectorWarps];          // of the row's own key: |k|^2, |v|^2, q.k
  float scores[2][32];                 // of a block's keys, two blocks in turns
};
static_assert(sizeof(AttentionScratch<512>) == attention_scratch_floats(512) * sizeof(float));

template <int kHeadDim, bool kTimed>
class PartAttention {
  using B = KeyBlock<kHeadDim>;
  using Scratch = AttentionScratch<kHeadDim>;

 public:
  /// Starts reading the keys that are there before q is. `rope` has the sines and cosines of this head size
  /// at the row's position.
  __device__ PartAttention(const PersistentArgs& a, const TokenPhase& p, const ContextPart& part,
                           const float2* rope)
      : a_(a), p_(p), c_(part) {
    appends_ = p.writes_kv && part.ends;
    stored_ = part.count - (appends_ ? 1 : 0);
    load_keys();
    const int pair = static_cast<int>(threadIdx.x) % B::kPairs;
    has_own_ = appends_ && threadIdx.x / B::kPairs == (kVectorThreads >= 2 * B::kPairs ? 1 : 0);
    own_place_ = has_own_ && part.first_head ? p.kv.keys + std::size_t{part.own_row} * 8 + pair : nullptr;
    angle_ = pair < a.rotary_pairs[p.kv.group] ? rope[pair] : make_float2(0.f, 1.f);
    for (int half = 0; half < 2; ++half) {
      q_gain_[half] = p.q_norm[pair + half * B::kPairs];
      k_gain_[half] = has_own_ ? p.k_norm[pair + half * B::kPairs] : 0.f;
    }
  }

  template <class KeepNext>
  __device__ void run(Scratch& s, int index, const KeepNext& keep_next) {
    take_row(s, index);
    load_values();
    SyncVectorThreads()();  // all warps have left the phase in front, too
    keep_next();
    finish_row(s);
    note<kTimed>(a_, index, &PhaseCycles::ready);
    const int lane = threadIdx.x % 32;
    float context[8] = {}, total = 0.f;  // of this lane's keys, relative to largest_
    int buffer = 0;
#pragma unroll 1
    do {
      score(s.scores[buffer]);
      const int keys = stored_ - block_;
      block_ += B::kKeys;
      if (block_ < stored_) load_keys();
      SyncVectorThreads()();
      const float score = lane < min(keys, B::kKeys) ? s.scores[buffer][lane] : -INFINITY;
      const float largest = fmaxf(largest_, warp_largest(score));
      const float base = largest == -INFINITY ? 0.f : largest, scale = exp2f(largest_ - base),
                  weight = exp2f(score - base);
      largest_ = largest;
      total = total * scale + weight;
      add_values(weight, scale, context, keys);
      if (block_ < stored_) load_values();
      buffer ^= 1;
    } while (block_ < stored_);
    publish(s, index, context, warp_sum(total));
    note<kTimed>(a_, index, &PhaseCycles::part);
    if (c_.parts_shift > 0) join(index);
    if (appends_) release_pages(a_, index);
  }

 private:
  static constexpr float kLog2e = 1.4426950408889634f;

  /// Where key `key` of this part begins.
  __device__ const float16* address(int key) const { return p_.kv.keys + std::size_t{c_.rows[key]} * 8; }

  static __device__ uint4 load(const float16* from, bool wanted) {
    return wanted ? __ldcg(reinterpret_cast<const uint4*>(from)) : make_uint4(0, 0, 0, 0);
  }

  /// Where in its block the key of this lane's load `i` is: neighbouring keys belong to different warps.
  static __device__ int score_slot(int i) {
    return (i * B::kKeysAtOnce + static_cast<int>(threadIdx.x) % 32 / B::kKeyLanes) * kVectorWarps +
           static_cast<int>(threadIdx.x) / 32;
  }
  /// The first dimension of a lane's chunk.
  static __device__ int key_dim(int chunk) {
    return (chunk * B::kKeyLanes + static_cast<int>(threadIdx.x) % B::kKeyLanes) * 8;
  }
  static __device__ int value_slot(int i) {
    return i * B::kSlots + static_cast<int>(threadIdx.x) % 32 / B::kDimLanes;
  }
  static __device__ int value_dim() {
    return static_cast<int>(threadIdx.x) / 32 * B::kWarpDims +
           static_cast<int>(threadIdx.x) % B::kDimLanes * 8;
  }
  static __device__ bool has_values() { return threadIdx.x / 32 < B::kValueWarps; }

  /// The keys of the block at block_, and below its values.
  __device__ void load_keys() {
#pragma unroll
    for (int i = 0; i < B::kScoreLoads; ++i) {
      const int slot = score_slot(i), key = block_ + slot;
      const bool there = slot < B::kKeys && key < stored_;
      const float16* from = there ? address(key) : p_.kv.keys;
#pragma unroll
      for (int c = 0; c < B::kChunks; ++c) {
        keys_[i][c][0] = load(from + key_dim(c), there);
        keys_[i][c][1] = load(from + key_dim(c) + p_.kv.low_offset, there && c_.both_halves);
      }
    }
  }

  __device__ void load_values() {
#pragma unroll
    for (int i = 0; i < B::kValueLoads; ++i) {
      const int key = block_ + value_slot(i);
      const bool there = has_values() && key < stored_;
      const float16* from = (there ? address(key) : p_.kv.keys) + p_.kv.value_offset + value_dim();
      values_[i][0] = load(from, there);
      values_[i][1] = load(from + p_.kv.low_offset, there && c_.both_halves);
    }
  }

  __device__ void unpack(const uint4 (&halves)[2], float (&x)[8]) const {
    const __half2* high = reinterpret_cast<const __half2*>(&halves[0]);
    const __half2* low = reinterpret_cast<const __half2*>(&halves[1]);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 v = __half22float2(high[i]), rest = __half22float2(low[i]);
      x[2 * i] = v.x + rest.x;
      x[2 * i + 1] = v.y + rest.y;
    }
  }

  __device__ const TaggedFloat* raw(int head, int half) const {
    return a_.qkv + head * kHeadDim + half * B::kPairs + threadIdx.x % B::kPairs;
  }

  __device__ static void rotate(const float2& angle, float& first, float& second) {
    const float x = first;
    first = x * angle.y - second * angle.x;
    second = second * angle.y + x * angle.x;
  }

  /// A pair of q and, where this part has it, of the own key and value, as the projections leave them; and
  /// this warp's sums.
  __device__ void take_row(Scratch& s, int index) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, pair = threadIdx.x % B::kPairs;
    const bool has_q = threadIdx.x < B::kPairs;
    const int key = p_.heads + c_.kv_head, value = p_.has_v ? key + p_.kv.kv_heads : key;
    const TaggedFloat* from[6];
    float x[6];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      from[half] = has_q || has_own_ ? raw(c_.head, half) : nullptr;
      from[2 + half] = has_own_ ? raw(key, half) : nullptr;
      from[4 + half] = has_own_ ? raw(value, half) : nullptr;
    }
    load_words(from, tag_of(a_, p_.wait_for), x);
    note<kTimed>(a_, index, &PhaseCycles::waited);
    float squares = has_q ? x[0] * x[0] + x[1] * x[1] : 0.f;
    x[0] *= q_gain_[0], x[1] *= q_gain_[1];
    rotate(angle_, x[0], x[1]);
    if (has_q) s.q[pair] = x[0], s.q[pair + B::kPairs] = x[1];
    squares = warp_sum(squares);
    if (lane == 0) s.squares[warp] = squares;
    if (!appends_) return;
    float own[4] = {x[2] * x[2] + x[3] * x[3], x[4] * x[4] + x[5] * x[5], 0.f, 0.f};
    if (has_own_) s.value[pair] = x[4], s.value[pair + B::kPairs] = x[5];
    x[2] *= k_gain_[0], x[3] *= k_gain_[1];
    rotate(angle_, x[2], x[3]);
    own[2] = x[0] * x[2] + x[1] * x[3];
    const int first = spread_sums<4, 32, 1>(own);
    if (lane % 8 == 0 && first < 3) s.own[first][warp] = own[0];
#pragma unroll
    for (int i = 0; i < 4; ++i) own_[i] = x[2 + i];
  }

  static __device__ float sum_of_warps(const float (&sums)[kVectorWarps]) {
    const float4 x = load4(sums, 0), y = load4(sums, 1);
    return ((x.x + x.y) + (x.z + x.w)) + ((y.x + y.y) + (y.z + y.w));
  }

  /// The norms; the own key and value go into the pages, by one CTA per kv head, and into the softmax.
  __device__ void finish_row(const Scratch& s) {
    const auto scale = [&](const float(&squares)[kVectorWarps]) {
      return rsqrtf(sum_of_warps(squares) / static_cast<float>(kHeadDim) + a_.eps);
    };
    q_scale_ = scale(s.squares) * kLog2e;  // weights are powers of two
#pragma unroll
    for (int c = 0; c < B::kChunks; ++c)
#pragma unroll
      for (int i = 0; i < 2; ++i) q_[c][i] = load4(s.q + key_dim(c), i);
    if (!appends_) return;
    const float k_scale = scale(s.own[0]);
    v_scale_ = scale(s.own[1]);
    largest_ = own_score_ = sum_of_warps(s.own[2]) * k_scale * q_scale_;
    if (!own_place_) return;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float x = own_[i] * (i < 2 ? k_scale : v_scale_);
      store_kv(p_.kv, own_place_, i % 2 * B::kPairs + (i < 2 ? 0 : p_.kv.value_offset), x);
    }
  }

  /// Scores of this warp's keys of a block.
  __device__ void score(float* scores) const {
    float sums[B::kScoreLoads];
#pragma unroll
    for (int i = 0; i < B::kScoreLoads; ++i) {
      sums[i] = 0.f;
      if (block_ + i * B::kKeysAtOnce * kVectorWarps + static_cast<int>(threadIdx.x) / 32 >= stored_)
        continue;
#pragma unroll
      for (int c = 0; c < B::kChunks; ++c) {
        float x[8];
        unpack(keys_[i][c], x);
        sums[i] += dot(make_float4(x[0], x[1], x[2], x[3]), q_[c][0]) +
                   dot(make_float4(x[4], x[5], x[6], x[7]), q_[c][1]);
      }
    }
    const int slot = score_slot(spread_sums<B::kScoreLoads, B::kKeyLanes, 1>(sums));
    if (threadIdx.x % (B::kKeyLanes / B::kScoreLoads) == 0 && slot < B::kKeys)
      scores[slot] = sums[0] * q_scale_;
  }

  /// `weight` is that of the block's key `lane`; what is there already shrinks by `scale`.
  __device__ void add_values(float weight, float scale, float (&context)[8], int keys) const {
#pragma unroll
    for (int d = 0; d < 8; ++d) context[d] *= scale;
#pragma unroll
    for (int i = 0; i < B::kValueLoads; ++i) {
      if (i * B::kSlots >= keys) break;
      const float by = __shfl_sync(kAllLanes, weight, value_slot(i));
      float x[8];
      unpack(values_[i], x);
#pragma unroll
      for (int d = 0; d < 8; ++d) context[d] += by * x[d];
    }
  }

  /// This part's context, or the head's where it is the only one.
  __device__ void publish(const Scratch& s, int index, float (&context)[8], float total) const {
    const uint32_t tag = tag_of(a_, index);
    const int dim = value_dim() + spread_sums<8, B::kSlots, B::kDimLanes>(context);
    const float own = appends_ ? exp2f(own_score_ - largest_) : 0.f;
    total += own;
    const int part = (c_.head << c_.parts_shift) + c_.part;
    const bool whole = c_.parts_shift == 0;
    TaggedFloat* to = a_.parts + part * kHeadDim;
    constexpr int kEqualLanes = B::kSlots > 8 ? B::kSlots / 8 : 1;  // have the same sums
    if (has_values() && threadIdx.x % 32 / B::kDimLanes % kEqualLanes == 0) {
#pragma unroll
      for (int i = 0; i < B::kDimsLeft; ++i) {
        float x = context[i];
        if (appends_) x += own * v_scale_ * s.value[dim + i];
        if (whole)
          store_context(a_, p_, c_.head * kHeadDim + dim + i, x / total);
        else
          ptx::store_relaxed(to + dim + i, tagged(tag, x));
      }
    }
    if (threadIdx.x != 0 || whole) return;
    ptx::store_relaxed(a_.part_sizes + 2 * part, tagged(tag, largest_));
    ptx::store_relaxed(a_.part_sizes + 2 * part + 1, tagged(tag, total));
  }

  /// A share of the head's dimensions, from all parts: 32 of them for each warp, or all of fewer than 32 for
  /// one, whose lanes then share out the parts.
  __device__ void join(int index) const {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, parts = 1 << c_.parts_shift,
              share = kHeadDim >> c_.parts_shift, share_shift = __ffs(share) - 1,
              groups = 1 << max(0, 5 - share_shift), group = lane >> share_shift;
    if (warp * 32 >= share) return;
    const uint32_t tag = tag_of(a_, index);
    const int dim = c_.part * share + warp * 32 + (lane & (share - 1)), first = c_.head << c_.parts_shift;
    const TaggedFloat* from[kMostContextParts + 2];
    float x[kMostContextParts + 2];
#pragma unroll
    for (int i = 0; i < kMostContextParts; ++i) {
      const int part = group + i * groups;
      from[i] = part < parts ? a_.parts + (first + part) * kHeadDim + dim : nullptr;
    }
    for (int i = 0; i < 2; ++i)
      from[kMostContextParts + i] = lane < parts ? a_.part_sizes + 2 * (first + lane) + i : nullptr;
    load_words(from, tag, x);
    const float largest = lane < parts ? x[kMostContextParts] : -INFINITY,
                weight = part_weight(largest, warp_largest(largest)),
                total = warp_sum(weight * x[kMostContextParts + 1]);
    float sum = 0.f;
#pragma unroll
    for (int i = 0; i < kMostContextParts; ++i)
      sum += __shfl_sync(kAllLanes, weight, min(group + i * groups, 31)) * x[i];
#pragma unroll 1
    for (int offset = 16; offset >= share; offset /= 2) sum += __shfl_xor_sync(kAllLanes, sum, offset);
    if (lane < share) store_context(a_, p_, c_.head * kHeadDim + dim, sum / total);
  }

  const PersistentArgs& a_;
  const TokenPhase& p_;
  const ContextPart& c_;
  int block_ = 0, stored_;  // of this part's keys, those from stored_ on aren't in the pages
  bool appends_;
  bool has_own_;  // this thread has a pair of the row's own key and value
  float16* own_place_;
  float2 angle_;
  float q_gain_[2], k_gain_[2], own_[4] = {};
  float q_scale_, v_scale_ = 0.f, own_score_ = 0.f, largest_ = -INFINITY;
  float4 q_[B::kChunks][2];
  uint4 keys_[B::kScoreLoads][B::kChunks][2], values_[B::kValueLoads][2];
};

/// A phase in which this CTA does nothing.
template <class KeepNext>
__device__ void pass_phase(const KeepNext& keep_next) {
  SyncVectorThreads()();  // all warps have left the phase in front
  keep_next();
  SyncVectorThreads()();
}

/// This CTA's part of attention, if it has one. `rope` has the sines and cosines of the head size at the
/// row's position.
template <int kHeadDim, bool kTimed, class KeepNext>
__device__ void attend_part(const PersistentArgs& a, const TokenPhase& p, int index, const ContextPart& part,
                            const float2* rope, float* scratch, const KeepNext& keep_next) {
  if (part.kv_head < 0) return pass_phase(keep_next);
  PartAttention<kHeadDim, kTimed>(a, p, part, rope)
      .run(*reinterpret_cast<AttentionScratch<kHeadDim>*>(scratch), index, keep_next);
}

}  // namespace carat::cuda
