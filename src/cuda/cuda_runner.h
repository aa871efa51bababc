// The CUDA backend. A build without nvcc has the same function, which throws Error{unavailable}.
#pragma once
#include <memory>
#include <string>

#include "engine/runner.h"

namespace carat {

struct CudaOptions {
  int device = 0;
};

std::unique_ptr<Runner> make_cuda_runner(ModelPlan plan, const RunnerOptions& options, const CudaOptions& cuda);

}  // namespace carat
