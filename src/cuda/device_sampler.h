// Brings to the device how the rows of a step are drawn, and draws them there. Used by cuda_runner.cc.
#pragma once
#include <array>
#include <span>

#include "cuda/device.h"
#include "cuda/draw.h"
#include "cuda/sampling_rows.h"

namespace carat::cuda {

class DeviceSampler {
 public:
  explicit DeviceSampler(int vocab) : vocab_(vocab), rows_(vocab) {}

  /// Enqueues the upload. `slot` is 0 or 1; a slot may be written again once its step has been collected.
  void upload(Queue& queue, int slot, std::span<const RowSampling> sampling);
  /// Draws what was uploaded last. `logits` [rows, vocab] is scratch afterwards; `drawn` [rows].
  void draw(Queue& queue, float* logits, int32_t* drawn);

  static std::size_t bytes(std::size_t rows) { return rows * DrawScratch::kBytesPerRow; }

 private:
  const int vocab_;
  SamplingRows rows_;
  int count_ = 0;
  bool random_ = false;
  std::array<PinnedArray<int32_t>, 2> staging_;
  DeviceArray<int32_t> words_;
  DeviceArray<std::byte> scratch_;
};

}  // namespace carat::cuda
