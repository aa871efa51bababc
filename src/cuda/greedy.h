// The order in which greedy sampling ranks logits. Included by .cu files only.
#pragma once
#include <cstdint>

#include "cuda/math.h"

namespace carat::cuda {

struct Candidate {
  float value;
  int32_t id;
};

__device__ inline Candidate no_candidate() { return {-INFINITY, INT32_MAX}; }

/// The larger value, the lower id of equals; a NaN beats everything, so that it is noticed.
__device__ inline Candidate better(const Candidate& a, const Candidate& b) {
  if (a.value != a.value) return a;
  if (b.value != b.value) return b;
  return b.value > a.value || (b.value == a.value && b.id < a.id) ? b : a;
}

__device__ inline Candidate warp_best(Candidate best) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    best = better(
        best, {__shfl_xor_sync(kAllLanes, best.value, offset), __shfl_xor_sync(kAllLanes, best.id, offset)});
  }
  return best;
}

/// Valid in warp 0. `scratch` holds one candidate per warp; `sync` is the barrier of the kThreads threads.
template <int kThreads, class Sync>
__device__ inline Candidate block_best(Candidate best, Candidate* scratch, Sync&& sync) {
  best = warp_best(best);
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = best;
  sync();
  return warp_best(threadIdx.x < kThreads / 32 ? scratch[threadIdx.x] : no_candidate());
}
template <int kThreads>
__device__ inline Candidate block_best(Candidate best, Candidate* scratch) {
  return block_best<kThreads>(best, scratch, [] { __syncthreads(); });
}

/// The token that the best of all candidates stands for; -1 when none is finite.
__device__ inline int32_t token_of(const Candidate& best) { return isfinite(best.value) ? best.id : -1; }

}  // namespace carat::cuda
