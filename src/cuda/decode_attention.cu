// Attention of one row: norms and rotation of q, k and v, the append to the pages, softmax(q K^T) V.
//
// Every query head has a cluster of eight CTAs that share out its keys. Keys and values of earlier tokens are
// brought on chip before the kernel waits for its input; the row's own come from the input itself. Keys that
// don't fit at once come in tiles, one in flight while the other is worked on. The parts are joined through
// the cluster's shared memory, so the output projection finds one finished vector. Heads that share a kv head
// read its keys from L2: fine for short contexts; attention.cu serves the long ones.
#include <cooperative_groups.h>

#include "cuda/decode.h"
#include "cuda/kv_address.h"
#include "cuda/launch.h"
#include "cuda/math.h"
#include "cuda/ptx.h"

namespace carat::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32, kCluster = kAttentionCluster, kMostKeys = 64;
constexpr float kLog2e = 1.4426950408889634f;

// Clusters need sm_90; older GPUs compile this kernel, but SingleRow::supports() keeps them from it.
#if __CUDA_ARCH__ >= 900
using Cluster = cooperative_groups::cluster_group;
__device__ inline Cluster this_cluster() { return cooperative_groups::this_cluster(); }
#else
struct Cluster {
  __device__ static int block_rank() { return 0; }
  __device__ static void sync() {}
  template <class T>
  __device__ static T* map_shared_rank(T* pointer, int) {
    return pointer;
  }
};
__device__ inline Cluster this_cluster() { return {}; }
#endif

template <int kHeadDim>
struct Shape {
  static constexpr int kChunks = kHeadDim / 8;  // 16-byte chunks of a key
  static constexpr int kPairs = kHeadDim / 2;
  static constexpr int kKeyGroups =
      kThreads / kPairs > 0 ? kThreads / kPairs : 1;  // threads per pair of dims
};

template <int kHeadDim>
struct Shared {
  float q[kHeadDim], k[kHeadDim], v[kHeadDim];
  float weights[kMostKeys];
  float sums[Shape<kHeadDim>::kKeyGroups][kHeadDim];
  float context[kHeadDim];  // this CTA's part, read by the whole cluster
  float largest, total;     // and what it is relative to
  float scratch[3][kWarps];
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

/// On chip a key is followed by its value, then by the low halves of both where they are read.
template <int kHeadDim, int kHalves>
constexpr int kKeyElements = 2 * kHalves * kHeadDim;

/// Starts the copy of keys and values [first, last).
template <int kHeadDim, int kHalves>
__device__ void load_tile(const DecodeAttentionArgs& a, float16* tile, int first, int last, int kv_head) {
  using S = Shape<kHeadDim>;
#pragma unroll 1
  for (int i = threadIdx.x; first + i / S::kChunks < last; i += kThreads) {
    const int key = i / S::kChunks, element = i % S::kChunks * 8;
    const float16* from = fresh_kv_address(a, first + key, kv_head) + element;
#pragma unroll
    for (int part = 0; part < 2 * kHalves; ++part)
      ptx::async_copy16(tile + key * kKeyElements<kHeadDim, kHalves> + part * kHeadDim + element,
                        from + part / 2 * a.kv.low_offset + part % 2 * a.kv.value_offset, true);
  }
  ptx::async_commit();
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

/// The row's own key and value: to their place on chip, and by the first head of each kv head into the pages.
template <int kHeadDim, int kHalves>
__device__ void append(const DecodeAttentionArgs& a, const Shared<kHeadDim>& s, float16* key, float16* page) {
#pragma unroll 1
  for (int i = threadIdx.x; i < kHeadDim; i += kThreads) {
#pragma unroll 1
    for (int which = 0; which < 2; ++which) {
      const float x = which == 0 ? s.k[i] : s.v[i];
      float16* to = key + which * kHeadDim + i;
      const float16 high = __float2half_rn(x);
      to[0] = high;
      if (kHalves == 2) to[2 * kHeadDim] = __float2half_rn(x - __half2float(high));
      if (page) store_kv(a.kv, page, which * a.kv.value_offset + i, x);
    }
  }
}

/// Elements 2 i and 2 i + 1 of a key or value on chip.
template <int kHeadDim, int kHalves>
__device__ inline float2 load_pair(const float16* high, int i) {
  const float2 h = __half22float2(reinterpret_cast<const __half2*>(high)[i]);
  if (kHalves == 1) return h;
  const float2 l = __half22float2(reinterpret_cast<const __half2*>(high + 2 * kHeadDim)[i]);
  return make_float2(h.x + l.x, h.y + l.y);
}

/// q . k for one key, over the warp.
template <int kHeadDim, int kHalves>
__device__ float score(const float* q, const float16* key) {
  float sum = 0.f;
  for (int i = threadIdx.x % 32; i < kHeadDim / 2; i += 32) {
    const float2 k = load_pair<kHeadDim, kHalves>(key, i), x = reinterpret_cast<const float2*>(q)[i];
    sum += k.x * x.x + k.y * x.y;
  }
  return warp_sum(sum);
}

/// The running softmax of this CTA and this thread's part of the context: dims 2 pair and 2 pair + 1 over its
/// keys.
struct Running {
  float largest = -INFINITY, total = 0.f;
  float2 context = make_float2(0.f, 0.f);
};

template <int kHeadDim, int kHalves>
__device__ void add_tile(Shared<kHeadDim>& s, const float16* tile, int count, Running& run) {
  using S = Shape<kHeadDim>;
  constexpr int kStride = kKeyElements<kHeadDim, kHalves>;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll 1
  for (int key = warp; key < count; key += kWarps) {
    const float value = score<kHeadDim, kHalves>(s.q, tile + key * kStride);
    if (lane == 0) s.weights[key] = value;
  }
  __syncthreads();
  float largest = run.largest;
#pragma unroll 1
  for (int key = lane; key < count; key += 32) largest = fmaxf(largest, s.weights[key]);
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2)
    largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, offset));
  float total = 0.f;
#pragma unroll 1
  for (int key = lane; key < count; key += 32) total += exp2f((s.weights[key] - largest) * kLog2e);
  const float rescale = exp2f((run.largest - largest) * kLog2e);
  run.total = run.total * rescale + warp_sum(total);
  run.largest = largest;
  run.context.x *= rescale;
  run.context.y *= rescale;
  const int pair = threadIdx.x % S::kPairs, group = threadIdx.x / S::kPairs;
#pragma unroll 2
  for (int key = group; key < count; key += S::kKeyGroups) {
    const float weight = exp2f((s.weights[key] - largest) * kLog2e);
    const float2 v = load_pair<kHeadDim, kHalves>(tile + key * kStride + kHeadDim, pair);
    run.context.x += weight * v.x;
    run.context.y += weight * v.y;
  }
  __syncthreads();
}

template <int kHeadDim, int kHalves>
__global__ void __launch_bounds__(kThreads)
    decode_attention_kernel(const __grid_constant__ DecodeAttentionArgs a) {
  using S = Shape<kHeadDim>;
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ Shared<kHeadDim> s;
  float16* tiles = reinterpret_cast<float16*>(shared);
  const Cluster cluster = this_cluster();
  ptx::launch_dependents();
  // Before the wait may be read: what the host sent (position, page tables), the pages of earlier tokens, and
  // what layers before this one appended: their down projections let nothing start before everything in front
  // of them had ended.
  const int head = blockIdx.y, position = __ldcg(a.position), rank = static_cast<int>(cluster.block_rank());
  const int group_size = a.heads / a.kv.kv_heads, kv_head = head / group_size;
  const Keys range = keys_of(position, a.window, rank);
  const bool appends = a.writes_kv && range.first <= position && position < range.last;
  const int stored = appends ? position : range.last;  // keys that the pages hold already
  // All keys at once, or two tiles in turn, each half of the room.
  const int step = range.last - range.first <= a.tile_keys ? a.tile_keys : a.tile_keys / 2;
  const auto load = [&](float16* tile, int first) {
    load_tile<kHeadDim, kHalves>(a, tile, first, min(stored, first + step), kv_head);
  };
  float16 *now = tiles, *next = tiles + step * kKeyElements<kHeadDim, kHalves>;
  load(now, range.first);
  load(next, range.first + step);
  const PairConstants constants = load_constants<kHeadDim>(a, position);
  float16* page = appends && head % group_size == 0 ? fresh_kv_address(a, position, kv_head) : nullptr;
  ptx::wait_for_dependencies();

  prepare<kHeadDim>(a, s, head, appends, constants);
  Running run;
#pragma unroll 1
  for (int first = range.first; first < range.last; first += step) {
    const int last = min(range.last, first + step);
    if (appends && position < last)
      append<kHeadDim, kHalves>(a, s, now + (position - first) * kKeyElements<kHeadDim, kHalves>, page);
    ptx::async_wait<1>();
    __syncthreads();
    add_tile<kHeadDim, kHalves>(s, now, last - first, run);
    load(now, first + 2 * step);
    float16* used = now;
    now = next;
    next = used;
  }

  const int pair = threadIdx.x % S::kPairs, group = threadIdx.x / S::kPairs;
  if (group < S::kKeyGroups) reinterpret_cast<float2*>(s.sums[group])[pair] = run.context;
  __syncthreads();
  for (int i = threadIdx.x; i < kHeadDim; i += kThreads) {
    float sum = 0.f;
    for (int g = 0; g < S::kKeyGroups; ++g) sum += s.sums[g][i];
    s.context[i] = sum;
  }
  if (threadIdx.x == 0) {
    s.largest = run.largest;
    s.total = run.total;
  }
  cluster.sync();
  // Each thread joins one dimension of this CTA's share: one round of reads from all eight.
  constexpr int kShare = (kHeadDim + kCluster - 1) / kCluster;
  if (threadIdx.x < kShare) {
    const int dim = rank * kShare + threadIdx.x;
    float part[kCluster], largest[kCluster], total[kCluster], most = -INFINITY, sum = 0.f, weight = 0.f;
#pragma unroll
    for (int r = 0; r < kCluster; ++r) {
      const Shared<kHeadDim>* other = cluster.map_shared_rank(&s, r);
      part[r] = other->context[dim];
      largest[r] = other->largest;
      total[r] = other->total;
      most = fmaxf(most, largest[r]);
    }
#pragma unroll
    for (int r = 0; r < kCluster; ++r) {
      const float scale = exp2f((largest[r] - most) * kLog2e);
      sum += part[r] * scale;
      weight += total[r] * scale;
    }
    a.context[head * kHeadDim + dim] = sum / weight;
  }
  cluster.sync();  // nobody leaves while its shared memory is read
}

template <int kHeadDim>
void launch_decode_attention(Queue& queue, const DecodeAttentionArgs& a) {
  const int key_bytes = 2 * a.halves * kHeadDim * static_cast<int>(sizeof(float16));
  launch(queue,
         LaunchShape{dim3(kCluster, a.heads), kThreads, static_cast<std::size_t>(a.tile_keys * key_bytes),
                     kCluster},
         a.halves == 2 ? decode_attention_kernel<kHeadDim, 2> : decode_attention_kernel<kHeadDim, 1>, a);
}

}  // namespace

void decode_attention(Queue& queue, const DecodeAttentionArgs& args) {
  switch (args.kv.head_dim) {
    case 16:
      return launch_decode_attention<16>(queue, args);
    case 32:
      return launch_decode_attention<32>(queue, args);
    case 64:
      return launch_decode_attention<64>(queue, args);
    case 128:
      return launch_decode_attention<128>(queue, args);
    case 256:
      return launch_decode_attention<256>(queue, args);
    case 512:
      return launch_decode_attention<512>(queue, args);
    default:
      queue.status = cudaErrorInvalidValue;  // refused when the runner was made
  }
}

}  // namespace carat::cuda
