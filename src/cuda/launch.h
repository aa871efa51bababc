// Putting kernels on a stream. Included by .cu files only.
#pragma once
#include <cuda_runtime.h>

#include <cstddef>

#include "cuda/kernels.h"

namespace carat::cuda {

/// Launches `kernel` behind what the queue already holds. A launch never throws: the queue keeps the first error for
/// collect(). With overlap the kernel may start before its predecessor has ended, so every kernel calls
/// ptx::wait_for_dependencies() before it touches anything but weights.
template <class... Params, class... Args>
void launch(Queue& queue, void (*kernel)(Params...), dim3 grid, int threads, std::size_t shared_bytes,
            const Args&... args) {
  if (queue.status != cudaSuccess) return;
  constexpr std::size_t kDefaultSharedBytes = 48 * 1024;
  if (shared_bytes > kDefaultSharedBytes) {  // writes one entry of a host table
    queue.status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        static_cast<int>(shared_bytes));
    if (queue.status != cudaSuccess) return;
  }
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = shared_bytes;
  config.stream = queue.stream;
  config.attrs = &overlap;
  config.numAttrs = queue.overlap ? 1 : 0;
  queue.status = cudaLaunchKernelEx(&config, kernel, Params(args)...);
}

constexpr int divide_up(int a, int b) { return (a + b - 1) / b; }

}  // namespace carat::cuda
