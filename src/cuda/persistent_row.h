// Steps of one row in one launch: the schedule and the buffers of the persistent kernel. The CUDA runner uses
// it in place of SingleRow where it can.
#pragma once
#include <cstdio>

#include "cuda/cuda_blocks.h"
#include "cuda/device.h"
#include "cuda/persistent_schedule.h"
#include "cuda/step_upload.h"
#include "engine/phase_times.h"

namespace carat::cuda {

class PersistentRow {
 public:
  /// Whether the kernel can run this model on this GPU.
  static bool supports(const ModelPlan& plan, int page_tokens, const Queue& queue,
                       int shared_bytes_per_block);

  /// All arguments outlive the object; `plan` points to device memory.
  PersistentRow(const ModelPlan& plan, const KvStorage& kv, const CudaBlocks& blocks, Queue& queue,
                int shared_bytes_per_block);

  /// Whether it takes a row at this position.
  bool takes(int position) const;

  /// As SingleRow::run().
  void run(const DeviceStep& step, const StepUpload& upload, int slot, float* logits, int32_t* drawn,
           int32_t* host_token);

  /// Whether the kernel notes its times from the next step on. The two below wait for the last step:
  /// add_times() adds its phases to `times`, report() prints the cycles of each kind of phase.
  void record_times(bool on);
  void add_times(PhaseTimes& times) const;
  void report(std::FILE* to) const;

 private:
  /// Of the last step; none when it failed.
  std::vector<PhaseCycles> cycles() const;
  void set_args(const ModelPlan& plan, int page_tokens, int shared_bytes_per_block);

  Queue& queue_;
  const SoftTokens& soft_tokens_;
  DeviceArray<float> hidden_, projected_, per_layer_, candidate_values_;
  DeviceArray<TaggedFloat> qkv_, parts_, part_sizes_;
  DeviceArray<MarkedFloat> branch_, mixed_;
  std::array<DeviceArray<MarkedFloat>, 2> contexts_;  // by KV group
  DeviceArray<int32_t> candidate_ids_;
  DeviceArray<unsigned> counters_;
  DeviceArray<TokenPhase> phases_;
  DeviceArray<TapeEntry> tape_;
  DeviceArray<TapeRange> ranges_;
  DeviceArray<PhaseCycles> cycles_;
  PersistentSchedule schedule_;
  PersistentArgs args_{};
  std::size_t shared_bytes_ = 0;
  int most_positions_ = 0;
  double clock_hz_ = 0;  // the GPU's highest
};

}  // namespace carat::cuda
