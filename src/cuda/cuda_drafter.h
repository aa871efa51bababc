// The blocks of model/drafter.h as kernel launches, on those of the model, and the rounds of guesses that
// they make: one copy to the device, one graph, one copy back. The token of a round feeds the next one on the
// device.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "cuda/cuda_blocks.h"
#include "cuda/device.h"
#include "cuda/graph_cache.h"
#include "cuda/guess.h"
#include "cuda/single_row.h"
#include "cuda/step_upload.h"
#include "cuda/weights_upload.h"
#include "model/drafter.h"

namespace carat::cuda {

class CudaDrafter {
 public:
  /// Of `target`, whose matrices and vectors are on the device: uploads the drafter's. For rounds of at most
  /// limits.max_sequences rows. All arguments must outlive this, `target.drafter` need not.
  /// `fused_single_rows`: as in CudaOptions.
  CudaDrafter(const ModelPlan& target, const CudaBlocks& target_blocks, const KvStorage& kv,
              const RunnerOptions& limits, Queue& queue, bool fused_single_rows);

  /// Of weights, and of buffers.
  static std::size_t weight_bytes(const DrafterPlan& plan);
  static std::size_t buffer_bytes(const ModelPlan& target, const RunnerOptions& limits, int sm_count);

  /// Runner::draft() behind the step `last`, which has been collected. Waits for the GPU.
  std::vector<int32_t> draft(const DraftRows& rows, const DeviceStep& last, int count);

  /// One token per row, on the device; -1 for a failed guess.
  using Tokens = const int32_t*;
  void join(const DrafterPlan& d, Tokens tokens);
  void layer(const LayerPlan& l);
  Tokens likeliest(const DrafterPlan& d);
  void next_hidden(const DrafterPlan& d);

 private:
  /// What sets apart rounds that are the same launches.
  struct Shape {
    DeviceStep step;
    const float* states;
    int count, length_class;
    bool operator==(const Shape&) const = default;
  };

  DeviceStep pack(const DraftRows& rows);
  void reserve_guesses(std::size_t size);
  void run(const DeviceStep& step, const float* states, int position, int count);
  /// out = w times what the head multiplies.
  void multiply_final(const Linear& w, float* out);
  void multiply(const Linear& w, const VectorInput& input, float* out);
  void search(const OrderedHead& head);
  int rows() const { return step_.all.count; }
  bool single() const { return single_row_ && rows() == 1; }

  const ModelPlan& target_;
  const CudaBlocks& target_blocks_;
  Queue& queue_;
  DrafterPlan plan_;
  const DeviceWeights weights_;
  DeviceArray<int32_t> cluster_tokens_;  // OrderedHead::tokens
  StepUpload upload_;
  CudaBlocks blocks_;
  std::optional<SingleRow> single_row_;
  DeviceArray<float> joined32_, x_;              // its vectors
  DeviceArray<bfloat16> joined_hi_, joined_lo_;  // [rows, 2 * d_model of the target]
  DeviceArray<float> hidden_;                    // [rows, d_model of the target]
  DeviceArray<float> logits_;                    // [rows, clusters, or vocab of a dense head]
  DeviceArray<int32_t> found_clusters_;          // [rows, searched]
  DeviceArray<float> candidate_values_;          // [rows, kGreedyChunks]
  DeviceArray<int32_t> candidate_ids_;
  DeviceArray<int32_t> guesses_;  // [rounds, rows]
  PinnedArray<int32_t> host_guesses_;
  Event done_;
  GraphCache<Shape> graphs_;

  // Of the round that is being enqueued:
  DeviceStep step_;
  JoinArgs join_{};
  VectorInput next_;  // of a single row: the next product's
  int position_ = 0, round_ = 0;
};

}  // namespace carat::cuda
