// Lays the segments of one step end to end and owns the memory that its StepInput points to. For the engine
// and score().
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/kv_pages.h"
#include "engine/step.h"

namespace carat {

class StepBuilder {
 public:
  void clear();
  /// Appends a segment: `tokens` continue a sequence of which `past` are cached. `pages` must hold them all
  /// and stay where it is until the step is collected. Returns the segment's first row.
  int add(std::span<const int32_t> tokens, int past, const SequencePages& pages);
  /// Asks for the logits of a row; rows in ascending order.
  void want_logits(int row) { logit_rows_.push_back(row); }
  /// The same, and for a token drawn from them. A step asks for tokens of all its rows or of none.
  void want_token(int row, const RowSampling& how);
  /// Logits come back also where tokens are drawn.
  void return_logits() { return_logits_ = true; }

  int tokens() const { return static_cast<int>(tokens_.size()); }
  int rows_with_logits() const { return static_cast<int>(logit_rows_.size()); }
  /// Valid until the next change.
  StepInput input();

 private:
  std::vector<int32_t> tokens_;
  std::vector<Segment> segments_;
  std::vector<const SequencePages*> sequences_;  // one per segment
  std::array<std::vector<int32_t>, kKvGroups> page_tables_;
  std::vector<int32_t> logit_rows_;
  std::vector<RowSampling> sampling_;
  bool return_logits_ = false;
};

}  // namespace carat
