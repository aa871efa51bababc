// The logits of every position of a given text: what `carat check` and `carat eval` compare.
#pragma once
#include <cstdint>
#include <functional>
#include <span>

#include "engine/kv_pages.h"
#include "engine/runner.h"

namespace carat {

/// Runs `tokens` in steps of at most `chunk` tokens through an otherwise idle runner and calls
/// `row(position, logits [vocab])` for every position, in order; the logits are valid during the call. Throws
/// Error{invalid_argument}, before the first step, when chunk < 1, an id is not in the vocabulary or the
/// pages can't hold the text, and Error{unavailable} when another sequence holds them. What `row` throws ends
/// it.
void score(Runner& runner, KvPages& pages, std::span<const int32_t> tokens, int chunk,
           const std::function<void(int position, std::span<const float> logits)>& row);

}  // namespace carat
