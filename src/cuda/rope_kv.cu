// From the raw q, k, v of the projections to what attention reads:
//   q = rope(norm(q) * q_norm)   float16, [rows, heads, head_dim]
//   K = rope(norm(k) * k_norm)   float16 pairs, into the pages
//   V = norm(v)                  float16 pairs, into the pages; v is the raw k where the model has no v ("K =
//   V")
// Norms bound all three, so float16 can't overflow, and it is eight times finer than bfloat16 at the same
// size.
#include <algorithm>

#include "cuda/kv_address.h"
#include "cuda/launch.h"
#include "cuda/math.h"
#include "cuda/ptx.h"

namespace carat::cuda {
namespace {

constexpr int kMostWarps = 16, kMostPairs = 256;

/// Four neighbouring values as float16 and, with `low`, what float16 lost of them.
__device__ inline void store_halves(float16* high, float16* low, const float4& v) {
  const __half2 first = __floats2half2_rn(v.x, v.y), second = __floats2half2_rn(v.z, v.w);
  *reinterpret_cast<uint2*>(high) = make_uint2(bits(first), bits(second));
  if (!low) return;
  *reinterpret_cast<uint2*>(low) =
      make_uint2(bits(__floats2half2_rn(v.x - __low2float(first), v.y - __high2float(first))),
                 bits(__floats2half2_rn(v.z - __low2float(second), v.w - __high2float(second))));
}

/// Where a head of a row goes: q's place, or its key's or value's in the pages.
struct Target {
  float16 *high, *low;

  __device__ Target(const RopeKvArgs& a, int row, int slot, bool is_query, bool is_value) {
    if (is_query) {
      high = a.q + (static_cast<std::size_t>(row) * a.heads + slot) * a.kv.head_dim;
      low = nullptr;
      return;
    }
    high = kv_address(a.kv, a.tables, a.places.sequences[row], a.places.positions[row],
                      (slot - a.heads) % a.kv.kv_heads) +
           (is_value ? a.kv.value_offset : 0);
    low = high + a.kv.low_offset;
  }
};

// One warp per (row, head): query heads first, then the k and v heads of layers that own them. A lane holds
// kVectors float4 of either half of the head. What the step brought (positions, pages) is there before the
// wait.
template <int kVectors>
__global__ void __launch_bounds__(kMostWarps * 32) rope_kv_kernel(RopeKvArgs a) {
  __shared__ float2 turns[kMostPairs];  // cosine, sine
  ptx::launch_dependents();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, d = a.kv.head_dim, row = blockIdx.x;
  const int kv_heads = a.writes_kv ? a.kv.kv_heads : 0, slots = a.heads + 2 * kv_heads, half = d / 2;
  const int slot = blockIdx.y * (blockDim.x / 32) + warp;
  const float position = static_cast<float>(a.places.positions[row]);
  for (int j = threadIdx.x; j < half; j += blockDim.x) {
    float s = 0.f, c = 1.f;
    if (j < a.rotary_pairs) sincosf(position * a.frequencies[j], &s, &c);
    turns[j] = make_float2(c, s);
  }
  const bool is_query = slot < a.heads, is_value = slot >= a.heads + kv_heads;
  const Target to(a, row, min(slot, slots - 1), is_query, is_value);
  const float* gain = is_value ? nullptr : is_query ? a.q_norm : a.k_norm;
  const float4 one = make_float4(1.f, 1.f, 1.f, 1.f), zero = make_float4(0.f, 0.f, 0.f, 0.f);
  float4 gains[kVectors][2], v[kVectors][2];
#pragma unroll
  for (int i = 0; i < kVectors; ++i)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const bool inside = (i * 32 + lane) * 4 < half;
      gains[i][h] = gain && inside ? load4(gain + h * half, i * 32 + lane) : one;
    }
  __syncthreads();
  ptx::wait_for_dependencies();
  if (slot >= slots) return;

  const int source = is_value && !a.has_v ? slot - kv_heads : slot;
  const std::size_t from = static_cast<std::size_t>(row) * a.width + static_cast<std::size_t>(source) * d;
  float squares = 0.f;
#pragma unroll
  for (int i = 0; i < kVectors; ++i)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const bool inside = (i * 32 + lane) * 4 < half;
      v[i][h] = inside ? sum_parts(a.sums, from + h * half, i * 32 + lane) : zero;
      squares += dot(v[i][h], v[i][h]);
    }
  const float scale = rsqrtf(warp_sum(squares) / static_cast<float>(d) + a.eps);
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const int j = (i * 32 + lane) * 4;
    if (j >= half) continue;
    float first[4], second[4];
    const float4 x = times(v[i][0], gains[i][0]), y = times(v[i][1], gains[i][1]);
    const float xs[4] = {x.x, x.y, x.z, x.w}, ys[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float2 turn = is_value ? make_float2(1.f, 0.f) : turns[j + e];
      first[e] = (xs[e] * turn.x - ys[e] * turn.y) * scale;
      second[e] = (ys[e] * turn.x + xs[e] * turn.y) * scale;
    }
    store_halves(to.high + j, to.low ? to.low + j : nullptr,
                 make_float4(first[0], first[1], first[2], first[3]));
    store_halves(to.high + half + j, to.low ? to.low + half + j : nullptr,
                 make_float4(second[0], second[1], second[2], second[3]));
  }
}

}  // namespace

void rope_kv(Queue& queue, const RopeKvArgs& args, int rows) {
  constexpr int kFewVectors = 1, kManyVectors = 2;
  const int slots = args.heads + (args.writes_kv ? 2 * args.kv.kv_heads : 0);
  const int warps = std::min(slots, kMostWarps);
  const bool few = args.kv.head_dim / 2 <= 32 * 4 * kFewVectors;
  launch(queue, few ? rope_kv_kernel<kFewVectors> : rope_kv_kernel<kManyVectors>,
         dim3(rows, divide_up(slots, warps)), warps * 32, 0, args);
}

}  // namespace carat::cuda
