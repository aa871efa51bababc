// The CUDA backend. A build without nvcc has the same function, which throws Error{unavailable}.
#pragma once
#include <memory>
#include <string>

#include "engine/runner.h"

namespace carat {

struct CudaOptions {
  int device = 0;
  bool fused_single_rows = true;  // false: steps of one row take the same path as all others, for comparisons
};

std::unique_ptr<Runner> make_cuda_runner(ModelPlan plan, const RunnerOptions& options,
                                         const CudaOptions& cuda);

/// Bytes per second at which the device reads its memory when it does nothing else: what bounds decoding.
double measure_cuda_read_bandwidth(const CudaOptions& cuda);

}  // namespace carat
