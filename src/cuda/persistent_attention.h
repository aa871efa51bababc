// Attention inside the persistent kernel: every CTA takes one query head and a part of its keys, each warp
// some of those. A lane holds 8 or 16 dimensions of q, of a key, of a value and of the context; keys go
// straight from L2 to registers, the first of them before the CTA waits for q. Included by .cu files only.
#pragma once
#include "cuda/math.h"
#include "cuda/persistent.h"
#include "cuda/ptx.h"
#include "cuda/vector_phase.h"

namespace carat::cuda {

/// The barrier of the threads that compute.
struct SyncVectorThreads {
  __device__ void operator()() const { ptx::sync_first_threads<kVectorThreads>(); }
};

__device__ inline unsigned* counter_of(const PersistentArgs& a, int phase) {
  return a.counters + phase * kCounterWords;
}

/// Until all CTAs have ended the phase that `p` waits for. A counter that doesn't come ends the kernel with
/// an error. What the phase wrote is visible afterwards, unless it is tagged: tags speak for themselves.
inline constexpr int kMostPolls = 1 << 22;  // seconds
__device__ inline void wait_for(const PersistentArgs& a, int phase, bool tagged, unsigned missing = 0) {
  if (threadIdx.x == 0 && phase >= 0) {
    const unsigned* counter = counter_of(a, phase);
    const unsigned target = a.launch * gridDim.x - missing;
    const auto late = [&](unsigned arrived) { return static_cast<int>(arrived - target) < 0; };
    int polls = 0;
    while (late(tagged ? ptx::load_relaxed(counter) : ptx::load_acquire(counter)))
      if (++polls == kMostPolls) __trap();
  }
  SyncVectorThreads()();
}

__device__ inline uint32_t tag_of(const PersistentArgs& a, int phase) {
  return a.launch * static_cast<unsigned>(a.phase_count) + static_cast<unsigned>(phase);
}

__device__ inline TaggedFloat tagged(uint32_t tag, float v) {
  return uint64_t{tag} << 32 | __float_as_uint(v);
}

/// Vectors [4 at[n], 4 at[n] + 4) of tagged words, or zeros where at[n] is negative, once all are there.
template <int kCount>
__device__ inline void load_tagged(const TaggedFloat* words, const int (&at)[kCount], uint32_t tag,
                                   float4 (&out)[kCount]) {
  bool complete = false;
  for (int polls = 0; !complete; ++polls) {
    if (polls == kMostPolls) __trap();
    ulonglong2 pairs[kCount][2];
#pragma unroll
    for (int n = 0; n < kCount; ++n)
#pragma unroll
      for (int i = 0; i < 2; ++i)
        pairs[n][i] = at[n] >= 0 ? ptx::load_relaxed_pair(words + 4 * at[n] + 2 * i)
                                 : make_ulonglong2(uint64_t{tag} << 32, uint64_t{tag} << 32);
    uint32_t wrong = 0;
#pragma unroll
    for (int n = 0; n < kCount; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i)
        wrong |= (static_cast<uint32_t>(pairs[n][i].x >> 32) ^ tag) |
                 (static_cast<uint32_t>(pairs[n][i].y >> 32) ^ tag);
      const auto value = [](uint64_t word) { return __uint_as_float(static_cast<uint32_t>(word)); };
      out[n] =
          make_float4(value(pairs[n][0].x), value(pairs[n][0].y), value(pairs[n][1].x), value(pairs[n][1].y));
    }
    complete = wrong == 0;
  }
}

/// Parts into which attention splits the keys of a head.
__device__ inline int context_parts(int heads, int window, int position) {
  constexpr int kKeysOfPart = 32;
  const int keys = window > 0 ? min(position + 1, window) : position + 1;
  const int most = min(kMostContextParts, static_cast<int>(gridDim.x) / heads);
  return max(1, min(most, (keys + kKeysOfPart - 1) / kKeysOfPart));
}

/// How a warp shares out one key after another: kLanes lanes have kChunks times 8 neighbouring dimensions.
template <int kHeadDim>
struct KeyLanes {
  static constexpr int kLanes = kHeadDim / 8 < 32 ? kHeadDim / 8 : 32, kChunks = kHeadDim / 8 / kLanes;
  static constexpr int kAtOnce = 32 / kLanes;            // keys of a warp at a time
  static constexpr int kUnits = kVectorWarps * kAtOnce;  // keys of a CTA at a time
  static constexpr int kDims = 8 * kChunks;              // of a lane
  static constexpr int kBatch = kChunks == 1 ? 4 : 1;    // keys of a unit whose loads overlap

  static __device__ int lane() { return threadIdx.x % kLanes; }
  static __device__ int unit() { return threadIdx.x / kLanes; }
  /// The dimension of element i of a lane.
  static __device__ int dim(int i) { return (i / 8 * kLanes + lane()) * 8 + i % 8; }
  static __device__ float sum(float v) {
#pragma unroll
    for (int offset = kLanes / 2; offset > 0; offset /= 2) v += __shfl_xor_sync(kAllLanes, v, offset);
    return v;
  }
};

/// A lane's dimensions of a key and its value, as the pages have them.
template <int kHeadDim>
struct KeyValue {
  uint4 high[2][KeyLanes<kHeadDim>::kChunks], low[2][KeyLanes<kHeadDim>::kChunks];
};

template <int kHeadDim>
class PartAttention {
  using L = KeyLanes<kHeadDim>;

 public:
  /// Starts reading the keys that are there before q is.
  __device__ PartAttention(const PersistentArgs& a, const TokenPhase& p, const int32_t* pages, int position,
                           int parts)
      : a_(a),
        p_(p),
        pages_(pages),
        position_(position),
        head_(blockIdx.x % p.heads),
        part_(blockIdx.x / p.heads) {
    const int begin = p.window > 0 ? max(0, position - p.window + 1) : 0;
    const int each = (position + 1 - begin + parts - 1) / parts;
    first_ = min(begin + part_ * each, position + 1);
    const int last = min(first_ + each, position + 1);
    appends_ = p.writes_kv && first_ <= position && last == position + 1;
    stored_ = appends_ ? position : last;
    both_halves_ = p.window > 0 || position < kBothHalves;
    kv_head_ = head_ / (p.heads / p.kv.kv_heads);
    next_ = first_ + L::unit();
    load(batch_);
    owns_ = appends_ && threadIdx.x / 32 == kVectorWarps - 1;
    own_page_ = owns_ ? address(position) : nullptr;
#pragma unroll
    for (int i = 0; i < L::kDims; ++i) q_gain_[i] = p.q_norm[L::dim(i)];
  }

  /// `rope` has the sines and cosines of this head size at the row's position.
  __device__ void run(const float2* rope, float* scratch) {
    load_head(head_, q_);
    apply(q_gain_, rope, q_);
#pragma unroll
    for (int i = 0; i < L::kDims; ++i) q_[i] *= kLog2e;  // weights are powers of two
    if (owns_) add_own(rope);
    // The loop is the same for all lanes of a warp.
    const int warp_first = first_ + static_cast<int>(threadIdx.x) / 32 * L::kAtOnce;
#pragma unroll 1
    for (int first = warp_first; first < stored_; first += L::kBatch * L::kUnits) {
      add(batch_, first + L::unit() % L::kAtOnce);
      load(batch_);
    }
    join(scratch);
  }

 private:
  /// Short contexts read keys and values with both halves, long ones those of sliding layers only.
  static constexpr int kBothHalves = 256;
  static constexpr float kLog2e = 1.4426950408889634f;

  __device__ float16* address(int key) const {
    const KvLayer& kv = p_.kv;
    const int page = key / kv.page_tokens;
    return kv.keys + pages_[page] * kv.page_stride +
           (static_cast<std::size_t>(kv_head_) * kv.page_tokens + (key - page * kv.page_tokens)) * kHeadDim;
  }

  static __device__ uint4 load(const float16* from, bool wanted) {
    return wanted ? __ldcg(reinterpret_cast<const uint4*>(from)) : make_uint4(0, 0, 0, 0);
  }

  /// The next keys of this unit, as far as there are any.
  __device__ void load(KeyValue<kHeadDim> (&batch)[L::kBatch]) {
#pragma unroll
    for (int b = 0; b < L::kBatch; ++b, next_ += L::kUnits) {
      const bool there = next_ < stored_;
      const float16* token = there ? address(next_) : p_.kv.keys;
#pragma unroll
      for (int c = 0; c < L::kChunks; ++c)
#pragma unroll
        for (int which = 0; which < 2; ++which) {
          const float16* from = token + which * p_.kv.value_offset + L::dim(8 * c);
          batch[b].high[which][c] = load(from, there);
          batch[b].low[which][c] = load(from + p_.kv.low_offset, there && both_halves_);
        }
    }
  }

  __device__ void unpack(const KeyValue<kHeadDim>& kv, int which, float (&x)[L::kDims]) const {
#pragma unroll
    for (int c = 0; c < L::kChunks; ++c) {
      const __half2* high = reinterpret_cast<const __half2*>(&kv.high[which][c]);
      const __half2* low = reinterpret_cast<const __half2*>(&kv.low[which][c]);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float2 v = __half22float2(high[i]);
        if (both_halves_) {
          const float2 rest = __half22float2(low[i]);
          v.x += rest.x;
          v.y += rest.y;
        }
        x[8 * c + 2 * i] = v.x;
        x[8 * c + 2 * i + 1] = v.y;
      }
    }
  }

  /// Adds the keys `key`, `key` + kUnits and so on to the running softmax; those from stored_ on aren't
  /// there.
  __device__ void add(const KeyValue<kHeadDim> (&batch)[L::kBatch], int key) {
    float scores[L::kBatch], x[L::kDims];
#pragma unroll
    for (int b = 0; b < L::kBatch; ++b) {
      unpack(batch[b], 0, x);
      scores[b] = score(x);
      if (key + b * L::kUnits >= stored_) scores[b] = -INFINITY;
    }
    float largest = largest_;
#pragma unroll
    for (int b = 0; b < L::kBatch; ++b) largest = fmaxf(largest, scores[b]);
    rescale(largest);
#pragma unroll
    for (int b = 0; b < L::kBatch; ++b) {
      if (key + b * L::kUnits >= stored_) continue;
      unpack(batch[b], 1, x);
      add_value(scores[b], x);
    }
  }

  __device__ float score(const float (&key)[L::kDims]) const {
    float sum = 0.f;
#pragma unroll
    for (int i = 0; i < L::kDims; ++i) sum += q_[i] * key[i];
    return L::sum(sum);
  }

  __device__ void rescale(float largest) {
    if (largest == -INFINITY) return;
    const float scale = exp2f(largest_ - largest);
    total_ *= scale;
#pragma unroll
    for (int i = 0; i < L::kDims; ++i) context_[i] *= scale;
    largest_ = largest;
  }

  __device__ void add_value(float score, const float (&value)[L::kDims]) {
    const float weight = exp2f(score - largest_);
    total_ += weight;
#pragma unroll
    for (int i = 0; i < L::kDims; ++i) context_[i] += weight * value[i];
  }

  /// This lane's dimensions of head `index` among the raw q, k and v, normed without a gain.
  __device__ void load_head(int index, float (&x)[L::kDims]) const {
    constexpr int kVectors = L::kDims / 4;
    int at[kVectors];
    float4 raw[kVectors];
#pragma unroll
    for (int i = 0; i < kVectors; ++i) at[i] = (index * kHeadDim + L::dim(4 * i)) / 4;
    load_tagged(a_.qkv, at, tag_of(a_, p_.wait_for), raw);
    float squares = 0.f;
#pragma unroll
    for (int i = 0; i < kVectors; ++i) squares += cuda::dot(raw[i], raw[i]);
    const float scale = rsqrtf(L::sum(squares) / static_cast<float>(kHeadDim) + a_.eps);
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      x[4 * i] = raw[i].x * scale, x[4 * i + 1] = raw[i].y * scale;
      x[4 * i + 2] = raw[i].z * scale, x[4 * i + 3] = raw[i].w * scale;
    }
  }

  __device__ void apply(const float (&gain)[L::kDims], const float2* rope, float (&x)[L::kDims]) const {
#pragma unroll
    for (int i = 0; i < L::kDims; ++i) x[i] *= gain[i];
    rotate(rope, x);
  }

  /// `rope` has sines and cosines. Dimensions j and j + kHeadDim / 2 are a pair: of one lane, or of two lanes
  /// half of them apart.
  __device__ void rotate(const float2* rope, float (&x)[L::kDims]) const {
    constexpr int kHalf = kHeadDim / 2;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int pair = L::dim(i) % kHalf;
      const float2 angle = pair < a_.rotary_pairs[p_.kv.group] ? rope[pair] : make_float2(0.f, 1.f);
      if constexpr (L::kChunks == 2) {
        const float first = x[i], second = x[i + 8];
        x[i] = first * angle.y - second * angle.x;
        x[i + 8] = second * angle.y + first * angle.x;
      } else {
        const float other = __shfl_xor_sync(kAllLanes, x[i], L::kLanes / 2);
        x[i] = x[i] * angle.y + (L::lane() < L::kLanes / 2 ? -other : other) * angle.x;
      }
    }
  }

  /// The row's own key and value: into the pages, by one CTA per kv head, and into the softmax. A whole warp.
  __device__ void add_own(const float2* rope) {
    const bool stores = head_ % (p_.heads / p_.kv.kv_heads) == 0 && threadIdx.x % 32 < L::kLanes;
    const int key = p_.heads + kv_head_, value = p_.has_v ? key + p_.kv.kv_heads : key;
    float k[L::kDims], v[L::kDims], gain[L::kDims];
#pragma unroll
    for (int i = 0; i < L::kDims; ++i) gain[i] = p_.k_norm[L::dim(i)];
    load_head(key, k);
    apply(gain, rope, k);
    load_head(value, v);
    store(own_page_, stores, k);
    store(own_page_ + p_.kv.value_offset, stores, v);
    const float own = score(k);
    if (threadIdx.x % 32 >= L::kLanes) return;  // one unit of the warp has the key
    rescale(fmaxf(largest_, own));
    add_value(own, v);
  }

  /// Rounds x to what later steps will read.
  __device__ void store(float16* to, bool stores, float (&x)[L::kDims]) const {
#pragma unroll
    for (int c = 0; c < L::kChunks; ++c) {
      uint32_t high[4], low[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float* pair = x + 8 * c + 2 * i;
        const __half2 h = __floats2half2_rn(pair[0], pair[1]);
        const __half2 l = __floats2half2_rn(pair[0] - __low2float(h), pair[1] - __high2float(h));
        high[i] = bits(h);
        low[i] = bits(l);
        pair[0] = __low2float(h) + (both_halves_ ? __low2float(l) : 0.f);
        pair[1] = __high2float(h) + (both_halves_ ? __high2float(l) : 0.f);
      }
      if (!stores) continue;
      float16* at = to + L::dim(8 * c);
      *reinterpret_cast<uint4*>(at) = make_uint4(high[0], high[1], high[2], high[3]);
      *reinterpret_cast<uint4*>(at + p_.kv.low_offset) = make_uint4(low[0], low[1], low[2], low[3]);
    }
  }

  /// Joins the units of this CTA and writes its part.
  __device__ void join(float* scratch) const {
    float2* sizes = reinterpret_cast<float2*>(scratch + L::kUnits * kHeadDim);
    float* mine = scratch + L::unit() * kHeadDim;
#pragma unroll
    for (int i = 0; i < L::kDims; i += 4)
      *reinterpret_cast<float4*>(mine + L::dim(i)) =
          make_float4(context_[i], context_[i + 1], context_[i + 2], context_[i + 3]);
    if (L::lane() == 0) sizes[L::unit()] = make_float2(largest_, total_);
    SyncVectorThreads()();
    float most = -INFINITY, total = 0.f;
    for (int u = 0; u < L::kUnits; ++u) most = fmaxf(most, sizes[u].x);
    for (int u = 0; u < L::kUnits; ++u) total += sizes[u].y * weight(sizes[u].x, most);
    const int at = head_ * kMostContextParts + part_;
#pragma unroll 1
    for (int i = threadIdx.x; i < kHeadDim; i += kVectorThreads) {
      float sum = 0.f;
      for (int u = 0; u < L::kUnits; ++u) sum += scratch[u * kHeadDim + i] * weight(sizes[u].x, most);
      a_.parts[at * kHeadDim + i] = sum;
    }
    if (threadIdx.x == 0) a_.part_sizes[at] = make_float2(most, total);
  }

  static __device__ float weight(float largest, float most) {
    return largest == -INFINITY ? 0.f : exp2f(largest - most);
  }

  const PersistentArgs& a_;
  const TokenPhase& p_;
  const int32_t* pages_;  // of the sequence, in shared memory
  int position_, head_, part_, kv_head_, first_, stored_, next_;
  bool appends_, both_halves_, owns_;  // owns_: this warp adds the row's own key
  float16* own_page_;
  float q_gain_[L::kDims];
  KeyValue<kHeadDim> batch_[L::kBatch];
  float q_[L::kDims], context_[L::kDims] = {}, largest_ = -INFINITY, total_ = 0.f;
};

/// This CTA's part of attention. `rope` has the sines and cosines of the head size at the row's position.
template <int kHeadDim>
__device__ void attend_part(const PersistentArgs& a, const TokenPhase& p, const int32_t* pages, int position,
                            int parts, const float2* rope, float* scratch) {
  PartAttention<kHeadDim> attention(a, p, pages, position, parts);
  wait_for(a, p.wait_for, p.reads_tagged, p.missing);
  attention.run(rope, scratch);
}

/// The vectors i and i + kVectorThreads, where there are so many, of attention's context [heads, head_dim],
/// from its parts.
struct ContextPair {
  float4 sum[2];

  __device__ ContextPair(const PersistentArgs& a, const TokenPhase& p, int parts, int i) {
    constexpr int kAtOnce = 4;
    const int dim = p.kv.head_dim, shift = __ffs(dim) - 1;
    int at[2], column[2];
    float most[2], total[2];
#pragma unroll
    for (int v = 0; v < 2; ++v) {
      const int vector = 4 * (i + v * kVectorThreads) < p.cols ? i + v * kVectorThreads : i;
      at[v] = (4 * vector >> shift) * kMostContextParts;
      column[v] = 4 * vector & (dim - 1);
      most[v] = -INFINITY;
      total[v] = 0.f;
      sum[v] = make_float4(0.f, 0.f, 0.f, 0.f);
    }
#pragma unroll 1
    for (int first = 0; first < parts; first += kAtOnce) {
      float4 part[2][kAtOnce];
      float2 size[2][kAtOnce];
#pragma unroll
      for (int n = 0; n < kAtOnce; ++n)
#pragma unroll
        for (int v = 0; v < 2; ++v) {
          const int from = at[v] + min(first + n, parts - 1);
          size[v][n] = __ldcg(a.part_sizes + from);
          part[v][n] = __ldcg(reinterpret_cast<const float4*>(a.parts + (from << shift) + column[v]));
        }
#pragma unroll
      for (int v = 0; v < 2; ++v) add<kAtOnce>(part[v], size[v], parts - first, v, most[v], total[v]);
    }
#pragma unroll
    for (int v = 0; v < 2; ++v) {
      const float scale = 1.f / total[v];
      sum[v] = make_float4(sum[v].x * scale, sum[v].y * scale, sum[v].z * scale, sum[v].w * scale);
    }
  }

 private:
  template <int kAtOnce>
  __device__ void add(const float4 (&part)[kAtOnce], const float2 (&size)[kAtOnce], int count, int v,
                      float& most, float& total) {
    float now = most;
#pragma unroll
    for (int n = 0; n < kAtOnce; ++n) now = fmaxf(now, size[n].x);
    const float before = most == -INFINITY ? 0.f : exp2f(most - now);
    float4 x = make_float4(sum[v].x * before, sum[v].y * before, sum[v].z * before, sum[v].w * before);
    total *= before;
#pragma unroll
    for (int n = 0; n < kAtOnce; ++n) {
      const float weight = n >= count || size[n].x == -INFINITY ? 0.f : exp2f(size[n].x - now);
      total += size[n].y * weight;
      x = make_float4(x.x + part[n].x * weight, x.y + part[n].y * weight, x.z + part[n].z * weight,
                      x.w + part[n].w * weight);
    }
    sum[v] = x;
    most = now;
  }
};

}  // namespace carat::cuda
