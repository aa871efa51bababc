// Greedy choice on the device, equal to engine/sampler bit for bit: the largest logit, ties to the lower id,
// -1 when a logit is NaN or the largest is not finite.
#include "cuda/greedy.h"
#include "cuda/guess.h"
#include "cuda/launch.h"
#include "cuda/ptx.h"

namespace carat::cuda {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads) suppress_kernel(GreedyArgs a) {
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  for (int i = threadIdx.x; i < a.suppressed_count; i += kThreads) {
    const int id = a.suppressed[i];
    if (id >= 0 && id < a.vocab) a.logits[static_cast<std::size_t>(blockIdx.x) * a.vocab + id] = -INFINITY;
  }
}

__global__ void __launch_bounds__(kThreads) greedy_chunk_kernel(GreedyArgs a) {
  __shared__ Candidate scratch[kThreads / 32];
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  const int chunk = (a.vocab + kGreedyChunks - 1) / kGreedyChunks, first = blockIdx.x * chunk;
  const float* logits = a.logits + static_cast<std::size_t>(blockIdx.y) * a.vocab;
  Candidate best = no_candidate();
  for (int i = first + static_cast<int>(threadIdx.x); i < min(first + chunk, a.vocab); i += kThreads)
    best = better(best, {logits[i], i});
  best = block_best<kThreads>(best, scratch);
  if (threadIdx.x == 0) {
    a.candidate_values[blockIdx.y * kGreedyChunks + blockIdx.x] = best.value;
    a.candidate_ids[blockIdx.y * kGreedyChunks + blockIdx.x] = best.id;
  }
}

__global__ void __launch_bounds__(32) greedy_final_kernel(GreedyArgs a) {
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  Candidate best = no_candidate();
  for (int i = threadIdx.x; i < kGreedyChunks; i += 32) {
    const int at = blockIdx.x * kGreedyChunks + i;
    best = better(best, {a.candidate_values[at], a.candidate_ids[at]});
  }
  best = warp_best(best);
  if (threadIdx.x == 0) a.drawn[blockIdx.x] = token_of(best);
}

}  // namespace

void greedy(Queue& queue, const GreedyArgs& args, int rows) {
  if (args.suppressed_count > 0) launch(queue, suppress_kernel, dim3(rows), kThreads, 0, args);
  launch(queue, greedy_chunk_kernel, dim3(kGreedyChunks, rows), kThreads, 0, args);
  pick_greedy(queue, args, rows);
}

void pick_greedy(Queue& queue, const GreedyArgs& args, int rows) {
  launch(queue, greedy_final_kernel, dim3(rows), 32, 0, args);
}

}  // namespace carat::cuda
