// Attention of one row: norms and rotation of q, k and v, the append to the pages, softmax(q K^T) V.
//
// Every query head has a cluster of eight CTAs that share out its keys, and each CTA's warps share out its
// part. A warp streams keys and values of earlier tokens through a ring of its own, whose first keys are on
// their way before the kernel waits for its input, norms and rotates q itself, and keeps q, its softmax and
// its part of the context in registers: no barrier between the warps until they join their parts, but where
// the row's own key is. The CTAs send theirs to the one that joins them, a share of the dimensions each, so
// the output projection finds one finished vector. Heads that share a kv head read its keys from L2: fine for
// short contexts; attention_raw.cu serves the long ones.
#include <algorithm>

#include "cuda/attention_tile.h"
#include "cuda/decode.h"
#include "cuda/kv_address.h"
#include "cuda/kv_int8.h"
#include "cuda/lane_head.h"
#include "cuda/launch.h"
#include "cuda/math.h"
#include "cuda/ptx.h"

namespace carat::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32, kCluster = kAttentionCluster;

/// At most 64 registers a thread: what two products leave.
constexpr int kResident = 4;

/// What is read of keys and values.
enum class Read { high_halves, both_halves, int8 };

/// What a warp has on chip: a ring of two groups of keys. A key is followed by its value, then by the low
/// halves of both where they are read; of int8 it is a record as the pages have it.
template <int kHeadDim, Read kRead>
struct Shape {
  static constexpr int kDim = kHeadDim;
  static constexpr bool kInt8 = kRead == Read::int8;
  static constexpr int kHalves = kRead == Read::both_halves ? 2 : 1;
  static constexpr int kChunks = kHeadDim / 8;                   // 16-byte chunks of a key, or int8 record
  static constexpr int kLaneChunks = std::max(1, kChunks / 32);  // that one lane multiplies
  static constexpr int kVectorBytes = 2 * kHeadDim * (kInt8 ? 1 : 2 * kHalves);  // of a key and its value
  static constexpr int kKeyElements = kInt8 ? kv_stride(kHeadDim, true) : 2 * kHalves * kHeadDim;
  /// All warps together leave room for the next kernel's weights.
  static constexpr int kRingBytes = 64 * 1024 / kWarps;
  static constexpr int kGroup = std::clamp(kRingBytes / 2 / kVectorBytes, 1, 4);  // keys
  static constexpr int kRingElements = 2 * kGroup * kKeyElements;
  static constexpr int kSharedBytes = kWarps * kRingElements * 2;

  // A lane's elements of a head's vector: chunks of eight.
  static constexpr int kLaneElements = kLaneChunks * 8;
  __device__ static int chunk(int c) { return c * 32 + static_cast<int>(threadIdx.x) % 32; }
  __device__ static bool mine(int c) { return chunk(c) < kChunks; }
};

template <int kHeadDim>
struct Shared {
  float q_gain[kHeadDim], k_gain[kHeadDim], sine[kHeadDim / 2], cosine[kHeadDim / 2];
  float k[kHeadDim], v[kHeadDim];  // of the row itself, where this CTA has its key
  float largest_of_own[2];         // int8: their largest magnitudes
  float warp_largest[kWarps], warp_total[kWarps];
  // What the cluster's CTAs send of this CTA's share of the dimensions, and what it is relative to.
  float parts[kCluster][kHeadDim / kCluster], largest[kCluster], total[kCluster];
  uint64_t joined;  // counts their bytes

  /// By one thread. The cluster's CTAs may send once all of them have done so.
  __device__ void expect_parts() {
    ptx::barrier_init(&joined, 1);
    ptx::fence_barrier_init();
    ptx::barrier_expect(&joined, kCluster * (kHeadDim / kCluster + 2) * 4);
  }
};

/// kv_address() with reads past L1: before the wait, the page table may have been written by a kernel that
/// overlaps.
template <bool kInt8>
__device__ float16* fresh_kv_address(const DecodeAttentionArgs& a, int position, int kv_head) {
  const KvLayer& kv = a.kv;
  const int page = __ldcg(a.tables.pages + __ldcg(a.tables.offset + kv.group) + position / kv.page_tokens);
  return kv.keys + page * kv.page_stride +
         (static_cast<std::size_t>(kv_head) * kv.page_tokens + position % kv.page_tokens) *
             kv_stride(kv.head_dim, kInt8);
}

/// The keys [first, last) of this CTA.
struct Keys {
  int first, last;
};

__device__ inline Keys keys_of(int position, int window, int rank) {
  const int begin = window > 0 ? max(0, position - window + 1) : 0, count = position + 1 - begin;
  const int each = (count + kCluster - 1) / kCluster, first = min(begin + rank * each, position + 1);
  return {first, min(first + each, position + 1)};
}

/// What norms and rotation multiply with, read before the kernel waits.
template <int kHeadDim>
__device__ void load_constants(const DecodeAttentionArgs& a, Shared<kHeadDim>& s, int position) {
  constexpr int kHalf = kHeadDim / 2;
  static_assert(kHalf <= kThreads);
#pragma unroll 1
  for (int i = threadIdx.x; i < kHeadDim; i += kThreads) {
    s.q_gain[i] = a.q_norm[i];
    if (a.writes_kv) s.k_gain[i] = a.k_norm[i];
  }
  const int j = threadIdx.x;
  if (j < kHalf) {
    float sine = 0.f, cosine = 1.f;
    if (j < a.rotary_pairs) sincosf(static_cast<float>(position) * a.frequencies[j], &sine, &cosine);
    s.sine[j] = sine;
    s.cosine[j] = cosine;
  }
  __syncthreads();
}

/// k and v into shared memory, by one warp each.
template <class S>
__device__ void prepare_own(const DecodeAttentionArgs& a, Shared<S::kDim>& s, int kv_head) {
  const int warp = threadIdx.x / 32;
  if (warp < 2) {
    const float* k = a.qkv + (a.heads + kv_head) * S::kDim;
    float x[S::kLaneElements];
    load_head<S>(warp == 1 && a.has_v ? k + a.kv.kv_heads * S::kDim : k, x);
    norm_head<S>(a.eps, x);
    if (warp == 0) rotate_head<S>(s.k_gain, s.sine, s.cosine, x);
    store_head<S>(warp == 0 ? s.k : s.v, x);
    if constexpr (S::kInt8) {
      float largest = 0.f;
#pragma unroll
      for (float v : x) largest = ptx::max_or_nan(largest, fabsf(v));
      s.largest_of_own[warp] = warp_max_or_nan(largest);
    }
  }
  __syncthreads();
}

/// The row's own key and value as an int8 record, by `count` threads of which this is `thread`.
template <int kHeadDim>
__device__ void write_record(const Shared<kHeadDim>& s, float16* record, int thread, int count) {
  constexpr int kWords = kHeadDim / 4;
  auto* words = reinterpret_cast<uint32_t*>(record);
#pragma unroll 1
  for (int i = thread; i < 2 * kWords; i += count) {
    const HeadScale scale(s.largest_of_own[i / kWords]);
    words[i] = scale.bytes(load4(i < kWords ? s.k : s.v, i % kWords));
  }
  if (thread < 2)
    reinterpret_cast<float*>(record + kHeadDim)[thread] = HeadScale(s.largest_of_own[thread]).scale();
}

/// The row's own key and value into the pages.
template <int kHeadDim, bool kInt8>
__device__ void append(const DecodeAttentionArgs& a, const Shared<kHeadDim>& s, float16* page) {
  if constexpr (kInt8) {
    write_record<kHeadDim>(s, page, threadIdx.x, kThreads);
  } else {
#pragma unroll 1
    for (int i = threadIdx.x; i < kHeadDim; i += kThreads) {
      store_kv(a.kv, page, i, s.k[i]);
      store_kv(a.kv, page, a.kv.value_offset + i, s.v[i]);
    }
  }
}

/// One warp's keys, every eighth of the CTA's, and what it makes of them.
template <int kHeadDim, Read kRead>
class WarpKeys {
  using S = Shape<kHeadDim, kRead>;

 public:
  /// `stored`: keys from there on are not in the pages yet.
  __device__ WarpKeys(const DecodeAttentionArgs& a, float16* ring, const Keys& range, int stored, int kv_head)
      : a_(a),
        ring_(ring),
        first_(range.first + static_cast<int>(threadIdx.x) / 32),
        count_(max(0, (range.last - first_ + kWarps - 1) / kWarps)),
        stored_(stored),
        kv_head_(kv_head) {
#pragma unroll 1
    for (int group = 0; group < 2; ++group) load_group(group);
  }

  /// The softmax of all keys of a query that is ready; k and v of the row itself are in shared memory by now.
  __device__ void walk(const Shared<kHeadDim>& s, const float (&q)[S::kLaneElements]) {
#pragma unroll 1
    for (int group = 0; group * S::kGroup < count_; ++group) {
      ptx::async_wait<1>();
      if (position_of(group, S::kGroup) > stored_) place_own(s, group);
      __syncwarp();
      add_group(q, group);
      __syncwarp();
      load_group(group + 2);
    }
  }

  /// Leaves this warp's part of the context where its ring was.
  __device__ void publish(Shared<kHeadDim>& s) const {
    const int warp = threadIdx.x / 32;
    float* part = reinterpret_cast<float*>(ring_);
#pragma unroll
    for (int c = 0; c < S::kLaneChunks; ++c)
#pragma unroll
      for (int i = 0; i < 8; ++i)
        if (S::mine(c)) part[S::chunk(c) * 8 + i] = context_[c * 8 + i];
    s.warp_largest[warp] = largest_;
    s.warp_total[warp] = total_;
  }

 private:
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ int position_of(int group, int key) const { return first_ + (group * S::kGroup + key) * kWarps; }
  __device__ float16* slot(int group, int key) const {
    return ring_ + (group % 2 * S::kGroup + key) * S::kKeyElements;
  }

  /// Starts the copy of a group's keys and values. The lanes look up the addresses of 32 keys at a time.
  __device__ void load_group(int group) {
    if (group * S::kGroup % 32 == 0) {
      const int position = position_of(group, lane());
      if (group * S::kGroup + lane() < count_ && position < stored_)
        address_ = fresh_kv_address<S::kInt8>(a_, position, kv_head_);
    }
#pragma unroll 1
    for (int key = 0; key < S::kGroup; ++key) {
      const int index = group * S::kGroup + key;
      if (index >= count_ || position_of(group, key) >= stored_) continue;
      const auto* from = reinterpret_cast<const float16*>(
          __shfl_sync(kAllLanes, reinterpret_cast<unsigned long long>(address_), index % 32));
      copy_key(slot(group, key), from);
    }
    ptx::async_commit();
  }

  __device__ void copy_key(float16* to, const float16* from) {
    constexpr int kParts = S::kInt8 ? 1 : 2 * S::kHalves;
#pragma unroll
    for (int c = 0; c < S::kLaneChunks; ++c)
#pragma unroll
      for (int part = 0; part < kParts; ++part)
        if (S::mine(c))
          ptx::async_copy16(
              to + part * kHeadDim + S::chunk(c) * 8,
              from + part / 2 * a_.kv.low_offset + part % 2 * a_.kv.value_offset + S::chunk(c) * 8, true);
    if (S::kInt8 && lane() == 0) ptx::async_copy16(to + kHeadDim, from + kHeadDim, true);  // the scales
  }

  /// The row's own key and value, as the pages will have them.
  __device__ void place_own(const Shared<kHeadDim>& s, int group) {
#pragma unroll 1
    for (int key = 0; key < S::kGroup; ++key) {
      if (position_of(group, key) != stored_ || group * S::kGroup + key >= count_) continue;
      if constexpr (S::kInt8) {
        write_record<kHeadDim>(s, slot(group, key), lane(), 32);
      } else {
#pragma unroll 1
        for (int i = lane(); i < 2 * kHeadDim; i += 32) {
          const float x = i < kHeadDim ? s.k[i] : s.v[i - kHeadDim];
          const float16 high = __float2half_rn(x);
          slot(group, key)[i] = high;
          if (S::kHalves == 2) slot(group, key)[2 * kHeadDim + i] = __float2half_rn(x - __half2float(high));
        }
      }
    }
  }

  /// Eight neighbouring elements of a key or value, without the scale of int8.
  __device__ static void load8(const float16* high, int chunk, float (&v)[8]) {
    if constexpr (S::kInt8) {
      const uint2 bytes = reinterpret_cast<const uint2*>(high)[chunk];
      const uint32_t words[2] = {unsigned_bytes(bytes.x), unsigned_bytes(bytes.y)};
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        v[4 * i] = float_of<0>(words[i]), v[4 * i + 1] = float_of<1>(words[i]);
        v[4 * i + 2] = float_of<2>(words[i]), v[4 * i + 3] = float_of<3>(words[i]);
      }
    } else {
      add8<false>(high, chunk, v);
      if (S::kHalves == 2) add8<true>(high + 2 * kHeadDim, chunk, v);
    }
  }
  /// Of an int8 key, or its value.
  __device__ float scale(int group, int key, int of_value) const {
    return reinterpret_cast<const float*>(slot(group, key) + kHeadDim)[of_value];
  }
  template <bool kAdd>
  __device__ static void add8(const float16* from, int chunk, float (&v)[8]) {
    const uint4 halves = reinterpret_cast<const uint4*>(from)[chunk];
    const uint32_t words[4] = {halves.x, halves.y, halves.z, halves.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 pair = __half22float2(reinterpret_cast<const __half2&>(words[i]));
      v[2 * i] = pair.x + (kAdd ? v[2 * i] : 0.f);
      v[2 * i + 1] = pair.y + (kAdd ? v[2 * i + 1] : 0.f);
    }
  }

  __device__ void add_group(const float (&q)[S::kLaneChunks * 8], int group) {
    float scores[S::kGroup] = {};
#pragma unroll
    for (int key = 0; key < S::kGroup; ++key)
#pragma unroll
      for (int c = 0; c < S::kLaneChunks; ++c) {
        if (!S::mine(c)) continue;
        float k[8];
        load8(slot(group, key), S::chunk(c), k);
#pragma unroll
        for (int i = 0; i < 8; ++i) scores[key] += k[i] * q[c * 8 + i];
      }
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
#pragma unroll
      for (int key = 0; key < S::kGroup; ++key)
        scores[key] += __shfl_xor_sync(kAllLanes, scores[key], offset);
    float largest = largest_;
#pragma unroll
    for (int key = 0; key < S::kGroup; ++key) {
      if constexpr (S::kInt8) scores[key] *= scale(group, key, 0);
      if (group * S::kGroup + key >= count_) scores[key] = -INFINITY;  // what lies in its slot counts not
      largest = fmaxf(largest, scores[key]);
    }
    const float rescale = exp2f(largest_ - largest);
    largest_ = largest;
    total_ *= rescale;
#pragma unroll
    for (float& x : context_) x *= rescale;
#pragma unroll
    for (int key = 0; key < S::kGroup; ++key) {
      if (group * S::kGroup + key >= count_) continue;
      float weight = exp2f(scores[key] - largest);
      total_ += weight;
      if constexpr (S::kInt8) weight *= scale(group, key, 1);
#pragma unroll
      for (int c = 0; c < S::kLaneChunks; ++c) {
        if (!S::mine(c)) continue;
        float v[8];
        load8(slot(group, key) + (S::kInt8 ? kHeadDim / 2 : kHeadDim), S::chunk(c), v);
#pragma unroll
        for (int i = 0; i < 8; ++i) context_[c * 8 + i] += weight * v[i];
      }
    }
  }

  const DecodeAttentionArgs& a_;
  float16* ring_;
  const float16* address_ = nullptr;
  int first_, count_, stored_, kv_head_;
  float largest_ = -INFINITY, total_ = 0.f;  // of scores in powers of two
  float context_[S::kLaneChunks * 8] = {};
};

/// The warps' parts become the CTA's, which goes to the CTAs that join them.
template <int kHeadDim>
__device__ void send_parts(Shared<kHeadDim>& s, const float* parts, int stride, int rank) {
  constexpr int kShare = kHeadDim / kCluster;
  float largest = -INFINITY, total = 0.f, scale[kWarps];
#pragma unroll
  for (int w = 0; w < kWarps; ++w) largest = fmaxf(largest, s.warp_largest[w]);
  const float base = largest == -INFINITY ? 0.f : largest;  // there may be no key at all
#pragma unroll
  for (int w = 0; w < kWarps; ++w) {
    scale[w] = exp2f(s.warp_largest[w] - base);
    total += s.warp_total[w] * scale[w];
  }
#pragma unroll 1
  for (int i = threadIdx.x; i < kHeadDim; i += kThreads) {
    float sum = 0.f;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) sum += parts[w * stride + i] * scale[w];
    ptx::store_remote(&s.parts[rank][i % kShare], sum, i / kShare, &s.joined);
  }
  if (threadIdx.x < kCluster) {
    ptx::store_remote(&s.largest[rank], largest, threadIdx.x, &s.joined);
    ptx::store_remote(&s.total[rank], total, threadIdx.x, &s.joined);
  }
}

/// The CTAs' parts become the head's context: each thread joins one dimension of this CTA's share.
template <int kHeadDim>
__device__ void join_parts(Shared<kHeadDim>& s, int rank, float* context) {
  constexpr int kShare = kHeadDim / kCluster;
  ptx::barrier_wait(&s.joined, 0);
  if (threadIdx.x >= kShare) return;
  float most = -INFINITY, sum = 0.f, weight = 0.f;
#pragma unroll
  for (int r = 0; r < kCluster; ++r) most = fmaxf(most, s.largest[r]);
#pragma unroll
  for (int r = 0; r < kCluster; ++r) {
    const float scale = exp2f(s.largest[r] - most);
    sum += s.parts[r][threadIdx.x] * scale;
    weight += s.total[r] * scale;
  }
  context[rank * kShare + threadIdx.x] = sum / weight;
}

template <int kHeadDim, Read kRead>
__global__ void __launch_bounds__(kThreads, kResident)
    decode_attention_kernel(const __grid_constant__ DecodeAttentionArgs a) {
  using S = Shape<kHeadDim, kRead>;
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ Shared<kHeadDim> s;
  float16* rings = reinterpret_cast<float16*>(shared);
  if (threadIdx.x == 0) s.expect_parts();
  ptx::cluster_arrive();
  ptx::launch_dependents();
  // Before the wait may be read: what the host sent (position, page tables), the pages of earlier tokens, and
  // what layers before this one appended: their down projections let nothing start before everything in front
  // of them had ended.
  const int head = blockIdx.y, position = __ldcg(a.position), rank = static_cast<int>(ptx::cluster_rank());
  const int group_size = a.heads / a.kv.kv_heads, kv_head = head / group_size;
  const Keys range = keys_of(position, a.window, rank);
  const bool appends = a.writes_kv && range.first <= position && position < range.last;
  const int stored = appends ? position : range.last;  // keys that the pages hold already
  WarpKeys<kHeadDim, kRead> keys(a, rings + threadIdx.x / 32 * S::kRingElements, range, stored, kv_head);
  load_constants<kHeadDim>(a, s, position + a.lead);
  float16* page =
      appends && head % group_size == 0 ? fresh_kv_address<S::kInt8>(a, position, kv_head) : nullptr;
  ptx::wait_for_dependencies();

  float q[S::kLaneElements];
  load_head<S>(a.qkv + head * kHeadDim, q);
  if (appends) prepare_own<S>(a, s, kv_head);
  if (page) append<kHeadDim, S::kInt8>(a, s, page);
  norm_head<S>(a.eps, q);
  rotate_head<S>(s.q_gain, s.sine, s.cosine, q);
#pragma unroll
  for (float& x : q) x *= kLog2e;
  keys.walk(s, q);
  keys.publish(s);
  __syncthreads();
  ptx::cluster_wait();  // everybody expects parts by now
  send_parts<kHeadDim>(s, reinterpret_cast<const float*>(rings), S::kRingElements / 2, rank);
  join_parts<kHeadDim>(s, rank, a.context + head * kHeadDim);
}

template <int kHeadDim, Read kRead>
void launch_decode_attention(Queue& queue, const DecodeAttentionArgs& a) {
  launch(queue,
         LaunchShape{dim3(kCluster, a.heads), kThreads, Shape<kHeadDim, kRead>::kSharedBytes, kCluster},
         decode_attention_kernel<kHeadDim, kRead>, a);
}

}  // namespace

void decode_attention(Queue& queue, const DecodeAttentionArgs& args) {
  with_head_dim(queue, args.kv, [&](auto head_dim, auto int8) {
    if constexpr (int8) {
      launch_decode_attention<head_dim, Read::int8>(queue, args);
    } else if (args.halves == 2) {
      launch_decode_attention<head_dim, Read::both_halves>(queue, args);
    } else {
      launch_decode_attention<head_dim, Read::high_halves>(queue, args);
    }
  });
}

}  // namespace carat::cuda
