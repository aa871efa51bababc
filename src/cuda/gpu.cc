#include "cuda/gpu.h"

#include <algorithm>

#include "base/error.h"
#include "cuda/device.h"

namespace carat {
namespace cuda {

Gpu::Gpu(int index, const CudaLimits& limits) : index_(index) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0)
    fail(ErrorKind::unavailable, "no CUDA device: the driver is missing or shows no GPU");
  if (index < 0 || index >= count)
    fail(ErrorKind::unavailable, "there is no device cuda:", index, "; this machine has ", count,
         ", from cuda:0");
  check(cudaSetDevice(index), "cudaSetDevice");
  check(cudaGetDeviceProperties(&properties_, index), "cudaGetDeviceProperties");
  const int major = properties_.major, minor = properties_.minor, own = major * 10 + minor;
  if (major < 8)
    fail(ErrorKind::unsupported, name(), " (", properties_.name, ") has compute capability ", major, ".",
         minor, "; 8.0 or later is needed");
  int compiled = 0;
  if (compiled_capability(compiled) != cudaSuccess)
    fail(ErrorKind::unsupported, name(), " (", properties_.name, ") has compute capability ", major, ".",
         minor, ", for which this program has no code; configure with -DCARAT_CUDA_ARCHITECTURES=", own,
         own == 90 ? "a-real" : "-real");
  capability_ = limits.capability > 0 ? limits.capability : own;
  if (compiled < own) capability_ = std::min(capability_, compiled);
  shared_bytes_ = static_cast<int>(properties_.sharedMemPerBlockOptin);
  if (limits.shared_bytes > 0) shared_bytes_ = std::min(shared_bytes_, limits.shared_bytes);
}

std::string Gpu::name() const { return "cuda:" + std::to_string(index_); }

}  // namespace cuda

int cuda_capability(const CudaOptions& options) {
  return cuda::Gpu(options.device, options.limits).capability();
}

}  // namespace carat
