// Attention of one row: norms and rotation of q, k and v, the append to the pages, softmax(q K^T) V.
//
// Every query head has a cluster of eight CTAs that share out its keys, and each CTA's warps share out its
// part. A warp streams keys and values of earlier tokens through a ring of its own, whose first keys are on
// their way before the kernel waits for its input, and keeps q, its softmax and its part of the context in
// registers: no barrier between the warps until they join their parts. The CTAs send theirs to the one that
// joins them, a share of the dimensions each, so the output projection finds one finished vector. Heads that
// share a kv head read its keys from L2: fine for short contexts; attention.cu serves the long ones.
#include <algorithm>

#include "cuda/attention_tile.h"
#include "cuda/decode.h"
#include "cuda/kv_address.h"
#include "cuda/launch.h"
#include "cuda/math.h"
#include "cuda/ptx.h"

namespace carat::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32, kCluster = kAttentionCluster;

/// What a warp has on chip: a ring of two groups of keys. A key is followed by its value, then by the low
/// halves of both where they are read.
template <int kHeadDim, int kHalves>
struct Shape {
  static constexpr int kChunks = kHeadDim / 8;                   // 16-byte chunks of a key
  static constexpr int kLaneChunks = std::max(1, kChunks / 32);  // that one lane multiplies
  static constexpr int kKeyElements = 2 * kHalves * kHeadDim;
  /// All warps together leave room for the next kernel's weights.
  static constexpr int kRingBytes = 64 * 1024 / kWarps;
  static constexpr int kGroup = std::clamp(kRingBytes / 2 / (kKeyElements * 2), 1, 4);  // keys
  static constexpr int kRingElements = 2 * kGroup * kKeyElements;
  static constexpr int kSharedBytes = kWarps * kRingElements * 2;
};

template <int kHeadDim>
struct Shared {
  float q[kHeadDim], k[kHeadDim], v[kHeadDim];
  float warp_largest[kWarps], warp_total[kWarps];
  float scratch[3][kWarps];
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
__device__ float16* fresh_kv_address(const DecodeAttentionArgs& a, int position, int kv_head) {
  const KvLayer& kv = a.kv;
  const int page = __ldcg(a.tables.pages + __ldcg(a.tables.offset + kv.group) + position / kv.page_tokens);
  return kv.keys + page * kv.page_stride +
         (static_cast<std::size_t>(kv_head) * kv.page_tokens + position % kv.page_tokens) * kv.head_dim;
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

__device__ inline void rotate(float& first, float& second, float sine, float cosine) {
  const float rotated = first * cosine - second * sine;
  second = second * cosine + first * sine;
  first = rotated;
}

/// What a thread needs for its pair of dimensions, read before the kernel waits.
struct PairConstants {
  float q_gain[2], k_gain[2], sine, cosine;
};

template <int kHeadDim>
__device__ PairConstants load_constants(const DecodeAttentionArgs& a, int position) {
  PairConstants c{{}, {}, 0.f, 1.f};
  const int j = threadIdx.x;
  if (j >= kHeadDim / 2) return c;
  for (int n = 0; n < 2; ++n) {
    c.q_gain[n] = a.q_norm[j + n * kHeadDim / 2];
    if (a.writes_kv) c.k_gain[n] = a.k_norm[j + n * kHeadDim / 2];
  }
  if (j < a.rotary_pairs) sincosf(static_cast<float>(position) * a.frequencies[j], &c.sine, &c.cosine);
  return c;
}

/// q, k, v into shared memory, normed and rotated; k and v only where `needs_kv`.
template <int kHeadDim>
__device__ void prepare(const DecodeAttentionArgs& a, Shared<kHeadDim>& s, int head, bool needs_kv,
                        const PairConstants& c) {
  constexpr int kHalf = kHeadDim / 2;
  static_assert(kHalf <= kThreads);
  const int kv_head = head / (a.heads / a.kv.kv_heads);
  const float* q = a.qkv + head * kHeadDim;
  const float* k = a.qkv + (a.heads + kv_head) * kHeadDim;
  const float* v = a.has_v ? k + a.kv.kv_heads * kHeadDim : k;
  float squares[3] = {};
  for (int i = threadIdx.x; i < kHeadDim; i += kThreads) {
    s.q[i] = q[i];
    squares[0] += q[i] * q[i];
    if (!needs_kv) continue;
    s.k[i] = k[i];
    s.v[i] = v[i];
    squares[1] += k[i] * k[i];
    squares[2] += v[i] * v[i];
  }
#pragma unroll
  for (int i = 0; i < 3; ++i) {
    squares[i] = warp_sum(squares[i]);
    if (threadIdx.x % 32 == 0) s.scratch[i][threadIdx.x / 32] = squares[i];
  }
  __syncthreads();
  float scale[3];
#pragma unroll
  for (int i = 0; i < 3; ++i) {
    float sum = 0.f;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) sum += s.scratch[i][w];
    scale[i] = rsqrtf(sum / static_cast<float>(kHeadDim) + a.eps);
  }
  const auto norm_and_rotate = [&](float* x, float to_unit, const float(&gain)[2]) {
    const int j = threadIdx.x;
    float first = x[j] * to_unit * gain[0], second = x[j + kHalf] * to_unit * gain[1];
    rotate(first, second, c.sine, c.cosine);
    x[j] = first;
    x[j + kHalf] = second;
  };
  if (threadIdx.x < kHalf) {
    norm_and_rotate(s.q, scale[0], c.q_gain);
    if (needs_kv) {
      norm_and_rotate(s.k, scale[1], c.k_gain);
      s.v[threadIdx.x] *= scale[2];
      s.v[threadIdx.x + kHalf] *= scale[2];
    }
  }
  __syncthreads();
}

/// The row's own key and value into the pages.
template <int kHeadDim>
__device__ void append(const DecodeAttentionArgs& a, const Shared<kHeadDim>& s, float16* page) {
#pragma unroll 1
  for (int i = threadIdx.x; i < kHeadDim; i += kThreads) {
    store_kv(a.kv, page, i, s.k[i]);
    store_kv(a.kv, page, a.kv.value_offset + i, s.v[i]);
  }
}

/// One warp's keys, every eighth of the CTA's, and what it makes of them.
template <int kHeadDim, int kHalves>
class WarpKeys {
  using S = Shape<kHeadDim, kHalves>;

 public:
  /// `stored`: keys from there on are not in the pages yet.
  __device__ WarpKeys(const DecodeAttentionArgs& a, float16* ring, const Keys& range, int stored, int kv_head)
      : a_(a),
        ring_(ring),
        first_(range.first + static_cast<int>(threadIdx.x) / 32),
        count_(max(0, (range.last - first_ + kWarps - 1) / kWarps)),
        stored_(stored),
        kv_head_(kv_head) {
    load_group(0);
    load_group(1);
  }

  /// The softmax of all keys; q, k and v of the row itself are in shared memory by now.
  __device__ void walk(const Shared<kHeadDim>& s) {
    float q[S::kLaneChunks * 8];
#pragma unroll
    for (int c = 0; c < S::kLaneChunks; ++c)
#pragma unroll
      for (int i = 0; i < 8; ++i) q[c * 8 + i] = mine(c) ? s.q[chunk(c) * 8 + i] * kLog2e : 0.f;
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
        if (mine(c)) part[chunk(c) * 8 + i] = context_[c * 8 + i];
    s.warp_largest[warp] = largest_;
    s.warp_total[warp] = total_;
  }

 private:
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ static int chunk(int c) { return c * 32 + lane(); }
  __device__ static bool mine(int c) { return chunk(c) < S::kChunks; }
  __device__ int position_of(int group, int key) const { return first_ + (group * S::kGroup + key) * kWarps; }
  __device__ float16* slot(int group, int key) const {
    return ring_ + (group % 2 * S::kGroup + key) * S::kKeyElements;
  }

  /// Starts the copy of a group's keys and values.
  __device__ void load_group(int group) {
#pragma unroll
    for (int key = 0; key < S::kGroup; ++key) {
      const int index = group * S::kGroup + key, position = position_of(group, key);
      if (index >= count_ || position >= stored_) continue;
      const float16* from = fresh_kv_address(a_, position, kv_head_);
#pragma unroll
      for (int c = 0; c < S::kLaneChunks; ++c)
#pragma unroll
        for (int part = 0; part < 2 * kHalves; ++part)
          if (mine(c))
            ptx::async_copy16(
                slot(group, key) + part * kHeadDim + chunk(c) * 8,
                from + part / 2 * a_.kv.low_offset + part % 2 * a_.kv.value_offset + chunk(c) * 8, true);
    }
    ptx::async_commit();
  }

  /// The row's own key and value, as the pages will have them.
  __device__ void place_own(const Shared<kHeadDim>& s, int group) {
#pragma unroll 1
    for (int key = 0; key < S::kGroup; ++key) {
      if (position_of(group, key) != stored_ || group * S::kGroup + key >= count_) continue;
#pragma unroll 1
      for (int i = lane(); i < 2 * kHeadDim; i += 32) {
        const float x = i < kHeadDim ? s.k[i] : s.v[i - kHeadDim];
        const float16 high = __float2half_rn(x);
        slot(group, key)[i] = high;
        if (kHalves == 2) slot(group, key)[2 * kHeadDim + i] = __float2half_rn(x - __half2float(high));
      }
    }
  }

  /// Eight neighbouring elements of a key or value.
  __device__ static void load8(const float16* high, int chunk, float (&v)[8]) {
    add8<false>(high, chunk, v);
    if (kHalves == 2) add8<true>(high + 2 * kHeadDim, chunk, v);
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
        if (!mine(c)) continue;
        float k[8];
        load8(slot(group, key), chunk(c), k);
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
      const float weight = exp2f(scores[key] - largest);
      total_ += weight;
#pragma unroll
      for (int c = 0; c < S::kLaneChunks; ++c) {
        if (!mine(c)) continue;
        float v[8];
        load8(slot(group, key) + kHeadDim, chunk(c), v);
#pragma unroll
        for (int i = 0; i < 8; ++i) context_[c * 8 + i] += weight * v[i];
      }
    }
  }

  const DecodeAttentionArgs& a_;
  float16* ring_;
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

template <int kHeadDim, int kHalves>
__global__ void __launch_bounds__(kThreads)
    decode_attention_kernel(const __grid_constant__ DecodeAttentionArgs a) {
  using S = Shape<kHeadDim, kHalves>;
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
  WarpKeys<kHeadDim, kHalves> keys(a, rings + threadIdx.x / 32 * S::kRingElements, range, stored, kv_head);
  const PairConstants constants = load_constants<kHeadDim>(a, position);
  float16* page = appends && head % group_size == 0 ? fresh_kv_address(a, position, kv_head) : nullptr;
  ptx::wait_for_dependencies();

  prepare<kHeadDim>(a, s, head, appends, constants);
  if (page) append<kHeadDim>(a, s, page);
  keys.walk(s);
  keys.publish(s);
  __syncthreads();
  ptx::cluster_wait();  // everybody expects parts by now
  send_parts<kHeadDim>(s, reinterpret_cast<const float*>(rings), S::kRingElements / 2, rank);
  join_parts<kHeadDim>(s, rank, a.context + head * kHeadDim);
}

template <int kHeadDim, int kHalves>
void launch_decode_attention(Queue& queue, const DecodeAttentionArgs& a) {
  launch(queue,
         LaunchShape{dim3(kCluster, a.heads), kThreads, Shape<kHeadDim, kHalves>::kSharedBytes, kCluster},
         decode_attention_kernel<kHeadDim, kHalves>, a);
}

}  // namespace

void decode_attention(Queue& queue, const DecodeAttentionArgs& args) {
  with_head_dim(queue, args.kv.head_dim, [&](auto head_dim) {
    if (args.halves == 2) {
      launch_decode_attention<head_dim, 2>(queue, args);
    } else {
      launch_decode_attention<head_dim, 1>(queue, args);
    }
  });
}

}  // namespace carat::cuda
