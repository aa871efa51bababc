// The ceiling of a decode step: how fast this GPU reads memory when it does nothing else.
#include <algorithm>
#include <vector>

#include "cuda/cuda_runner.h"
#include "cuda/device.h"
#include "cuda/launch.h"
#include "cuda/ptx.h"

namespace carat {
namespace cuda {
namespace {

__global__ void __launch_bounds__(1024) read_kernel(const uint4* from, std::size_t words, unsigned* out) {
  ptx::wait_for_dependencies();
  uint4 all = make_uint4(0, 0, 0, 0);
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  constexpr int kInFlight = 4;
  for (std::size_t i = blockIdx.x * blockDim.x + threadIdx.x; i + (kInFlight - 1) * stride < words;
       i += kInFlight * stride) {
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) {
      const uint4 v = ptx::load_streaming(from + i + j * stride);
      all.x ^= v.x, all.y ^= v.y, all.z ^= v.z, all.w ^= v.w;
    }
  }
  if ((all.x ^ all.y ^ all.z ^ all.w) == 1) *out = 1;  // keeps the loads
}

}  // namespace
}  // namespace cuda

std::size_t cuda_cache_bytes(const CudaOptions& options) {
  int bytes = 0;
  cuda::check(cudaDeviceGetAttribute(&bytes, cudaDevAttrL2CacheSize, options.device),
              "cudaDeviceGetAttribute");
  return static_cast<std::size_t>(bytes);
}

double measure_cuda_read_bandwidth(const CudaOptions& options) {
  using namespace cuda;
  constexpr std::size_t kBytes = std::size_t{4} << 30;  // many times any L2 cache
  constexpr int kRuns = 9, kBlocksPerMultiprocessor = 2, kThreads = 1024;
  check(cudaSetDevice(options.device), "cudaSetDevice");
  Queue queue;
  queue.overlap = false;
  check(cudaDeviceGetAttribute(&queue.sm_count, cudaDevAttrMultiProcessorCount, options.device),
        "cudaDeviceGetAttribute");
  const DeviceArray<std::byte> memory(kBytes);
  const DeviceArray<unsigned> out(1);
  Stream stream;
  queue.stream = stream;
  // Zeros can be read faster than data: no two neighbouring words are equal here.
  std::vector<uint32_t> pattern(std::size_t{1} << 20);
  for (std::size_t i = 0; i < pattern.size(); ++i) pattern[i] = static_cast<uint32_t>(i * 2654435761u);
  for (std::size_t at = 0; at < kBytes; at += pattern.size() * sizeof(uint32_t))
    check(cudaMemcpy(memory.data() + at, pattern.data(), pattern.size() * sizeof(uint32_t),
                     cudaMemcpyHostToDevice),
          "cudaMemcpy");
  TimingEvent before, after;
  std::vector<float> times;
  for (int i = 0; i < kRuns; ++i) {
    before.record(stream);
    launch(queue, read_kernel, dim3(kBlocksPerMultiprocessor * queue.sm_count), kThreads, 0,
           reinterpret_cast<const uint4*>(memory.data()), kBytes / sizeof(uint4), out.data());
    after.record(stream);
    times.push_back(after.ms_since(before));
  }
  check(queue.status, "the read kernel");
  std::nth_element(times.begin(), times.begin() + kRuns / 2, times.end());
  return static_cast<double>(kBytes) / times[kRuns / 2] * 1e3;
}

}  // namespace carat
