// The CUDA backend. A build without nvcc has the same function, which throws Error{unavailable}.
#pragma once
#include <cstddef>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "engine/runner.h"

namespace carat {

/// For tests and comparisons: a GPU as one of another kind.
struct CudaLimits {
  int capability = 0;    // 80 for compute capability 8.0; 0: its own
  int shared_bytes = 0;  // of a CTA, at most; 0: what it has
};
/// Those of kinds of GPUs with less than a Hopper has: "sm_80" (A100), "sm_86" (RTX 30 and 40), "sm_120" (RTX
/// 50).
constexpr CudaLimits limits_of_gpu(std::string_view kind) {
  if (kind == "sm_80") return {80, 163 * 1024};
  if (kind == "sm_86") return {86, 99 * 1024};
  if (kind == "sm_120") return {120, 99 * 1024};
  return {};
}

struct CudaOptions {
  int device = 0;
  std::string format{};  // "bf16", "int8", "int4"; empty: as stored, float32 and float16 as bf16
  /// Activations of prompts in bfloat16, as transformers has them, instead of in two bfloat16 halves: up to
  /// twice as fast, and logits that differ from float32's by some 1e-1 instead of 1e-2.
  bool fast_prompts = false;
  /// False: steps of one row take the same path as all others, for comparisons.
  bool fused_single_rows = true;
  /// Steps of one row in a single launch, where the model allows it; false: as a graph of kernels.
  bool persistent = true;
  /// Where the persistent kernel's phases are reported when the runner ends; null: nowhere.
  std::FILE* phase_report = nullptr;
  std::function<void(double fraction)> progress{};  // of loading; called from the calling thread
  CudaLimits limits{};
};

std::unique_ptr<Runner> make_cuda_runner(ModelPlan plan, const RunnerOptions& options,
                                         const CudaOptions& cuda);

/// Bytes of the device's memory that stay free once the weights of `plan` and the buffers of its steps are in
/// it; 0 when they don't fit. The pages of `limits` don't count. Refuses a kv_type as make_cuda_runner()
/// does.
std::size_t free_cuda_bytes_for_kv(ModelPlan plan, const RunnerOptions& limits, const CudaOptions& cuda);

/// Compute capability that the kernels make use of: 80 for 8.0.
int cuda_capability(const CudaOptions& cuda);
/// Bytes per second at which the device reads its memory when it does nothing else: what bounds decoding.
double measure_cuda_read_bandwidth(const CudaOptions& cuda);
/// Bfloat16 multiplications and additions per second of the tensor cores when their factors are on chip: what
/// bounds long prompts.
double measure_cuda_matrix_rate(const CudaOptions& cuda);
/// Bytes of the device's last cache.
std::size_t cuda_cache_bytes(const CudaOptions& cuda);

}  // namespace carat
