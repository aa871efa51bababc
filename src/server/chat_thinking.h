// Closes a thought that has used up its budget, so that an answer follows.
#pragma once
#include <cstdint>
#include <memory>
#include <span>

#include "engine/request.h"
#include "text/tokenizer.h"

namespace carat {

/// Allows what `otherwise` does, or everything when that is null, until a reply has `budget` tokens of
/// reasoning; then only the end of the thought. `otherwise` itself when the vocabulary knows no thoughts.
/// `prompt` may end inside a thought.
std::shared_ptr<TokenMask> limit_thinking(int budget, const Tokenizer& tokenizer,
                                          std::span<const int32_t> prompt,
                                          std::shared_ptr<TokenMask> otherwise);

}  // namespace carat
