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
  attention,
  per_layer_inputs  // what all layers' gates are multiplied with, from their raw projection
};

/// A float32 with the number of the launch and phase that wrote it, in the high half: whoever reads it needs
/// no fence to know that it is there.
using TaggedFloat = uint64_t;

/// The same in 4 bytes, for words that are written equally often in each launch: the lowest bit changes each
/// time. Everybody reads these, so that half the bytes matter.
using MarkedFloat = uint32_t;

/// How often such a word is written in a launch, and the how many-th time it is, from 1.
struct WordMark {
  uint32_t per_launch, index;
};

/// What all CTAs do between two waits: products of their rows, or attention. All pointers are device memory.
/// Every CTA keeps the residual stream x in shared memory, the embedding at first: inputs name a branch, but
/// not where x is. The logits' output is in PersistentArgs.
struct alignas(16) TokenPhase {
  PhaseKind kind;
  int wait_for;       // the phase that must have ended everywhere before this one reads; -1: none
  bool reads_marked;  // input: marked words
  bool writes_tagged, writes_marked;  // output: words that say when they are there, of either kind
  WordMark input_mark, output_mark;
  unsigned missing;  // CTAs that need not have ended `wait_for`: words tell; all: no wait

  VectorInput input;
  VectorOutput output;
  WeightFormat format;             // of W
  int rows_shift;                  // 1 when gated: two rows of W per output
  int outputs_each, outputs_rest;  // outputs per CTA; `outputs_rest` CTAs from rest_first on have one more
  int rest_first;                  // that CTA has the first rows
  int cols, row_bytes, slice_cols, slice_bytes;
  int slices_shift;  // warps that share a row
  int tile_rows;     // most rows of a tape entry

  int layers;  // per_layer_inputs

  // attention; output.out has its context, [heads, head_dim]
  int heads, window;
  bool writes_kv, has_v;
  KvLayer kv;
  const float* q_norm;
  const float* k_norm;
};
/// A warp copies a phase, 16 bytes a lane.
static_assert(sizeof(TokenPhase) % 16 == 0 && sizeof(TokenPhase) <= 512);

/// In-kernel times of CTA 0: cycles at the start of a phase, when its wait ended, when the tagged words were
/// there, when its vector was ready, when its products were done; and how many of the last ones were spent
/// waiting for weights. Of attention: when q was there, when q was normed, when its part was written, when
/// the parts were joined.
struct PhaseCycles {
  int64_t start, waited, loaded, ready, done, starved, part;
};

/// What attention has in common in all layers of a KV group.
struct ContextShape {
  int heads, kv_heads, head_dim, window;
  uint32_t page_rows;  // distance of pages, in 16 bytes
  bool two_halves;     // of keys and values are in the pages
};

/// A CTA's part of attention in the layers of a KV group.
struct alignas(16) ContextPart {
  static constexpr int kMostRows = 64, kTile = 16;
  int parts_shift;                 // parts of a head, or of a KV head where CTAs have all its query heads
  int kv_head, head;               // kv_head -1: this CTA has nothing to do
  int part, count;                 // keys, the row's own among them
  bool grouped, first_head, ends;  // first_head: of the KV head; ends: has the row's own key
  bool both_halves;                // of keys and values are read
  uint32_t own_row;
  /// Where the keys, or tiles of keys where grouped, begin behind KvLayer::keys, in 16 bytes.
  uint32_t rows[kMostRows];
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
  int vector_at, sums_at, rope_at, parts_at;
  std::array<ContextShape, 2> contexts;  // by KV group
  /// CTAs of each KV head where they have all its query heads, as a power of two; -1: never.
  int group_parts_shift;
  int page_shift;  // tokens of a page, a power of two
  int d_model, ple_dim;
  float eps;
  WeightFormat format;  // of the layers' matrices; beside int4 the other ones have int8
  Matrix embedding;
  float embed_scale;
  const int32_t* token;
  const int32_t* position;
  PageTables tables;
  std::array<const float*, 2> frequencies;      // by KV group
  std::array<int, 2> rotary_pairs, head_pairs;  // pairs of a head that rotate; all its pairs
  const TaggedFloat* qkv;
  TaggedFloat* parts;       // of attention: [heads, parts, head_dim]
  TaggedFloat* part_sizes;  // [heads, parts, 2]: largest score in powers of two, sum of weights
  VectorOutput head;
  int32_t* drawn;
  int32_t* host_token;
  PhaseCycles* cycles;  // of CTA 0, or null
};

inline constexpr int kCounterWords = 32;  // a cache line each
/// Parts of a head's keys where CTAs have one head, and where they have all heads of a KV head.
inline constexpr int kMostContextParts = 16, kMostGroupParts = 128;
/// From this position on CTAs have all query heads of a KV head in layers that see everything.
inline constexpr int kGroupedFrom = 512;
/// Keys of a part, while there are CTAs for more of them.
inline constexpr int kKeysOfPart = 16;
inline constexpr int kMostGroup = 8;  // heads of a KV head
/// Shared memory of attention: of one head; of a group.
constexpr int attention_scratch_floats(int head_dim) { return 2 * head_dim + 4 * 8 + 2 * 32; }
constexpr int group_scratch_floats(int head_dim) { return 3120 + head_dim; }
/// Stages of the ring that loads ahead of the computation.
inline constexpr int kMostRingStages = 16;

/// Whether there is a kernel for weights of this format, a residual stream of this width and these head
/// sizes.
bool has_persistent_kernel(WeightFormat format, int width, int full_head_dim, int sliding_head_dim);
inline constexpr int kMostPersistentWidth = 3072;

void persistent_step(Queue& queue, const PersistentArgs& args, std::size_t shared_bytes);

}  // namespace carat::cuda
