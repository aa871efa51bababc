// What the kernels of draw.cu and draw_pick.cu share: a row, its buckets, and sums over a CTA. Included by
// these two only, which are compiled without fused multiply-adds (cmake/cuda.cmake).
#pragma once
#include "cuda/draw.h"
#include "cuda/greedy.h"
#include "cuda/launch.h"
#include "cuda/ptx.h"
#include "cuda/sampling_rows.h"

namespace carat::cuda {

using Mass = unsigned long long;  // the type that atomics take

__device__ inline const SampledRow& row_of(const DrawArgs& a, int r) {
  return reinterpret_cast<const SampledRow*>(a.words)[r];
}
__device__ inline float* logits_of(const DrawArgs& a, int r) {
  return a.logits + static_cast<std::size_t>(r) * a.vocab;
}
__device__ inline bool filters(const SampledRow& row) { return row.top_k > 0 || row.top_p < 1.f; }

/// Tokens [first, end) of a row.
struct Chunk {
  int first, end;
  __device__ Chunk(int index, int vocab) {
    const int size = (vocab + kGreedyChunks - 1) / kGreedyChunks;
    first = min(index * size, vocab);
    end = min(first + size, vocab);
  }
};

/// Of the whole row, in every thread.
template <int kSize>
__device__ Candidate best_of_row(const DrawArgs& a, int r, Candidate* scratch) {
  static_assert(kSize >= kGreedyChunks);
  Candidate best = no_candidate();
  if (threadIdx.x < kGreedyChunks) {
    const int at = r * kGreedyChunks + static_cast<int>(threadIdx.x);
    best = {a.scratch.best_values[at], a.scratch.best_ids[at]};
  }
  best = block_best<kSize>(best, scratch);
  __syncthreads();  // warp 0 has read the scratch
  if (threadIdx.x == 0) scratch[0] = best;
  __syncthreads();
  return scratch[0];
}

/// What distances are measured by.
struct Scale {
  float largest, temperature;
  __device__ float distance(float logit) const { return sampling_distance(largest, logit, temperature); }
};

// ---- sums over a CTA

struct Amount {
  Mass mass = 0;
  unsigned count = 0;
  __device__ void add(const Amount& other) { mass += other.mass, count += other.count; }
  __device__ Mass measure(bool by_count) const { return by_count ? count : mass; }
};

/// The sum over the threads before this one; `total` becomes that over all.
template <int kSize>
__device__ Amount sum_before(const Amount& own, Amount* warp_sums, Amount& total) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  Amount sum = own;
#pragma unroll
  for (int offset = 1; offset < 32; offset *= 2) {
    const Amount other{__shfl_up_sync(kAllLanes, sum.mass, offset),
                       __shfl_up_sync(kAllLanes, sum.count, offset)};
    if (lane >= offset) sum.add(other);
  }
  __syncthreads();  // the scratch is free
  if (lane == 31) warp_sums[warp] = sum;
  __syncthreads();
  Amount before{sum.mass - own.mass, sum.count - own.count};
  total = {};
  for (int w = 0; w < kSize / 32; ++w) {
    if (w < warp) before.add(warp_sums[w]);
    total.add(warp_sums[w]);
  }
  return before;
}

/// The bucket at which a running sum reaches its target.
struct Crossing {
  int bucket;
  bool found;  // else `bucket` is the last one, behind all
  Amount before, in, total;
};

struct CrossingScratch {
  Amount warp_sums[32];
  Crossing crossing;
};

/// `target_of` gets the total.
template <int kSize, class Target>
__device__ Crossing find_crossing(const unsigned* counts, const Mass* masses, bool by_count, Target target_of,
                                  CrossingScratch& s) {
  constexpr int kEach = kSamplingBuckets / kSize;
  const int first = static_cast<int>(threadIdx.x) * kEach;
  Amount own;
  for (int j = 0; j < kEach; ++j) own.add({masses[first + j], counts[first + j]});
  Amount total;
  Amount before = sum_before<kSize>(own, s.warp_sums, total);
  const Mass target = target_of(total);
  if (threadIdx.x == 0) s.crossing = {kSamplingBuckets - 1, false, total, {}, total};
  __syncthreads();
  for (int j = 0; j < kEach; ++j) {
    const Amount in{masses[first + j], counts[first + j]};
    Amount after = before;
    after.add(in);
    if (before.measure(by_count) < target && after.measure(by_count) >= target)
      s.crossing = {first + j, true, before, in, total};
    before = after;
  }
  __syncthreads();
  return s.crossing;
}

/// What the likeliest tokens must reach together; never 0, so that one stays.
__device__ inline Mass needed_mass(float top_p, Mass total) {
  return max(Mass{1}, Mass{share_of(top_p, total)});
}

/// The bucket in which top-k ends, or top-p where there is no top-k.
template <int kSize>
__device__ Crossing first_filter(const DrawArgs& a, int r, const SampledRow& row, CrossingScratch& s) {
  const unsigned* counts = a.scratch.bucket_counts + r * kSamplingBuckets;
  const Mass* masses = reinterpret_cast<const Mass*>(a.scratch.bucket_masses) + r * kSamplingBuckets;
  const bool by_count = row.top_k > 0;
  return find_crossing<kSize>(
      counts, masses, by_count,
      [&](const Amount& total) {
        return by_count ? static_cast<Mass>(row.top_k) : needed_mass(row.top_p, total.mass);
      },
      s);
}

}  // namespace carat::cuda
