// The CUDA backend of a build without CUDA: absence is a file, so no other code asks whether it was compiled
// in.
#include "base/error.h"
#include "cuda/cuda_runner.h"

namespace carat {

[[noreturn]] static void fail_without_cuda() {
  fail(ErrorKind::unavailable, "this build has no CUDA backend; configure with -DCARAT_CUDA=ON");
}

std::unique_ptr<Runner> make_cuda_runner(ModelPlan, const RunnerOptions&, const CudaOptions&) {
  fail_without_cuda();
}

std::size_t free_cuda_bytes_for_kv(ModelPlan, const RunnerOptions&, const CudaOptions&) {
  fail_without_cuda();
}

int cuda_capability(const CudaOptions&) { fail_without_cuda(); }

double measure_cuda_read_bandwidth(const CudaOptions&) { fail_without_cuda(); }

double measure_cuda_matrix_rate(const CudaOptions&) { fail_without_cuda(); }

std::size_t cuda_cache_bytes(const CudaOptions&) { fail_without_cuda(); }

}  // namespace carat
