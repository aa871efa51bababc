// The notation in which Gemma 4 writes a tool call, read leniently: models leave out or add quotes, and what
// can be understood should reach the tool. Used by the output parser.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "carat/reply.h"

namespace carat {

/// The calls in `text`, which stood between <|tool_call> and <tool_call|>: call:name{key:value,...}, usually
/// one. Texts stand between <|"|> and are taken as they are; of a text that contains the quote, the quote
/// that ends it is the one behind which the notation goes on. Also understood are JSON's and Python's strings
/// and constants, quoted keys, blanks, texts without their first quote or without any. nullopt for what is no
/// call.
std::optional<std::vector<ToolCall>> parse_tool_calls(std::string_view text);

}  // namespace carat
