// The persistent kernel's tape of weights: the thread that loads it into a ring in shared memory, and which
// of it a CTA and a warp multiply. Included by .cu files only.
#pragma once
#include "cuda/persistent.h"
#include "cuda/ptx.h"
#include "cuda/vector_phase.h"

namespace carat::cuda {

/// One warp more loads; its three neighbours end at once (with 32 threads more instead of 128 nothing was
/// gained).
inline constexpr int kLoadingThreads = 128;

/// Stage s is full when its copy has arrived, and empty when all computing warps have read it.
struct RingBarriers {
  uint64_t full[kMostRingStages], empty[kMostRingStages];
};

struct RingPlace {
  int stage = 0;
  uint32_t parity = 0;

  RingPlace() = default;
  __device__ RingPlace(uint32_t tile, int stages)
      : stage(static_cast<int>(tile % stages)), parity(tile / stages & 1) {}

  __device__ void advance(int stages) {
    if (++stage < stages) return;
    stage = 0;
    parity ^= 1;
  }
};

/// The loading thread. It keeps no books: two conditions a tile are all that it has time for.
__device__ inline void load_tape(const PersistentArgs& a, unsigned char* ring, RingBarriers& barriers) {
  const TapeRange range = a.ranges[blockIdx.x];
  const uint64_t policy = ptx::policy_evict_first();
  TapeEntry next = a.tape[range.first];
#pragma unroll 1
  for (uint32_t i = 0; i < range.count; ++i) {
    const TapeEntry entry = next;
    next = a.tape[range.first + min(i + 1, range.count - 1)];
    const RingPlace place(i, a.stages);
    if (i >= entry.tiles_in_flight) {
      const RingPlace oldest(i - entry.tiles_in_flight, a.stages);
      ptx::barrier_wait(barriers.full + oldest.stage, oldest.parity);
    }
    ptx::barrier_wait(barriers.empty + place.stage, place.parity ^ 1);
    uint64_t* full = barriers.full + place.stage;
    ptx::barrier_expect(full, entry.bytes);
    ptx::bulk_copy(ring + place.stage * a.stage_bytes, entry.from, entry.bytes, full, policy);
  }
}

/// A CTA's outputs of a product.
struct OutputRange {
  int first, count;

  __device__ OutputRange(const TokenPhase& p) {
    const int ctas = gridDim.x, after = static_cast<int>(blockIdx.x) - p.rest_first,
              place = after < 0 ? after + ctas : after;
    first = place * p.outputs_each + min(place, p.outputs_rest);
    count = p.outputs_each + (place < p.outputs_rest ? 1 : 0);
  }
};

/// What a warp has of a CTA's products: rows group, group + groups and so on of each tile, of these a slice.
/// Read before the wait: behind it every load counts.
struct WarpShare {
  int count, shift;  // outputs of the CTA; 1 when gated
  int slice, first_col, cols;
  int group, groups;
  int tile_rows, row_bytes, offset;  // of the slice in its row

  __device__ WarpShare(const TokenPhase& p, int outputs) : count(outputs), shift(p.rows_shift) {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    slice = warp & ((1 << p.slices_shift) - 1);
    first_col = slice * p.slice_cols;
    cols = min(p.slice_cols, p.cols - first_col);
    group = warp >> p.slices_shift;
    groups = kVectorWarps >> p.slices_shift;
    tile_rows = p.tile_rows;
    row_bytes = p.row_bytes;
    offset = slice * p.slice_bytes;
  }
};

}  // namespace carat::cuda
