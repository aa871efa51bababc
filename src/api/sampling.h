// The options of a request and the checkpoint's defaults -> how tokens are drawn, and what the engine is
// asked.
#pragma once
#include "carat/request.h"
#include "engine/request.h"
#include "io/model_config.h"

namespace carat {

/// The checkpoint's defaults, greedy where it has none, each replaced by what was asked for. Without a seed a
/// random one.
SamplingParams sampling_params(const ReplyOptions& options, const GenerationConfig& defaults);

/// All but the prompt and the stop strings, which in a chat end the answer alone; see OutputOptions.
Request engine_request(const ReplyOptions& options, const GenerationConfig& defaults);

}  // namespace carat
