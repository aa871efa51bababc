// The blocks of model/drafter.h as plain loops, on those of the reference backend.
#pragma once
#include <span>
#include <vector>

#include "model/drafter.h"
#include "ref/ref_blocks.h"

namespace carat {

class RefDrafter {
 public:
  /// `final_states` of `target_blocks` are what guesses go on from. All arguments must outlive this.
  RefDrafter(const ModelPlan& target, const RefBlocks& target_blocks, RefKv& kv)
      : target_(target), target_blocks_(target_blocks), blocks_(target.drafter->model, kv) {}

  void begin(const DraftRows& rows);
  void join(const DrafterPlan& d, std::span<const int32_t> tokens);
  void layer(const LayerPlan& l);
  std::vector<int32_t> likeliest(const DrafterPlan& d);
  void next_hidden(const DrafterPlan& d);

 private:
  Rows rows_at() const { return {tokens_, at_}; }

  const ModelPlan& target_;
  const RefBlocks& target_blocks_;
  RefBlocks blocks_;
  std::vector<int32_t> tokens_;
  std::vector<Segment> at_, seen_;
  std::array<PageTable, kKvGroups> page_tables_;
  std::vector<float> hidden_;  // [rows, d_model of the target]
};

}  // namespace carat
