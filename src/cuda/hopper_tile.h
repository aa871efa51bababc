// What the kernels of matmul_hopper.cu and matmul_packed.cu share: the shape of a CTA's tile, its ring in
// shared memory and what becomes of finished sums. Included by these two only.
#pragma once
#include <cooperative_groups.h>
#include <cudaTypedefs.h>

#include <algorithm>

#include "cuda/launch.h"
#include "cuda/matmul.h"
#include "cuda/ptx.h"

namespace carat::cuda {

/// A tile's activations as the copy engine fetches them: boxes of kDepth columns and all the tile's tokens.
struct TokenBoxes {
  CUtensorMap hi, lo;  // lo: of two passes
  uint32_t bytes;      // that arrive in a stage
};
/// The last tile may have fewer tokens. What a box has outside the matrix would be zeros, but they come
/// slowly: 33 tokens in boxes of 64 took 1.3 times as long as 64.
struct TokenMaps {
  TokenBoxes whole, last;
};
/// In tiles of `tile_tokens`.
TokenMaps token_maps(Queue& queue, const MatmulArgs& args, int tile_tokens, int passes);
/// The kernels for int8 and int4 weights.
void packed_hopper_matmul(Queue& queue, const MatmulArgs& args);

inline constexpr int kDepth = 64, kGroupRows = 8;
inline constexpr int kMostJoined = 8, kFewTokens = 64;  // splits of a cluster, and tokens
inline constexpr int kRowBytes = kDepth * 2;            // the width of the copy engine's permutation

/// CTAs that share a multiprocessor: several let the next product start early.
constexpr int resident(int rows) { return rows == 64 ? 3 : rows == 128 ? 2 : 1; }

constexpr int stages(int rows, int tokens, int passes, int ctas) {
  constexpr int kMost = 8, kSharedBytes = 224 * 1024, kStatic = 2 * 1024;
  return std::min(kMost, (kSharedBytes / ctas - kStatic) / ((rows + passes * tokens) * kRowBytes));
}

template <int kTileRows, int kTileTokens, int kPassCount, int kCtas = resident(kTileRows)>
struct Shape {
  static constexpr int kRows = kTileRows, kTokens = kTileTokens, kPasses = kPassCount;
  static constexpr int kResident = kCtas;
  static constexpr int kRowTiles = kRows == 256 ? 2 : 1;  // of 64 rows, per warpgroup
  static constexpr int kGroups = kRows / 64 / kRowTiles;
  static constexpr int kWeightBytes = kRows * kRowBytes, kTokenBytes = kTokens * kRowBytes;
  static constexpr int kStageBytes = kWeightBytes + kPasses * kTokenBytes;
  static constexpr int kStages = stages(kRows, kTokens, kPasses, kResident);
  static constexpr int kAlignment = 1024;
  static constexpr int kSharedBytes = kStages * kStageBytes + kAlignment;
  /// Few tokens are multiplied long before the next weights arrive: a stage is given back at once.
  static constexpr int kPending = kTokens <= 32 ? 0 : 1;
  using Sums = float[kRowTiles][kTokens / 2];
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/// The number of this warpgroup, in a way that tells the compiler that a warp agrees on it: descriptors then
/// need no detour through each lane's registers.
template <class S>
__device__ inline int warpgroup() {
  return S::kGroups == 1 ? 0 : __shfl_sync(kAllLanes, static_cast<int>(threadIdx.x) / 128, 0);
}

/// Of tokens; `joins`: x counts the splits of one tile.
__device__ inline bool is_last_tile(bool joins) { return joins || blockIdx.x + 1 == gridDim.x; }

/// Calls visit(row, token, first, second) for the lane's pairs of sums: those of rows lane / 4 and
/// lane / 4 + 8 of its warp's 16. Of a gated product these are a gate row and its up row, and `row` is the
/// number of the pair.
template <class S, bool kGated, class Visit>
__device__ void for_each_pair(const typename S::Sums& acc, int first_row, int first_token, Visit&& visit) {
  const int group = warpgroup<S>(), warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
#pragma unroll
  for (int m = 0; m < S::kRowTiles; ++m) {
    const int tile_row = first_row + (group * S::kRowTiles + m) * 64 + warp * 16;
    const int row = (kGated ? tile_row / 2 : tile_row) + lane / 4;
#pragma unroll
    for (int n = 0; n < S::kTokens / 8; ++n)
#pragma unroll
      for (int c = 0; c < 2; ++c)
        visit(row, first_token + n * 8 + lane % 4 * 2 + c, acc[m][n * 4 + c], acc[m][n * 4 + c + 2]);
  }
}

/// cap * tanh(x / cap), to an absolute error of 1e-7 cap.
__device__ inline float fast_soft_cap(float x, float cap) {
  return cap - __fdividef(2.f * cap, 1.f + __expf(2.f * x / cap));
}

template <class S, bool kGated>
__device__ void store(const MatmulArgs& a, const typename S::Sums& acc, int first_row, int first_token) {
  const auto visit = [&](auto&& visitor) { for_each_pair<S, kGated>(acc, first_row, first_token, visitor); };
  if constexpr (kGated) {
    visit([&](int pair, int token, float gate, float up) { finish_gated(a, token, pair, gate, up); });
    return;
  }
  float* out = a.output.out + static_cast<std::size_t>(blockIdx.z) * a.tokens * a.w.rows;
  const auto write = [&](int row, int token, float first, float second) {
    float* to = out + static_cast<std::size_t>(token) * a.w.rows + row;
    if (token < a.tokens && row < a.w.rows) to[0] = first;
    if (token < a.tokens && row + 8 < a.w.rows) to[8] = second;
  };
  const float cap = a.output.finish == Finish::cap ? a.output.cap : 0.f;
  if (cap == 0.f) {
    visit(write);
  } else {
    visit([&](int row, int token, float first, float second) {
      write(row, token, fast_soft_cap(first, cap), fast_soft_cap(second, cap));
    });
  }
}

/// Two neighbouring rows of a joined tile, [tokens, rows / 2].
template <class S>
struct JoinedPair {
  int token, row;

  __device__ JoinedPair(int pair, int first_row)
      : token(pair / (S::kRows / 2)), row(first_row + pair % (S::kRows / 2) * 2) {}
  __device__ bool inside(const MatmulArgs& a) const { return token < a.tokens && row < a.w.rows; }
  __device__ float2 factor(const MatmulArgs& a) const {
    if (!inside(a)) return make_float2(0.f, 0.f);
    return *reinterpret_cast<const float2*>(a.output.factor +
                                            static_cast<std::size_t>(token) * a.output.factor_stride + row);
  }
};

/// The first pair that a thread joins.
template <class S>
__device__ int first_joined_pair() {
  const int rank = static_cast<int>(cooperative_groups::this_cluster().block_rank());
  return rank * 128 * S::kGroups + static_cast<int>(threadIdx.x);
}
/// What its sums will be multiplied with: read before they are there.
template <class S>
__device__ float2 first_joined_factor(const MatmulArgs& a, int first_row) {
  return JoinedPair<S>(first_joined_pair<S>(), first_row).factor(a);
}

/// The splits of a cluster share out the tile's sums, add them in order and finish them. `factor` is that of
/// the first pair.
template <class S>
__device__ void store_joined(const MatmulArgs& a, const typename S::Sums& acc, unsigned char* memory,
                             int first_row, float2 factor) {
  const cooperative_groups::cluster_group cluster = cooperative_groups::this_cluster();
  float* sums = reinterpret_cast<float*>(memory);  // [tokens, rows]
  for_each_pair<S, false>(acc, 0, 0, [&](int row, int token, float first, float second) {
    sums[token * S::kRows + row] = first;
    sums[token * S::kRows + row + 8] = second;
  });
  cluster.sync();
  const int pairs = min(S::kTokens, a.tokens) * S::kRows / 2, step = a.splits * 128 * S::kGroups;
#pragma unroll 1
  for (int i = first_joined_pair<S>(); i < pairs; i += step) {
    const JoinedPair<S> pair(i, first_row);
    if (pair.inside(a)) {
      float2 part[kMostJoined], total = make_float2(0.f, 0.f);
#pragma unroll
      for (int r = 0; r < kMostJoined; ++r)
        part[r] = r < a.splits ? reinterpret_cast<const float2*>(cluster.map_shared_rank(sums, r))[i]
                               : make_float2(0.f, 0.f);
#pragma unroll
      for (int r = 0; r < kMostJoined; ++r) total = make_float2(total.x + part[r].x, total.y + part[r].y);
      store_split2(a.output.split.hi, a.output.split.lo,
                   static_cast<std::size_t>(pair.token) * a.w.rows + pair.row, gelu_tanh(total.x) * factor.x,
                   gelu_tanh(total.y) * factor.y);
    }
    factor = JoinedPair<S>(i + step, first_row).factor(a);
  }
  ptx::cluster_arrive_relaxed();  // what was read has arrived, since it was used
  ptx::cluster_wait();            // nobody leaves while its sums are read
}

#endif

}  // namespace carat::cuda
