// Drawing tokens on the device, bit for bit as engine/sampler does. Weights are whole numbers, so their sums
// are the same in any order, atomics included. Five kernels of fixed shapes, which return at once where a row
// has nothing for them:
//
//   edit    per row: forbidden tokens, penalties, biases
//   best    per chunk of the vocabulary: the mask; the largest logit
//   weigh   per chunk: its weight, and that of each bucket of neighbouring logits
//   gather  per chunk: the candidates that top-k or top-p can leave, when they are few
//   pick    per row: the filters, then the token (draw_pick.cu)
#include "cuda/draw_row.h"

namespace carat::cuda {
namespace {

constexpr int kThreads = 256;

// ---- edit, best

/// As the host does: the repetition penalty first, then one subtraction for each time in the reply.
__device__ float penalised(float logit, const SampledRow& row, int times) {
  if (row.repetition_penalty != 1.f)
    logit = logit < 0.f ? logit * row.repetition_penalty : logit / row.repetition_penalty;
  const float first = row.frequency_penalty + row.presence_penalty, later = row.frequency_penalty + 0.f;
  for (int i = 0; i < times; ++i) logit -= i == 0 ? first : later;
  return logit;
}

__global__ void __launch_bounds__(kThreads) edit_kernel(DrawArgs a) {
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  const int r = static_cast<int>(blockIdx.x), t = static_cast<int>(threadIdx.x);
  const SampledRow row = row_of(a, r);
  float* logits = logits_of(a, r);
  for (int b = t; b < kSamplingBuckets; b += kThreads) {
    a.scratch.bucket_counts[r * kSamplingBuckets + b] = 0;
    a.scratch.bucket_masses[r * kSamplingBuckets + b] = 0;
  }
  if (t == 0) a.scratch.few_count[r] = 0;
  for (int i = t; i < row.suppressed_count; i += kThreads) logits[a.words[row.suppressed + i]] = -INFINITY;
  __syncthreads();
  for (int i = t; i < row.seen_count; i += kThreads) {
    const int32_t* seen = a.words + row.seen + 2 * i;
    logits[seen[0]] = penalised(logits[seen[0]], row, seen[1]);
  }
  __syncthreads();
  const int32_t* biases = a.words + row.biases;
  for (int i = t; i < row.bias_count; i += kThreads) {
    const int32_t id = biases[2 * i];
    if (i > 0 && biases[2 * i - 2] == id) continue;
    float logit = logits[id];
    for (int j = i; j < row.bias_count && biases[2 * j] == id; ++j)
      logit += __int_as_float(biases[2 * j + 1]);
    logits[id] = logit;
  }
}

__global__ void __launch_bounds__(kThreads) best_kernel(DrawArgs a) {
  __shared__ Candidate scratch[kThreads / 32];
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  const int r = static_cast<int>(blockIdx.y), at = r * kGreedyChunks + static_cast<int>(blockIdx.x);
  const int allowed = row_of(a, r).allowed;
  const Chunk chunk(static_cast<int>(blockIdx.x), a.vocab);
  float* logits = logits_of(a, r);
  Candidate best = no_candidate();
  for (int i = chunk.first + static_cast<int>(threadIdx.x); i < chunk.end; i += kThreads) {
    if (allowed >= 0 && (a.words[allowed + i / 32] >> i % 32 & 1) == 0) {
      logits[i] = -INFINITY;
      continue;
    }
    best = better(best, {logits[i], i});
  }
  best = block_best<kThreads>(best, scratch);
  if (threadIdx.x != 0) return;
  a.scratch.best_values[at] = best.value;
  a.scratch.best_ids[at] = best.id;
}

// ---- weigh, gather

__global__ void __launch_bounds__(kThreads) weigh_kernel(DrawArgs a) {
  __shared__ Candidate best_scratch[kThreads / 32];
  __shared__ Amount warp_sums[kThreads / 32];
  __shared__ Mass masses[kSamplingBuckets];
  __shared__ unsigned counts[kSamplingBuckets];
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  const int r = static_cast<int>(blockIdx.y), t = static_cast<int>(threadIdx.x);
  const SampledRow row = row_of(a, r);
  const Candidate best = best_of_row<kThreads>(a, r, best_scratch);
  if (row.temperature == 0.f || !isfinite(best.value)) return;
  const bool by_bucket = filters(row);
  if (by_bucket) {
    for (int b = t; b < kSamplingBuckets; b += kThreads) masses[b] = counts[b] = 0;
    __syncthreads();
  }
  const Scale scale{best.value, row.temperature};
  const Mass least = least_weight(row.min_p);
  const Chunk chunk(static_cast<int>(blockIdx.x), a.vocab);
  const float* logits = logits_of(a, r);
  Amount own;
  for (int i = chunk.first + t; i < chunk.end; i += kThreads) {
    const float distance = scale.distance(logits[i]);
    const int bucket = sampling_bucket(distance);
    if (bucket == kSamplingBuckets - 1) continue;
    const Mass weight = sampling_weight(distance);
    if (weight >= least) own.mass += weight;
    if (!by_bucket) continue;
    atomicAdd(&masses[bucket], weight);
    atomicAdd(&counts[bucket], 1u);
  }
  Amount total;
  sum_before<kThreads>(own, warp_sums, total);  // its barriers are behind the atomics
  if (t == 0) a.scratch.chunk_masses[r * kGreedyChunks + static_cast<int>(blockIdx.x)] = total.mass;
  if (!by_bucket) return;
  for (int b = t; b < kSamplingBuckets; b += kThreads) {
    if (counts[b] == 0) continue;
    atomicAdd(reinterpret_cast<Mass*>(a.scratch.bucket_masses) + r * kSamplingBuckets + b, masses[b]);
    atomicAdd(a.scratch.bucket_counts + r * kSamplingBuckets + b, counts[b]);
  }
}

__global__ void __launch_bounds__(kThreads) gather_kernel(DrawArgs a) {
  __shared__ Candidate best_scratch[kThreads / 32];
  __shared__ CrossingScratch scratch;
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  const int r = static_cast<int>(blockIdx.y);
  const SampledRow row = row_of(a, r);
  if (row.temperature == 0.f || !filters(row)) return;
  const Candidate best = best_of_row<kThreads>(a, r, best_scratch);
  if (!isfinite(best.value)) return;
  const Crossing cut = first_filter<kThreads>(a, r, row, scratch);
  if (cut.before.count + cut.in.count > kFewCandidates) return;
  const Scale scale{best.value, row.temperature};
  const Chunk chunk(static_cast<int>(blockIdx.x), a.vocab);
  const float* logits = logits_of(a, r);
  for (int i = chunk.first + static_cast<int>(threadIdx.x); i < chunk.end; i += kThreads) {
    const int bucket = sampling_bucket(scale.distance(logits[i]));
    if (bucket > cut.bucket || bucket == kSamplingBuckets - 1) continue;
    const unsigned at = atomicAdd(a.scratch.few_count + r, 1u);
    a.scratch.few_logits[r * kFewCandidates + at] = logits[i];
    a.scratch.few_ids[r * kFewCandidates + at] = i;
  }
}

}  // namespace

DrawScratch DrawScratch::at(std::byte* memory, std::size_t rows) {
  const auto take = [&]<class T>(T*& array, std::size_t per_row) {
    array = reinterpret_cast<T*>(memory);
    memory += rows * per_row * sizeof(T);
  };
  DrawScratch s;
  take(s.chunk_masses, kGreedyChunks);
  take(s.bucket_masses, kSamplingBuckets);
  take(s.bucket_counts, kSamplingBuckets);
  take(s.best_values, kGreedyChunks);
  take(s.best_ids, kGreedyChunks);
  take(s.few_logits, kFewCandidates);
  take(s.few_ids, kFewCandidates);
  take(s.few_count, 1);
  return s;
}

void draw(Queue& queue, const DrawArgs& args, int rows, bool random) {
  const dim3 all(rows), chunks(kGreedyChunks, rows);
  launch(queue, edit_kernel, all, kThreads, 0, args);
  launch(queue, best_kernel, chunks, kThreads, 0, args);
  if (random) {
    launch(queue, weigh_kernel, chunks, kThreads, 0, args);
    launch(queue, gather_kernel, chunks, kThreads, 0, args);
  }
  pick(queue, args, rows);
}

}  // namespace carat::cuda
