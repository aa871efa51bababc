// The options of a request and the checkpoint's defaults -> how tokens are drawn.
#pragma once
#include "carat/request.h"
#include "engine/sampler.h"
#include "io/model_config.h"

namespace carat {

/// The checkpoint's defaults, greedy where it has none, each replaced by what was asked for. Without a seed a
/// random one.
SamplingParams sampling_params(const ReplyOptions& options, const GenerationConfig& defaults);

}  // namespace carat
