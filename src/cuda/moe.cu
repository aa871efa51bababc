// Experts beside the dense MLP (26B-A4B): router, choice of the top k, and the chosen experts' matrices in
// float32. One warp per output, so each expert's weights are read once per row that chose it: right for few
// rows.
#include "cuda/launch.h"
#include "cuda/math.h"
#include "cuda/ptx.h"
#include "cuda/weight_values.h"

namespace carat::cuda {
namespace {

constexpr int kWarps = 8, kThreads = 32 * kWarps;

__device__ inline float rms_scale(float square_sum, int d, float eps) {
  return rsqrtf(square_sum / static_cast<float>(d) + eps);
}

/// Dot product of one row of weights with a vector, over the lanes of a warp.
__device__ inline float warp_dot(const Matrix& matrix, std::size_t row, const float* x, int lane) {
  const std::byte* at = row_of(matrix, row);
  float sum = 0.f;
  with_format(matrix.format, [&](auto eight) {
    for (int i = lane * 8; i < matrix.cols; i += 256) {
      float w[8];
      eight.load(at, i, matrix.cols);
      to_floats(eight, w);
#pragma unroll
      for (int j = 0; j < 8; ++j) sum += w[j] * x[i + j];
    }
  });
  return warp_sum(sum);
}

// One CTA per row: input = norm(x, pre); scores = router(norm(x) * router_scale / sqrt(d)).
__global__ void __launch_bounds__(kThreads) router_kernel(MoeArgs a) {
  extern __shared__ float u[];
  __shared__ float scratch[kWarps];
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  const int d = a.d_model;
  const float* x = a.x + static_cast<std::size_t>(blockIdx.x) * d;
  float squares = 0.f;
  for (int i = threadIdx.x; i < d; i += kThreads) squares += x[i] * x[i];
  const float scale = rms_scale(block_sum<kThreads>(squares, scratch), d, a.eps);
  const float to_router = scale * rsqrtf(static_cast<float>(d));
  for (int i = threadIdx.x; i < d; i += kThreads) {
    u[i] = x[i] * to_router * a.router_scale[i];
    a.input[static_cast<std::size_t>(blockIdx.x) * d + i] = x[i] * scale * a.pre[i];
  }
  __syncthreads();
  for (int e = threadIdx.x / 32; e < a.experts; e += kWarps) {
    const float score = warp_dot(a.router, e, u, threadIdx.x % 32);
    if (threadIdx.x % 32 == 0) a.scores[blockIdx.x * a.experts + e] = score;
  }
}

// One warp per row: the k largest scores, the lower expert of equals; their softmax, times each expert's own
// scale.
__global__ void __launch_bounds__(32) choose_kernel(MoeArgs a) {
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  const int lane = threadIdx.x;
  float* scores = a.scores + blockIdx.x * a.experts;
  int32_t* chosen = a.chosen_experts + blockIdx.x * a.chosen;
  float* weights = a.chosen_weights + blockIdx.x * a.chosen;
  float largest = 0.f, total = 0.f;
  for (int k = 0; k < a.chosen; ++k) {
    float best = -INFINITY;
    int id = a.experts;
    for (int e = lane; e < a.experts; e += 32) {
      if (scores[e] > best) {
        best = scores[e];
        id = e;
      }
    }
    for (int offset = 16; offset > 0; offset /= 2) {
      const float other = __shfl_xor_sync(kAllLanes, best, offset);
      const int other_id = __shfl_xor_sync(kAllLanes, id, offset);
      if (other > best || (other == best && other_id < id)) {
        best = other;
        id = other_id;
      }
    }
    id = min(id, a.experts - 1);  // all NaN: any expert, the logits turn NaN and the row fails
    if (k == 0) largest = best;
    const float weight = expf(best - largest);
    total += weight;
    if (lane == 0) {
      chosen[k] = id;
      weights[k] = weight * a.expert_scale[id];
      scores[id] = -INFINITY;
    }
    __syncwarp();
  }
  for (int k = lane; k < a.chosen; k += 32) weights[k] /= total;
}

// hidden[row, k] = gelu(gate input) * up input; grid (width / warps, rows * chosen)
__global__ void __launch_bounds__(kThreads) expert_hidden_kernel(MoeArgs a) {
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  const int i = blockIdx.x * kWarps + threadIdx.x / 32, lane = threadIdx.x % 32, row = blockIdx.y / a.chosen;
  if (i >= a.width) return;
  const std::size_t expert = a.chosen_experts[blockIdx.y], gate = expert * 2 * a.width + i;
  const float* x = a.input + static_cast<std::size_t>(row) * a.d_model;
  const float g = warp_dot(a.gate_up, gate, x, lane), u = warp_dot(a.gate_up, gate + a.width, x, lane);
  if (lane == 0) a.hidden[static_cast<std::size_t>(blockIdx.y) * a.width + i] = gelu_tanh(g) * u;
}

// out[row] = sum over the chosen of weight * down(hidden); grid (d_model / warps, rows)
__global__ void __launch_bounds__(kThreads) expert_down_kernel(MoeArgs a) {
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  const int i = blockIdx.x * kWarps + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (i >= a.d_model) return;
  float sum = 0.f;
  for (int k = 0; k < a.chosen; ++k) {
    const std::size_t at = static_cast<std::size_t>(blockIdx.y) * a.chosen + k, expert = a.chosen_experts[at];
    sum += a.chosen_weights[at] * warp_dot(a.down, expert * a.d_model + i, a.hidden + at * a.width, lane);
  }
  if (lane == 0) a.out[static_cast<std::size_t>(blockIdx.y) * a.d_model + i] = sum;
}

__global__ void __launch_bounds__(kThreads)
    add_experts_kernel(PartialSums branch, const float* post_dense, const float* experts,
                       const float* post_experts, float eps, int d, float* out) {
  __shared__ float scratch[2][kWarps];
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  const std::size_t base = static_cast<std::size_t>(blockIdx.x) * d;
  float dense_squares = 0.f, expert_squares = 0.f;
  const auto dense = [&](int i) {
    float v = 0.f;
    for (int part = 0; part < branch.parts; ++part) v += branch.data[part * branch.stride + base + i];
    return v;
  };
  for (int i = threadIdx.x; i < d; i += kThreads) {
    const float v = dense(i), e = experts[base + i];
    dense_squares += v * v;
    expert_squares += e * e;
  }
  const float dense_scale = rms_scale(block_sum<kThreads>(dense_squares, scratch[0]), d, eps);
  const float expert_scale = rms_scale(block_sum<kThreads>(expert_squares, scratch[1]), d, eps);
  for (int i = threadIdx.x; i < d; i += kThreads)
    out[base + i] =
        dense(i) * dense_scale * post_dense[i] + experts[base + i] * expert_scale * post_experts[i];
}

}  // namespace

void experts(Queue& queue, const MoeArgs& args, int rows) {
  launch(queue, router_kernel, dim3(rows), kThreads, args.d_model * sizeof(float), args);
  launch(queue, choose_kernel, dim3(rows), 32, 0, args);
  launch(queue, expert_hidden_kernel, dim3(divide_up(args.width, kWarps), rows * args.chosen), kThreads, 0,
         args);
  launch(queue, expert_down_kernel, dim3(divide_up(args.d_model, kWarps), rows), kThreads, 0, args);
}

void add_experts(Queue& queue, PartialSums branch, const float* post_dense, const float* experts,
                 const float* post_experts, float eps, int d_model, float* out, int rows) {
  launch(queue, add_experts_kernel, dim3(rows), kThreads, 0, branch, post_dense, experts, post_experts, eps,
         d_model, out);
}

}  // namespace carat::cuda
