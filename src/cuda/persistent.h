// One kernel for a whole decode step with a single row: what its phases and its tape of weights look like,
// for the host that writes them and the device that runs them. docs/kernels/persistent.md has the design.
#pragma once
#include <array>

#include "cuda/decode.h"
#include "cuda/kernels.h"

namespace carat::cuda {

/// One bulk copy of a CTA: neighbouring rows of a matrix, where the checkpoint's layout has them.
struct alignas(16) TapeEntry {
  const std::byte* from;
  uint32_t bytes;
  uint32_t tiles_in_flight;  // at most, this one among them
};

/// A CTA's part of the tape, in the order in which it is consumed.
struct TapeRange {
  uint32_t first, count;
};

enum class PhaseKind {
  product,  // of `input`
  attention
};

/// A float32 with the number of the launch and phase that wrote it, in the high half: whoever reads it needs
/// no fence to know that it is there.
using TaggedFloat = uint64_t;

/// What all CTAs do between two waits: products of their rows, or attention. All pointers are device memory.
/// Every CTA keeps the residual stream x in shared memory, the embedding at first: inputs name a branch, but
/// not where x is. The logits' output is in PersistentArgs.
struct alignas(16) TokenPhase {
  PhaseKind kind;
  int wait_for;  // the phase that must have ended everywhere before this one reads; -1: none
  bool reads_tagged, writes_tagged;  // input and output are tagged words
  bool direct;                       // warps write their outputs themselves
  unsigned missing;                  // CTAs that need not have ended `wait_for`: their words have tags

  VectorInput input;
  VectorOutput output;
  int rows_shift;                  // 1 when gated: two rows of W per output
  int outputs_each, outputs_rest;  // outputs per CTA; `outputs_rest` CTAs from rest_first on have one more
  int rest_first;                  // that CTA has the first rows
  int cols, row_bytes, slice_cols, slice_bytes;
  int slices_shift;  // warps that share a row
  int tile_rows;     // most rows of a tape entry

  // attention
  int heads, window;
  bool writes_kv, has_v;
  KvLayer kv;
  const float* q_norm;
  const float* k_norm;
};
/// A warp copies a phase, 16 bytes a lane.
static_assert(sizeof(TokenPhase) % 16 == 0 && sizeof(TokenPhase) <= 512);

/// In-kernel times of CTA 0: cycles at the start of a phase, when its wait ended, when its vector was ready,
/// when its products were done; and how many of the last ones were spent waiting for weights. Of attention:
/// when q was there, when q was normed, when its part was written, when the parts were joined.
struct PhaseCycles {
  int64_t start, waited, ready, done, starved, part;
};

struct PersistentArgs {
  const TokenPhase* phases;
  int phase_count;
  const TapeEntry* tape;
  const TapeRange* ranges;  // [CTAs]
  unsigned* counters;       // [phases], kCounterWords apart: arrivals since the first launch
  unsigned launch;          // number of this launch, from 1
  int stages, stage_bytes;  // of the ring in shared memory
  // Offsets behind the ring, in floats.
  int vector_at, sums_at, rope_at, pages_at;
  int page_shift, most_pages;  // tokens of a page are a power of two; pages of a sequence, in each KV group
  int d_model, ple_dim;
  float eps;
  Matrix embedding;  // bf16
  float embed_scale;
  const int32_t* token;
  const int32_t* position;
  PageTables tables;
  std::array<const float*, 2> frequencies;      // by KV group
  std::array<int, 2> rotary_pairs, head_pairs;  // pairs of a head that rotate; all its pairs
  const TaggedFloat* qkv;
  TaggedFloat* parts;       // of attention: [heads, kMostContextParts, head_dim]
  TaggedFloat* part_sizes;  // [heads, kMostContextParts, 2]: largest score in powers of two, sum of weights
  TaggedFloat* context;     // [heads, head_dim]
  VectorOutput head;
  int32_t* drawn;
  int32_t* host_token;
  PhaseCycles* cycles;  // of CTA 0, or null
};

inline constexpr int kCounterWords = 32;  // a cache line each
inline constexpr int kMostContextParts = 16;
/// Shared memory of attention: q, the own value, sums of the warps, scores.
constexpr int attention_scratch_floats(int head_dim) { return 2 * head_dim + 4 * 8 + 2 * 32; }
/// Stages of the ring that loads ahead of the computation.
inline constexpr int kMostRingStages = 16;

/// Whether there is a kernel for a residual stream of this width and these head sizes.
bool has_persistent_kernel(int width, int full_head_dim, int sliding_head_dim);
inline constexpr int kMostPersistentWidth = 3072;

void persistent_step(Queue& queue, const PersistentArgs& args, std::size_t shared_bytes);

}  // namespace carat::cuda
