// Attention of one row: norms and rotation of q, k and v, the append to the pages, softmax(q K^T) V.
//
// Every query head has a cluster of eight CTAs that share out its keys. Keys and values of earlier tokens are
// brought on chip before the kernel waits for its input; the row's own key and value come from the input
// itself, or, in layers that share another layer's cache, from the page. The parts are joined through the
// cluster's shared memory, so the output projection finds one finished vector. Heads that share a kv head
// read its keys from L2: fine for short contexts; attention.cu serves the long ones.
#include <cooperative_groups.h>

#include "cuda/decode.h"
#include "cuda/kv_address.h"
#include "cuda/launch.h"
#include "cuda/math.h"
#include "cuda/ptx.h"

namespace carat::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32, kCluster = 8;
constexpr float kLog2e = 1.4426950408889634f;

template <int kHeadDim>
struct Shape {
  static constexpr int kKeys = kHeadDim > 256 ? 32 : 64;  // per tile
  static constexpr int kChunks = kHeadDim / 8;            // 16-byte chunks of a key
  static constexpr int kPairs = kHeadDim / 2;
  static constexpr int kKeyGroups =
      kThreads / kPairs > 0 ? kThreads / kPairs : 1;  // threads per pair of dims
  static constexpr int kTileBytes = 2 * kKeys * kHeadDim * 2;
};

template <int kHeadDim>
struct Shared {
  float q[kHeadDim], k[kHeadDim], v[kHeadDim];
  float weights[Shape<kHeadDim>::kKeys];
  float sums[Shape<kHeadDim>::kKeyGroups][kHeadDim];
  float context[kHeadDim];  // this CTA's part, read by the whole cluster
  float largest, total;     // and what it is relative to
  float scratch[3][kWarps];
};

/// The keys [first, last) of this CTA.
struct Keys {
  int first, last;
};

__device__ inline Keys keys_of(int position, int window, int rank) {
  const int begin = window > 0 ? max(0, position - window + 1) : 0, count = position + 1 - begin;
  const int each = (count + kCluster - 1) / kCluster, first = min(begin + rank * each, position + 1);
  return {first, min(first + each, position + 1)};
}

/// Starts the copy of keys and values [first, last) without the one at `skip`.
template <int kHeadDim>
__device__ void load_tile(const DecodeAttentionArgs& a, float16* keys, float16* values, int first, int last,
                          int skip, int kv_head) {
  using S = Shape<kHeadDim>;
  for (int i = threadIdx.x; i < S::kKeys * S::kChunks; i += kThreads) {
    const int key = first + i / S::kChunks, chunk = i % S::kChunks * 8;
    if (key >= last || key == skip) continue;
    const float16* from = kv_address(a.kv, a.tables, 0, key, kv_head) + chunk;
    ptx::async_copy16(keys + i * 8, from, true);
    ptx::async_copy16(values + i * 8, from + a.kv.value_offset, true);
  }
  ptx::async_commit();
}

__device__ inline void rotate(float& first, float& second, float sine, float cosine) {
  const float rotated = first * cosine - second * sine;
  second = second * cosine + first * sine;
  first = rotated;
}

/// q, k, v into shared memory: normed, rotated, k and v rounded as the pages hold them. The first head of
/// each kv head also appends them to the pages.
template <int kHeadDim>
__device__ void prepare(const DecodeAttentionArgs& a, Shared<kHeadDim>& s, int head, int position,
                        bool needs_kv, float sine, float cosine) {
  constexpr int kHalf = kHeadDim / 2;
  const int group = a.heads / a.kv.kv_heads, kv_head = head / group;
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
  float16* page = nullptr;
  if (needs_kv && head % group == 0) page = kv_address(a.kv, a.tables, 0, position, kv_head);
  static_assert(kHalf <= kThreads);
  if (const int j = threadIdx.x; j < kHalf) {
    float first = s.q[j] * scale[0] * a.q_norm[j], second = s.q[j + kHalf] * scale[0] * a.q_norm[j + kHalf];
    if (j < a.rotary_pairs) rotate(first, second, sine, cosine);
    s.q[j] = first;
    s.q[j + kHalf] = second;
    if (needs_kv) {
      first = s.k[j] * scale[1] * a.k_norm[j];
      second = s.k[j + kHalf] * scale[1] * a.k_norm[j + kHalf];
      if (j < a.rotary_pairs) rotate(first, second, sine, cosine);
      const float16 kv[4] = {__float2half_rn(first), __float2half_rn(second),
                             __float2half_rn(s.v[j] * scale[2]), __float2half_rn(s.v[j + kHalf] * scale[2])};
      s.k[j] = __half2float(kv[0]);
      s.k[j + kHalf] = __half2float(kv[1]);
      s.v[j] = __half2float(kv[2]);
      s.v[j + kHalf] = __half2float(kv[3]);
      if (page) {
        page[j] = kv[0];
        page[j + kHalf] = kv[1];
        page[a.kv.value_offset + j] = kv[2];
        page[a.kv.value_offset + j + kHalf] = kv[3];
      }
    }
  }
  __syncthreads();
}

/// q . k for one key, over the warp.
template <int kHeadDim>
__device__ float score(const float* q, const float16* key) {
  float sum = 0.f;
  for (int i = threadIdx.x % 32; i < kHeadDim / 2; i += 32) {
    const float2 k = __half22float2(reinterpret_cast<const __half2*>(key)[i]);
    const float2 x = reinterpret_cast<const float2*>(q)[i];
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

template <int kHeadDim>
__device__ void add_tile(Shared<kHeadDim>& s, const float16* keys, const float16* values, int count,
                         Running& run) {
  using S = Shape<kHeadDim>;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int key = warp; key < count; key += kWarps) {
    const float value = score<kHeadDim>(s.q, keys + key * kHeadDim);
    if (lane == 0) s.weights[key] = value;
  }
  __syncthreads();
  float largest = run.largest;
  for (int key = lane; key < count; key += 32) largest = fmaxf(largest, s.weights[key]);
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2)
    largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, offset));
  float total = 0.f;
  for (int key = lane; key < count; key += 32) total += exp2f((s.weights[key] - largest) * kLog2e);
  const float rescale = exp2f((run.largest - largest) * kLog2e);
  run.total = run.total * rescale + warp_sum(total);
  run.largest = largest;
  run.context.x *= rescale;
  run.context.y *= rescale;
  const int pair = threadIdx.x % S::kPairs, group = threadIdx.x / S::kPairs;
  for (int key = group; key < count; key += S::kKeyGroups) {
    const float weight = exp2f((s.weights[key] - largest) * kLog2e);
    const float2 v = __half22float2(reinterpret_cast<const __half2*>(values + key * kHeadDim)[pair]);
    run.context.x += weight * v.x;
    run.context.y += weight * v.y;
  }
  __syncthreads();
}

template <int kHeadDim>
__global__ void __launch_bounds__(kThreads)
    decode_attention_kernel(const __grid_constant__ DecodeAttentionArgs a) {
#if __CUDA_ARCH__ >= 900
  using S = Shape<kHeadDim>;
  namespace cg = cooperative_groups;
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ Shared<kHeadDim> s;
  float16* keys = reinterpret_cast<float16*>(shared);
  float16* values = keys + S::kKeys * kHeadDim;
  const cg::cluster_group cluster = cg::this_cluster();
  ptx::launch_dependents();
  // Position and page tables come from the host: they may be read before the wait, as may the pages of
  // earlier tokens.
  const int head = blockIdx.y, position = *a.position, rank = static_cast<int>(cluster.block_rank());
  const int kv_head = head / (a.heads / a.kv.kv_heads);
  const Keys range = keys_of(position, a.window, rank);
  load_tile<kHeadDim>(a, keys, values, range.first, min(range.last, range.first + S::kKeys), position,
                      kv_head);
  float sine = 0.f, cosine = 1.f;
  if (const int j = threadIdx.x; j < a.rotary_pairs)
    sincosf(static_cast<float>(position) * a.frequencies[j], &sine, &cosine);
  ptx::wait_for_dependencies();

  const bool owns_last = range.first <= position && position < range.last;
  prepare<kHeadDim>(a, s, head, position, a.writes_kv && owns_last, sine, cosine);
  Running run;
  for (int first = range.first; first < range.last; first += S::kKeys) {
    const int last = min(range.last, first + S::kKeys);
    if (first > range.first) load_tile<kHeadDim>(a, keys, values, first, last, position, kv_head);
    const bool has_own = first <= position && position < last;
    if (has_own && !a.writes_kv)
      load_tile<kHeadDim>(a, keys + (position - first) * kHeadDim, values + (position - first) * kHeadDim,
                          position, last, -1, kv_head);
    if (has_own && a.writes_kv) {
      for (int i = threadIdx.x; i < kHeadDim; i += kThreads) {
        keys[(position - first) * kHeadDim + i] = __float2half_rn(s.k[i]);
        values[(position - first) * kHeadDim + i] = __float2half_rn(s.v[i]);
      }
    }
    ptx::async_wait<0>();
    __syncthreads();
    add_tile<kHeadDim>(s, keys, values, last - first, run);
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
  float largest = -INFINITY, total = 0.f;
  for (int r = 0; r < kCluster; ++r) largest = fmaxf(largest, cluster.map_shared_rank(&s, r)->largest);
  for (int r = 0; r < kCluster; ++r) {
    const Shared<kHeadDim>* other = cluster.map_shared_rank(&s, r);
    total += other->total * exp2f((other->largest - largest) * kLog2e);
  }
  constexpr int kShare = kHeadDim / kCluster;  // dims that each CTA of the cluster joins
  for (int i = threadIdx.x; i < kShare; i += kThreads) {
    const int dim = rank * kShare + i;
    float sum = 0.f;
    for (int r = 0; r < kCluster; ++r) {
      const Shared<kHeadDim>* other = cluster.map_shared_rank(&s, r);
      sum += other->context[dim] * exp2f((other->largest - largest) * kLog2e);
    }
    a.context[head * kHeadDim + dim] = sum / total;
  }
  cluster.sync();  // nobody leaves while its shared memory is read
#endif
}

template <int kHeadDim>
void launch_decode_attention(Queue& queue, const DecodeAttentionArgs& a) {
  launch(queue, LaunchShape{dim3(kCluster, a.heads), kThreads, Shape<kHeadDim>::kTileBytes, kCluster},
         decode_attention_kernel<kHeadDim>, a);
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
