// The ceiling of a long prompt: how fast this GPU's tensor cores multiply when their factors are on chip.
#include <algorithm>
#include <vector>

#include "cuda/cuda_runner.h"
#include "cuda/device.h"
#include "cuda/launch.h"
#include "cuda/ptx.h"

namespace carat {
namespace cuda {
namespace {

constexpr int kThreads = 256, kRounds = 4096;

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
/// Two warpgroups; each multiplies the same 128 rows by 128 columns, 64 deep, again and again.
__device__ float multiply(unsigned char* memory) {
  constexpr int kDepthSteps = 4, kTileBytes = 64 * 128;  // 64 rows of 128 bytes
  float acc[2][64] = {};
  const uint64_t a[2] = {ptx::swizzled_matrix(memory), ptx::swizzled_matrix(memory + kTileBytes)};
  const uint64_t b = ptx::swizzled_matrix(memory + 2 * kTileBytes);
  for (int round = 0; round < kRounds; ++round) {
    ptx::warpgroup_fence();
#pragma unroll
    for (int k = 0; k < kDepthSteps; ++k) {
      ptx::warpgroup_mma(acc[0], a[0] + 2 * k, b + 2 * k);
      ptx::warpgroup_mma(acc[1], a[1] + 2 * k, b + 2 * k);
    }
    ptx::warpgroup_commit();
    ptx::warpgroup_wait<1>();
  }
  ptx::warpgroup_wait<0>();
  float sum = 0.f;
  for (int i = 0; i < 64; ++i) sum += acc[0][i] + acc[1][i];
  return sum;
}
constexpr double kOperationsPerWarp = 2. * 128 * 128 * 64 / 4 * kRounds;
#else
/// Eight tiles of 16 by 8 per warp, 16 deep.
__device__ float multiply(unsigned char* memory) {
  constexpr int kTiles = 8;
  const uint32_t* words = reinterpret_cast<const uint32_t*>(memory) + threadIdx.x * 4;
  const uint32_t a[4] = {words[0], words[1], words[2], words[3]};
  float acc[kTiles][4] = {};
  for (int round = 0; round < kRounds; ++round) {
#pragma unroll
    for (int t = 0; t < kTiles; ++t) ptx::mma_bf16(acc[t], a, a[t % 4], a[(t + 1) % 4]);
  }
  float sum = 0.f;
  for (int t = 0; t < kTiles; ++t) sum += acc[t][0] + acc[t][1] + acc[t][2] + acc[t][3];
  return sum;
}
constexpr double kOperationsPerWarp = 2. * 16 * 8 * 16 * 8 * kRounds;
#endif

/// `operations` becomes the number of those that one warp does.
__global__ void __launch_bounds__(kThreads) multiply_kernel(float* out, double* operations) {
  __shared__ alignas(1024) unsigned char memory[32 * 1024];
  ptx::wait_for_dependencies();
  // Zeros multiply faster than data: bfloat16 numbers of both signs, between 1/2 and 1.
  uint32_t* words = reinterpret_cast<uint32_t*>(memory);
  for (unsigned i = threadIdx.x; i < sizeof memory / sizeof(uint32_t); i += kThreads)
    words[i] = 0x3f003f00u | ((i + 1) * 2654435761u & 0x807f807fu);
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  ptx::fence_shared_writes();
#endif
  __syncthreads();
  const float sum = multiply(memory);
  if (sum == 1.f) *out = sum;  // keeps the products
  if (blockIdx.x == 0 && threadIdx.x == 0) *operations = kOperationsPerWarp;
}

}  // namespace
}  // namespace cuda

double measure_cuda_matrix_rate(const CudaOptions& options) {
  using namespace cuda;
  constexpr int kRuns = 9, kBlocksPerMultiprocessor = 2;
  check(cudaSetDevice(options.device), "cudaSetDevice");
  Queue queue;
  queue.overlap = false;
  check(cudaDeviceGetAttribute(&queue.sm_count, cudaDevAttrMultiProcessorCount, options.device),
        "cudaDeviceGetAttribute");
  const DeviceArray<float> out(1);
  const DeviceArray<double> operations(1);
  Stream stream;
  queue.stream = stream;
  const int blocks = kBlocksPerMultiprocessor * queue.sm_count;
  TimingEvent before, after;
  std::vector<float> times;
  for (int i = 0; i < kRuns; ++i) {
    before.record(stream);
    launch(queue, multiply_kernel, dim3(static_cast<unsigned>(blocks)), kThreads, 0, out.data(),
           operations.data());
    after.record(stream);
    times.push_back(after.ms_since(before));
  }
  check(queue.status, "the matrix kernel");
  double per_warp = 0;
  check(cudaMemcpy(&per_warp, operations.data(), sizeof per_warp, cudaMemcpyDeviceToHost), "cudaMemcpy");
  std::nth_element(times.begin(), times.begin() + kRuns / 2, times.end());
  return per_warp * (kThreads / 32) * blocks / times[kRuns / 2] * 1e3;
}

}  // namespace carat
