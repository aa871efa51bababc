// Building the ragged batches of gemma4.h.
#pragma once
#include <span>
#include <vector>

#include "model/gemma4.h"

namespace carat {

/// The rows of a step that need logits, as a batch of their own.
struct NarrowedRows {
  std::vector<int32_t> tokens;
  std::vector<Segment> segments;
  Rows rows() const { return {tokens, segments}; }
};

/// `wanted`: ascending row numbers of `all`. A run of neighbouring rows of one segment stays one segment;
/// each keeps its sequence and gets the `past` that its first row sees.
NarrowedRows narrow_rows(const Rows& all, std::span<const int32_t> wanted);

}  // namespace carat
