#include "cuda/gpu.h"

namespace carat::cuda {
namespace {

__global__ void any_kernel() {}

}  // namespace

cudaError_t compiled_capability(int& capability) {
  cudaFuncAttributes attributes{};
  const cudaError_t status = cudaFuncGetAttributes(&attributes, any_kernel);
  capability = attributes.ptxVersion;
  return status;
}

}  // namespace carat::cuda
