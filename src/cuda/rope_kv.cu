// From the raw q, k, v of the projections to what attention reads:
//   q = rope(norm(q) * q_norm)   float16, [rows, heads, head_dim]
//   K = rope(norm(k) * k_norm)   float16 pairs, or what else is kept, into the pages
//   V = norm(v)                  likewise; v is the raw k where the model has no v ("K = V")
// Norms bound all three, so float16 can't overflow, and it is eight times finer than bfloat16 at the same
// size.
#include <algorithm>

#include "cuda/kv_address.h"
#include "cuda/launch.h"
#include "cuda/math.h"
#include "cuda/ptx.h"
#include "cuda/raw_head.h"

namespace carat::cuda {
namespace {

constexpr int kMostWarps = 16, kMostPairs = 256;

/// Where a head of a row goes: q's place, or its key's or value's in the pages.
template <bool kInt8>
struct Target {
  float16 *high, *low;
  float* scale = nullptr;  // int8: its bytes begin at `high`

  __device__ Target(const RopeKvArgs& a, int row, int slot, bool is_query, bool is_value) {
    if (is_query) {
      high = a.q + (static_cast<std::size_t>(row) * a.heads + slot) * a.kv.head_dim;
      low = nullptr;
      return;
    }
    float16* const token = kv_address<kInt8>(a.kv, a.tables, a.places.sequences[row], a.places.positions[row],
                                             (slot - a.heads) % a.kv.kv_heads);
    high = token + (is_value ? a.kv.value_offset : 0);
    scale = reinterpret_cast<float*>(token + a.kv.head_dim) + is_value;
    low = a.kv.low_offset > 0 ? high + a.kv.low_offset : nullptr;
  }
};

// One warp per (row, head): query heads first, then the k and v heads of layers that own them. What the
// step brought (positions, pages) is there before the wait.
template <int kVectors, bool kInt8>
__global__ void __launch_bounds__(kMostWarps * 32) rope_kv_kernel(RopeKvArgs a) {
  __shared__ float2 turns[kMostPairs];  // cosine, sine
  ptx::launch_dependents();
  const int warp = threadIdx.x / 32, d = a.kv.head_dim, row = blockIdx.x;
  const int kv_heads = a.writes_kv ? a.kv.kv_heads : 0, slots = a.heads + 2 * kv_heads, half = d / 2;
  const int slot = blockIdx.y * (blockDim.x / 32) + warp;
  const float position = static_cast<float>(a.places.positions[row] + a.lead);
  for (int j = threadIdx.x; j < half; j += blockDim.x) turns[j] = turn_of(a, j, position);
  const bool is_query = slot < a.heads, is_value = slot >= a.heads + kv_heads;
  const Target<kInt8> to(a, row, min(slot, slots - 1), is_query, is_value);
  const float* gain = is_value ? nullptr : is_query ? a.q_norm : a.k_norm;
  RawHead<kVectors> head;
  float4 gains[kVectors][2];
#pragma unroll
  for (int i = 0; i < kVectors; ++i)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int at = head.dim(i);
      gains[i][h] = gain && at < half ? load4(gain + h * half, at / 4) : make_float4(1.f, 1.f, 1.f, 1.f);
    }
  __syncthreads();
  ptx::wait_for_dependencies();
  if (slot >= slots) return;

  const int source = is_value && !a.has_v ? slot - kv_heads : slot;
  const std::size_t from = static_cast<std::size_t>(row) * a.width + static_cast<std::size_t>(source) * d;
  head.load(a.sums, from, half);
  const auto gain_of = [&](int i, int h) { return gains[i][h]; };
  const auto turn = [&](int i, int e) { return is_value ? make_float2(1.f, 0.f) : turns[head.dim(i) + e]; };
  if (kInt8 && !is_query) {
    auto* bytes = reinterpret_cast<uint32_t*>(to.high);
    const float scale =
        head.finish_int8(half, a.eps, gain_of, turn, [&](int at, uint32_t four) { bytes[at / 4] = four; });
    if (threadIdx.x % 32 == 0) *to.scale = scale;
    return;
  }
  head.finish(half, a.eps, gain_of, turn, [&](int at, const float4& v) {
    store_halves(to.high + at, to.low ? to.low + at : nullptr, v);
  });
}

template <bool kInt8>
void launch_rope_kv(Queue& queue, const RopeKvArgs& args, dim3 grid, int threads) {
  launch(queue, raw_head_vectors(args.kv.head_dim) == 1 ? rope_kv_kernel<1, kInt8> : rope_kv_kernel<2, kInt8>,
         grid, threads, 0, args);
}

}  // namespace

void rope_kv(Queue& queue, const RopeKvArgs& args, int rows) {
  const int slots = args.heads + (args.writes_kv ? 2 * args.kv.kv_heads : 0);
  const int warps = std::min(slots, kMostWarps);
  const dim3 grid(rows, divide_up(slots, warps));
  if (args.kv.int8) {
    launch_rope_kv<true>(queue, args, grid, warps * 32);
  } else {
    launch_rope_kv<false>(queue, args, grid, warps * 32);
  }
}

}  // namespace carat::cuda
