// Log-probabilities of a logit row, for replies that ask for them.
#pragma once
#include <cstdint>
#include <span>

#include "engine/request.h"

namespace carat {

/// Of `token` and of the `best` most likely ones, lower ids first among equals.
TokenLogprobs logprobs_of(std::span<const float> logits, int32_t token, int best);

}  // namespace carat
