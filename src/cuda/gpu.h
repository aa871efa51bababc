// The GPU that a runner uses: whether there is one, and what its kernels may take. Host code only.
#pragma once
#include <cuda_runtime_api.h>

#include <string>

#include "cuda/cuda_runner.h"

namespace carat::cuda {

class Gpu {
 public:
  /// Selects the device, before anything is allocated on it. Throws Error{unavailable} when there is none,
  /// Error{unsupported} for one that the program has no code for.
  Gpu(int index, const CudaLimits& limits);

  std::string name() const;
  int sm_count() const { return properties_.multiProcessorCount; }
  /// Of a CTA, at most.
  int shared_bytes() const { return shared_bytes_; }
  /// 80, 86, 90, ...: of the kernels, which may have been compiled for an older GPU than this one.
  int capability() const { return capability_; }
  bool overlaps_launches() const { return capability_ >= 90; }
  bool has_warpgroups() const { return capability_ == 90; }

 private:
  int index_, shared_bytes_ = 0, capability_ = 0;
  cudaDeviceProp properties_{};
};

/// What the kernels for the current device were compiled for: below its own compute capability where the
/// program has no code for it, but some that the driver can compile. An error where it has neither.
cudaError_t compiled_capability(int& capability);

}  // namespace carat::cuda
