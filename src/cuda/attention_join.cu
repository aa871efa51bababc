// The parts of split attention become one context: each part weighed by exp(its maximum - the largest one),
// in order.
#include "cuda/attention_tile.h"
#include "cuda/launch.h"
#include "cuda/ptx.h"

namespace carat::cuda {
namespace {

constexpr int kJoinDims = 64, kJoinGroups = 4, kJoinThreads = kJoinDims * kJoinGroups, kFewSplits = 8;

// One CTA per head, row and kJoinDims dimensions; four groups of threads share out the parts.
__global__ void __launch_bounds__(kJoinThreads) join_kernel(AttentionArgs a, int splits) {
  __shared__ float weights[kMostAttentionSplits];
  __shared__ float scratch[kJoinThreads / 32];
  __shared__ float sums[kJoinThreads];
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  const int d = a.kv.head_dim, split = threadIdx.x;
  const std::size_t head = static_cast<std::size_t>(blockIdx.y) * a.heads + blockIdx.x, stride = d + 2;
  const float* parts = a.partial.data + head * splits * stride;
  const float mine = split < splits ? parts[split * stride + d] : -INFINITY;
  const float own_sum = split < splits ? parts[split * stride + d + 1] : 0.f;
  float largest = mine;
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2)
    largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, offset));
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = largest;
  __syncthreads();
  for (int w = 0; w < kJoinThreads / 32; ++w) largest = fmaxf(largest, scratch[w]);
  __syncthreads();
  const float weight = split < splits ? exp2f((mine - largest) * kLog2e) : 0.f;
  if (split < splits) weights[split] = weight;
  const float sum = block_sum<kJoinThreads>(weight * own_sum, scratch);
  const int group = threadIdx.x / kJoinDims, dim = blockIdx.z * kJoinDims + threadIdx.x % kJoinDims;
  float v = 0.f;
  if (dim < d) {
#pragma unroll 16
    for (int s = group; s < splits; s += kJoinGroups) {
      const float part = parts[s * stride + dim];
      if (weights[s] > 0.f) v += part * weights[s];  // a split without keys left nothing
    }
  }
  sums[threadIdx.x] = v;
  __syncthreads();
  if (group > 0 || dim >= d) return;
#pragma unroll
  for (int g = 1; g < kJoinGroups; ++g) v += sums[g * kJoinDims + threadIdx.x];
  if (a.context32) {
    a.context32[head * d + dim] = v / sum;
  } else {
    store_split(a.context.hi, a.context.lo, head * d + dim, v / sum);
  }
}

// One warp per (row, head): the same for few parts, of which prompts have many.
__global__ void __launch_bounds__(kJoinThreads) join_few_kernel(AttentionArgs a, int splits) {
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  const int lane = threadIdx.x % 32, d = a.kv.head_dim;
  const int head = blockIdx.x * (kJoinThreads / 32) + static_cast<int>(threadIdx.x) / 32;
  if (head >= a.rows * a.heads) return;
  const std::size_t stride = d + 2, first = static_cast<std::size_t>(head) * splits;
  const float* parts = a.partial.data + first * stride;
  const float mine = lane < splits ? parts[lane * stride + d] : -INFINITY;
  float largest = mine;
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2)
    largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, offset));
  const float weight = lane < splits ? exp2f((mine - largest) * kLog2e) : 0.f;
  const float sum = warp_sum(lane < splits ? weight * parts[lane * stride + d + 1] : 0.f);
  float weights[kFewSplits];
#pragma unroll
  for (int s = 0; s < kFewSplits; ++s) weights[s] = __shfl_sync(kAllLanes, weight, s);
#pragma unroll 2
  for (int i = 2 * lane; i < d; i += 64) {
    float2 v = make_float2(0.f, 0.f);
#pragma unroll
    for (int s = 0; s < kFewSplits; ++s) {
      if (weights[s] == 0.f) continue;  // a split without keys left nothing
      const float2 part = *reinterpret_cast<const float2*>(parts + s * stride + i);
      v.x += part.x * weights[s];
      v.y += part.y * weights[s];
    }
    const std::size_t at = static_cast<std::size_t>(head) * d + i;
    if (a.context32) {
      *reinterpret_cast<float2*>(a.context32 + at) = make_float2(v.x / sum, v.y / sum);
    } else {
      store_split2(a.context.hi, a.context.lo, at, v.x / sum, v.y / sum);
    }
  }
}

}  // namespace

void join_attention(Queue& queue, const AttentionArgs& args, int splits) {
  if (splits <= kFewSplits) {
    launch(queue, join_few_kernel, dim3(divide_up(args.rows * args.heads, kJoinThreads / 32)), kJoinThreads,
           0, args, splits);
  } else {
    launch(queue, join_kernel, dim3(args.heads, args.rows, divide_up(args.kv.head_dim, kJoinDims)),
           kJoinThreads, 0, args, splits);
  }
}

}  // namespace carat::cuda
