// Putting kernels on a stream. Included by .cu files only.
#pragma once
#include <cuda_runtime.h>

#include <cstddef>

#include "cuda/kernels.h"

namespace carat::cuda {

/// Once per kernel and size: raises its limit of dynamic shared memory, and asks for the largest share of the
/// on-chip memory. Kernels with different shares can't run on a multiprocessor at the same time, so nothing
/// would overlap. More than queue.shared_bytes is an error on every GPU.
inline void prepare_kernel(Queue& queue, const void* kernel, std::size_t shared_bytes) {
  const auto [entry, is_new] = queue.prepared.try_emplace(kernel, 0);
  if (is_new)
    queue.status = cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                        cudaSharedmemCarveoutMaxShared);
  if (queue.status != cudaSuccess || shared_bytes <= entry->second) return;
  cudaFuncAttributes attributes{};
  queue.status = cudaFuncGetAttributes(&attributes, kernel);
  if (queue.status != cudaSuccess) return;
  if (attributes.sharedSizeBytes + shared_bytes > static_cast<std::size_t>(queue.shared_bytes)) {
    queue.status = cudaErrorInvalidConfiguration;
    return;
  }
  queue.status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      static_cast<int>(shared_bytes));
  entry->second = shared_bytes;
}

struct LaunchShape {
  dim3 grid;
  int threads;
  std::size_t shared_bytes = 0;
  int cluster = 1;  // CTAs of a cluster, along grid.x
  /// All CTAs run at the same time, so that they can wait for each other; starts after its predecessor's end.
  bool cooperative = false;
};

/// Launches `kernel` behind what the queue already holds. A launch never throws: the queue keeps the first
/// error for collect(). With overlap the kernel may start before its predecessor has ended, so every kernel
/// calls ptx::wait_for_dependencies() before it touches anything but weights.
template <class... Params, class... Args>
void launch(Queue& queue, const LaunchShape& shape, void (*kernel)(Params...), const Args&... args) {
  if (queue.status != cudaSuccess) return;
  prepare_kernel(queue, reinterpret_cast<const void*>(kernel), shape.shared_bytes);
  if (queue.status != cudaSuccess) return;
  cudaLaunchAttribute attributes[2]{};
  unsigned count = 0;
  if (shape.cooperative) {
    attributes[count].id = cudaLaunchAttributeCooperative;
    attributes[count++].val.cooperative = 1;
  } else if (queue.overlap) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (shape.cluster > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count++].val.clusterDim = {static_cast<unsigned>(shape.cluster), 1, 1};
  }
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = dim3(static_cast<unsigned>(shape.threads));
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = queue.stream;
  config.attrs = attributes;
  config.numAttrs = count;
  queue.status = cudaLaunchKernelEx(&config, kernel, Params(args)...);
}

template <class... Params, class... Args>
void launch(Queue& queue, void (*kernel)(Params...), dim3 grid, int threads, std::size_t shared_bytes,
            const Args&... args) {
  launch(queue, LaunchShape{grid, threads, shared_bytes}, kernel, args...);
}

constexpr int divide_up(int a, int b) { return (a + b - 1) / b; }

}  // namespace carat::cuda
