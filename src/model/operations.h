// How much arithmetic a prompt is, for whoever compares its time with what a device can do.
#pragma once
#include "model/gemma4.h"

namespace carat {

/// Multiplications and additions of matrices that reading `tokens` tokens takes, each counted as one: those
/// with weights and those of attention. Tokens but the last one stop at the last layer that writes K/V, as in
/// forward(). Norms and the like are left out.
double prompt_operations(const ModelPlan& plan, int tokens);

}  // namespace carat
