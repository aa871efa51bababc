// Guesses of the drafter model that a runner may have, for all sequences of a step at once. It goes on from
// the model's hidden state behind a sequence's last token, which a runner only has right after the step that
// drew it.
#pragma once
#include <span>
#include <vector>

#include "engine/runner.h"
#include "engine/sequence.h"

namespace carat {

/// Guesses wanted for a sequence, and what they are.
struct DraftWish {
  Sequence* sequence;
  int most;
  std::vector<int32_t> drafts = {};
};

class ModelDrafter {
 public:
  explicit ModelDrafter(Runner& runner) : runner_(runner) {}

  /// A step has begun: hidden states of the one before are gone.
  void begin_step() { ++step_; }
  /// `sequence`'s last token was drawn for logit row `row` of this step.
  void drawn(Sequence& sequence, int row) const { sequence.last_draw = {step_, row}; }

  /// Between two steps. Sequences whose hidden state is gone get none, and wait a step.
  void draft(std::span<DraftWish> wishes) const;

 private:
  Runner& runner_;
  int64_t step_ = 0;
};

}  // namespace carat
