// From the raw q, k, v of the projections to what attention reads:
//   q = rope(norm(q) * q_norm)   float16, [rows, heads, head_dim]
//   K = rope(norm(k) * k_norm)   float16 pairs, into the pages
//   V = norm(v)                  float16 pairs, into the pages; v is the raw k where the model has no v ("K =
//   V")
// Norms bound all three, so float16 can't overflow, and it is eight times finer than bfloat16 at the same
// size.
#include "cuda/kv_address.h"
#include "cuda/launch.h"
#include "cuda/math.h"
#include "cuda/ptx.h"

namespace carat::cuda {
namespace {

constexpr int kWarps = 8, kMaxHeadDim = 512;

// One warp per (row, head): query heads first, then k and v heads of layers that own them.
__global__ void __launch_bounds__(kWarps * 32) rope_kv_kernel(RopeKvArgs a) {
  __shared__ float heads[kWarps][kMaxHeadDim];
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, d = a.kv.head_dim, row = blockIdx.x;
  const int slot = blockIdx.y * kWarps + warp, kv_heads = a.writes_kv ? a.kv.kv_heads : 0;
  if (slot >= a.heads + 2 * kv_heads) return;
  const bool is_query = slot < a.heads, is_value = slot >= a.heads + kv_heads;
  const int source = is_value && !a.has_v ? slot - kv_heads : slot;
  const std::size_t from = static_cast<std::size_t>(row) * a.width + static_cast<std::size_t>(source) * d;
  float* head = heads[warp];
  float squares = 0.f;
  for (int i = lane; i < d; i += 32) {
    float v = 0.f;
#pragma unroll 8
    for (int part = 0; part < a.sums.parts; ++part) v += a.sums.data[part * a.sums.stride + from + i];
    head[i] = v;
    squares += v * v;
  }
  const float scale = rsqrtf(warp_sum(squares) / static_cast<float>(d) + a.eps);
  const float* gain = is_value ? nullptr : is_query ? a.q_norm : a.k_norm;
  for (int i = lane; i < d; i += 32) head[i] *= gain ? scale * gain[i] : scale;
  __syncwarp();

  const int position = a.places.positions[row], half = d / 2;
  float16* to;
  if (is_query) {
    to = a.q + (static_cast<std::size_t>(row) * a.heads + slot) * d;
  } else {
    const int kv_head = (slot - a.heads) % kv_heads;
    to = kv_address(a.kv, a.tables, a.places.sequences[row], position, kv_head) +
         (is_value ? a.kv.value_offset : 0);
  }
  for (int j = lane; j < half; j += 32) {
    float first = head[j], second = head[j + half];
    if (!is_value && j < a.rotary_pairs) {
      float s, c;
      sincosf(static_cast<float>(position) * a.frequencies[j], &s, &c);
      const float rotated = first * c - second * s;
      second = second * c + first * s;
      first = rotated;
    }
    if (is_query) {
      to[j] = __float2half_rn(first);
      to[j + half] = __float2half_rn(second);
    } else {
      store_kv(a.kv, to, j, first);
      store_kv(a.kv, to, j + half, second);
    }
  }
}

}  // namespace

void rope_kv(Queue& queue, const RopeKvArgs& args, int rows) {
  const int slots = args.heads + (args.writes_kv ? 2 * args.kv.kv_heads : 0);
  launch(queue, rope_kv_kernel, dim3(rows, divide_up(slots, kWarps)), kWarps * 32, 0, args);
}

}  // namespace carat::cuda
