// The logits of every position of a given text: what `check` and `eval` compare.
#pragma once
#include <cstdint>
#include <functional>
#include <span>

#include "engine/kv_pages.h"
#include "engine/runner.h"

namespace carat {

/// Runs `tokens` in steps of at most `chunk` tokens through an otherwise idle runner and calls
/// `row(position, logits [vocab])` for every position, in order.
void score(Runner& runner, KvPages& pages, std::span<const int32_t> tokens, int chunk,
           const std::function<void(int position, std::span<const float> logits)>& row);

}  // namespace carat
