// Regular expressions, as far as they describe regular languages: ECMA 262 without look-around and back
// references. Used by json_schema.h.
#pragma once
#include <optional>
#include <string_view>

#include "grammar/byte_dfa.h"

namespace carat::grammar {

/// How a text's characters are spelled.
enum class Spelling {
  json,  // between quotes, which are part of the match; each character in only one way
  plain  // as they are, but never <|"|>
};

/// The first state of an automaton for the texts in which `pattern` is found, and that have `least` to `most`
/// characters; nullopt when there are none. Throws std::invalid_argument saying what is not understood or too
/// large.
std::optional<DfaState> add_pattern(ByteDfas& dfas, std::string_view pattern, Spelling spelling,
                                    uint32_t least, uint32_t most);

}  // namespace carat::grammar
