// The small parts of tokenizer.json: everything but the vocabulary and the merges.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "text/tokenizer_json.h"

namespace carat {

/// Everything of TokenizerFile but pieces and merge_parts. Throws Error{corrupt} or Error{unsupported}.
TokenizerFile read_pipeline(const nlohmann::json& root, const std::string& source);

}  // namespace carat
