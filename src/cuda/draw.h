// Drawing tokens on the device, bit for bit as engine/sampler does: what device_sampler.cc asks of draw.cu.
// All pointers are device memory; nothing here allocates, waits or throws.
#pragma once
#include <cstddef>
#include <cstdint>

#include "cuda/kernels.h"
#include "engine/sampling_weight.h"

namespace carat::cuda {

/// Candidates that one CTA sorts on chip.
inline constexpr int kFewCandidates = 2048;

/// What the kernels of a draw tell each other.
struct DrawScratch {
  uint64_t* chunk_masses;   // [rows, kGreedyChunks]
  uint64_t* bucket_masses;  // [rows, kSamplingBuckets]
  uint32_t* bucket_counts;  // [rows, kSamplingBuckets]
  float* best_values;       // [rows, kGreedyChunks]
  int32_t* best_ids;        // [rows, kGreedyChunks]
  float* few_logits;        // [rows, kFewCandidates]: the likeliest, where filters leave no more
  int32_t* few_ids;         // [rows, kFewCandidates]
  uint32_t* few_count;      // [rows]

  static constexpr std::size_t kBytesPerRow =
      kGreedyChunks * 16 + kSamplingBuckets * 12 + kFewCandidates * 8 + 4;
  /// In memory of rows * kBytesPerRow.
  static DrawScratch at(std::byte* memory, std::size_t rows);
};

struct DrawArgs {
  float* logits;         // [rows, vocab], overwritten
  int vocab;             // at most kMostSampledTokens
  const int32_t* words;  // of SamplingRows::pack()
  DrawScratch scratch;
  int32_t* drawn;  // [rows]
};
/// `random`: whether some row has a temperature.
void draw(Queue& queue, const DrawArgs& args, int rows, bool random);
/// The last of its kernels.
void pick(Queue& queue, const DrawArgs& args, int rows);

}  // namespace carat::cuda
