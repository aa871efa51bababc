// The blocks of model/drafter.h for the CPU, on those of the model.
#pragma once
#include <array>
#include <span>
#include <vector>

#include "cpu/cpu_blocks.h"
#include "cpu/packed_weights.h"
#include "model/drafter.h"

namespace carat {

class CpuDrafter {
 public:
  /// For rounds of at most limits.max_sequences rows, with the target's K/V `kv` and final states. Weights
  /// stay in the format in which they are stored: they are few, and coarser guesses are worth less. All
  /// arguments must outlive this.
  CpuDrafter(const ModelPlan& target, const CpuBlocks& target_blocks, const RunnerOptions& limits, CpuKv& kv,
             const Kernels& kernels, ThreadPool& pool);

  void begin(const DraftRows& rows);
  void join(const DrafterPlan& d, std::span<const int32_t> tokens);
  void layer(const LayerPlan& l);
  std::vector<int32_t> likeliest(const DrafterPlan& d);
  void next_hidden(const DrafterPlan&) { blocks_.project_final(post_, count(), hidden_); }

 private:
  int count() const { return static_cast<int>(tokens_.size()); }
  int32_t search(const OrderedHead& head, int row);

  const ModelPlan& target_;
  const CpuBlocks& target_blocks_;
  const Kernels& kernels_;
  ThreadPool& pool_;
  const PackedWeights weights_;
  const MatmulWeights pre_, post_, centroids_;
  CpuBlocks blocks_;

  std::vector<int32_t> tokens_;
  std::vector<Segment> at_, seen_;
  std::array<PageTable, kKvGroups> page_tables_;
  Matrix<float> joined_;             // [rows, 2 * d_model of the target]
  Matrix<float> hidden_;             // [rows, d_model of the target]
  Matrix<float> centroid_logits_;    // [rows, clusters]
  std::vector<std::byte> gathered_;  // the candidates' rows of the head
  std::vector<float> logits_;        // [candidates]
};

}  // namespace carat
