#include "cuda/device_sampler.h"

#include <algorithm>

#include "base/error.h"

namespace carat::cuda {
namespace {

/// Room for half as much again, so that growing step by step allocates seldom.
template <class Memory>
void reserve(Memory& memory, std::size_t size, cudaStream_t stream) {
  if (memory.size() >= size) return;
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  memory = Memory();
  memory = Memory(size + size / 2);
}

}  // namespace

void DeviceSampler::upload(Queue& queue, int slot, std::span<const RowSampling> sampling) {
  CHECK(vocab_ <= kMostSampledTokens);
  const std::span<const int32_t> words = rows_.pack(sampling);
  PinnedArray<int32_t>& staging = staging_[static_cast<std::size_t>(slot)];
  reserve(staging, words.size(), queue.stream);
  reserve(words_, words.size(), queue.stream);
  reserve(scratch_, bytes(sampling.size()), queue.stream);
  std::ranges::copy(words, staging.data());
  count_ = static_cast<int>(sampling.size());
  random_ =
      std::ranges::any_of(sampling, [](const RowSampling& how) { return how.params->temperature > 0.f; });
  if (queue.status == cudaSuccess)
    queue.status = cudaMemcpyAsync(words_.data(), staging.data(), words.size_bytes(), cudaMemcpyHostToDevice,
                                   queue.stream);
}

void DeviceSampler::draw(Queue& queue, float* logits, int32_t* drawn) {
  const DrawScratch scratch = DrawScratch::at(scratch_.data(), static_cast<std::size_t>(count_));
  cuda::draw(queue, {logits, vocab_, words_.data(), scratch, drawn}, count_, random_);
}

}  // namespace carat::cuda
