// The control tokens around what a Gemma 4 model thinks before it answers. Used where replies are read, held
// to a form or limited.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "text/tokenizer.h"

namespace carat {

struct ThoughtMarkers {
  explicit ThoughtMarkers(const Tokenizer& tokenizer)
      : begin(tokenizer.find("<|channel>")), end(tokenizer.find("<channel|>")) {}

  int32_t begin, end;  // -1: not in this vocabulary

  /// Whether the vocabulary knows thoughts at all.
  bool known() const { return begin >= 0 && end >= 0; }
  /// Where the thought begins that `prompt` leaves open, so that the reply goes on with it.
  std::optional<std::size_t> open_thought(std::span<const int32_t> prompt) const;
};

}  // namespace carat
