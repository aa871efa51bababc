// Prompt lookup: drafts are what followed the last few tokens when they occurred before in the request's own
// text. Needs no state; a look through the text costs nothing beside a step.
#pragma once
#include "engine/drafter.h"

namespace carat {

class PromptLookup final : public Drafter {
 public:
  /// The newest of the longest matches of 2 to 4 tokens is continued.
  std::vector<int32_t> draft(std::span<const int32_t> tokens, int most) override;
};

}  // namespace carat
