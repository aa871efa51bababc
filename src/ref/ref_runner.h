// The reference backend: plain float32 loops, the executable specification of the model.
#pragma once
#include <memory>

#include "engine/runner.h"

namespace carat {

std::unique_ptr<Runner> make_ref_runner(ModelPlan plan, const RunnerOptions& options);

}  // namespace carat
