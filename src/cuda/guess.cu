// What a drafter needs beyond its layers: the join of token and hidden state in front of them, and behind
// them the search of an ordered head: the clusters with the best centroids, then their tokens alone.
#include "cuda/greedy.h"
#include "cuda/guess.h"
#include "cuda/launch.h"
#include "cuda/math.h"
#include "cuda/partial_sums.h"
#include "cuda/ptx.h"
#include "cuda/row_values.h"

namespace carat::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32;

// One CTA per row.
__global__ void __launch_bounds__(kThreads) join_kernel(JoinArgs a) {
  extern __shared__ float4 shared[];
  __shared__ float scratch[kWarps];
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  const int row = blockIdx.x, d = a.d_model;
  const std::size_t base = static_cast<std::size_t>(row) * 2 * d;
  const int32_t token = resolved(max(0, a.tokens[row]), nullptr, a.soft);
  const auto store = [&](std::size_t at, const float4& v) {
    if (a.joined32)
      *reinterpret_cast<float4*>(a.joined32 + at) = v;
    else
      store_split4(a.joined.hi, a.joined.lo, at, v);
  };
  for (int i = threadIdx.x; i < d / 8; i += kThreads) {
    float eight[8];
    load_eight(a.table, token, 8 * i, a.scale, eight);
#pragma unroll
    for (int half = 0; half < 2; ++half) store(base + 8 * i + 4 * half, half_of(eight, half));
  }
  const std::size_t state = static_cast<std::size_t>(a.state_rows ? a.state_rows[row] : row) * d;
  float squares = 0.f;
  for (int i = threadIdx.x; i < d / 4; i += kThreads) {
    const float4 v = load4(a.states + state, i);
    shared[i] = v;
    squares += dot(v, v);
  }
  squares = block_sum<kThreads>(squares, scratch);
  for_normed<kThreads>(reinterpret_cast<const float*>(shared), a.norm, a.eps, d, squares,
                       [&](int at, const float4& v) { store(base + d + at, v); });
}

// One CTA per row.
__global__ void __launch_bounds__(kThreads) start_rows_kernel(StartRowsArgs a) {
  extern __shared__ float4 shared[];
  __shared__ float scratch[kWarps];
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  const int vectors = a.d_model / 4;
  const std::size_t base = static_cast<std::size_t>(blockIdx.x) * a.d_model;
  float squares = 0.f;
  for (int first = 0; first < vectors; first += kThreads) {
    const int i = first + static_cast<int>(threadIdx.x);
    const int place[1] = {i < vectors ? i : 0};  // sum_parts() takes whole warps
    float4 v[1];
    sum_parts(a.sums, base, place, v);
    if (i >= vectors) continue;
    shared[i] = v[0];
    reinterpret_cast<float4*>(a.x + base)[i] = v[0];
    squares += dot(v[0], v[0]);
  }
  squares = block_sum<kThreads>(squares, scratch);
  write_normed<kThreads>(reinterpret_cast<const float*>(shared), a.norm, a.eps, a.d_model, squares, a.xn,
                         base);
}

/// Ascending as the logit is, for any bits, so that ranks are a permutation whatever the logits.
__device__ inline uint32_t sort_key(float logit) {
  const uint32_t bits = __float_as_uint(logit + 0.f);  // -0 is 0
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}

// A cluster's rank is the number of better ones. A CTA ranks 32 clusters, one per lane; its warps share out
// those they are compared with.
__global__ void __launch_bounds__(kThreads) best_clusters_kernel(ClusterArgs a) {
  extern __shared__ uint4 keys4[];  // of all clusters, and zeros up to a whole uint4
  __shared__ int better[kWarps][32];
  uint32_t* const keys = reinterpret_cast<uint32_t*>(keys4);
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  const int row = blockIdx.y, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int fours = (a.clusters + 3) / 4, cluster = blockIdx.x * 32 + lane;
  const float* logits = a.logits + static_cast<std::size_t>(row) * a.clusters;
  for (int i = threadIdx.x; i < 4 * fours; i += kThreads) keys[i] = i < a.clusters ? sort_key(logits[i]) : 0;
  __syncthreads();
  const uint32_t own = cluster < a.clusters ? keys[cluster] : 0;
  int count = 0;
  const auto compare = [&](uint32_t key, int other) {
    count += key > own || (key == own && other < cluster) ? 1 : 0;
  };
#pragma unroll 4
  for (int i = warp; i < fours; i += kWarps) {
    const uint4 four = keys4[i];
    compare(four.x, 4 * i);
    compare(four.y, 4 * i + 1);
    compare(four.z, 4 * i + 2);
    compare(four.w, 4 * i + 3);
  }
  better[warp][lane] = count;
  __syncthreads();
  if (warp != 0 || cluster >= a.clusters) return;
  int rank = 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) rank += better[w][lane];
  if (rank < a.searched) a.found[row * a.searched + rank] = cluster;
}

/// This lane's share of a row's product with x, eight neighbouring columns at a time.
template <WeightFormat kFormat>
__device__ inline float lane_dot(Eight<kFormat> eight, const std::byte* row, const float4* x, int cols) {
  float sum = 0.f;
  for (int column = threadIdx.x % 32 * 8; column < cols; column += 32 * 8) {
    float w[8];
    eight.load(row, column, cols);
    to_floats(eight, w);
    sum += dot(half_of(w, 0), x[column / 4]) + dot(half_of(w, 1), x[column / 4 + 1]);
  }
  return sum;
}

// A CTA has a share of a row's tokens, a warp one token at a time.
__global__ void __launch_bounds__(kThreads) best_cluster_tokens_kernel(ClusterTokenArgs a) {
  extern __shared__ float4 x[];  // the normed row
  __shared__ float squares_scratch[kWarps];
  __shared__ Candidate scratch[kWarps];
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  const int row = blockIdx.y, warp = threadIdx.x / 32, cols = a.head.cols;
  const float* from = a.x + static_cast<std::size_t>(row) * cols;
  float squares = 0.f;
  for (int i = threadIdx.x; i < cols / 4; i += kThreads) squares += dot(load4(from, i), load4(from, i));
  squares = block_sum<kThreads>(squares, squares_scratch);
  for_normed<kThreads>(from, a.norm, a.eps, cols, squares, [&](int at, const float4& v) { x[at / 4] = v; });
  __syncthreads();
  const int total = a.searched * a.cluster_size, share = (total + kGreedyChunks - 1) / kGreedyChunks;
  const int first = blockIdx.x * share, last = min(first + share, total);
  const int32_t* found = a.found + row * a.searched;
  Candidate best = no_candidate();
  with_format(a.head.format, [&](auto eight) {
#pragma unroll 4
    for (int i = first + warp; i < last; i += kWarps) {
      const int32_t token = a.tokens[found[i / a.cluster_size] * a.cluster_size + i % a.cluster_size];
      best = better(best, {warp_sum(lane_dot(eight, row_of(a.head, token), x, cols)), token});
    }
  });
  best = block_best<kThreads>(best, scratch);
  if (threadIdx.x != 0) return;
  a.candidate_values[row * kGreedyChunks + blockIdx.x] = best.value;
  a.candidate_ids[row * kGreedyChunks + blockIdx.x] = best.id;
}

}  // namespace

void join(Queue& queue, const JoinArgs& args, int rows) {
  launch(queue, join_kernel, dim3(rows), kThreads, args.d_model * sizeof(float), args);
}

void start_rows(Queue& queue, const StartRowsArgs& args, int rows) {
  launch(queue, start_rows_kernel, dim3(rows), kThreads, args.d_model * sizeof(float), args);
}

void best_clusters(Queue& queue, const ClusterArgs& args, int rows) {
  launch(queue, best_clusters_kernel, dim3(divide_up(args.clusters, 32), rows), kThreads,
         divide_up(args.clusters, 4) * sizeof(uint4), args);
}

void best_cluster_tokens(Queue& queue, const ClusterTokenArgs& args, int rows) {
  launch(queue, best_cluster_tokens_kernel, dim3(kGreedyChunks, rows), kThreads,
         args.head.cols * sizeof(float), args);
}

}  // namespace carat::cuda
