// Turns a plan into what the persistent kernel runs: phases and, for every CTA, a tape of weights.
#pragma once
#include <vector>

#include "cuda/packed_rows.h"
#include "cuda/persistent.h"
#include "model/gemma4.h"
#include "model/phases.h"

namespace carat::cuda {

/// Where phases find what they pass on. Device memory.
struct PersistentBuffers {
  float *hidden, *projected, *per_layer;  // the raw inputs of all layers; these, normed
  TaggedFloat* qkv;
  MarkedFloat *branch, *mixed;          // mixed: per-layer gates
  std::array<MarkedFloat*, 2> context;  // by KV group
};

/// What the phases are about besides the plan: the storage of each layer's keys and values.
using KvLayers = std::vector<KvLayer>;

struct PersistentSchedule {
  std::vector<TokenPhase> phases;
  std::vector<Phase> names;  // of the phases
  std::vector<TapeEntry> tape;
  std::vector<TapeRange> ranges;  // [CTAs]
  int vector_floats = 0;          // shared memory that the phases' vectors, and their sums, need
  int sums_floats = 0;
};

/// Bytes of a stage of the ring: no row may be longer. In E2B 8 rows of bf16, 16 of int8 or 32 of int4.
constexpr int ring_stage_bytes(WeightFormat format) {
  return format == WeightFormat::bf16   ? 24 * 1024
         : format == WeightFormat::int8 ? 16 * packed_row_bytes(format, 1536)
                                        : 32 * packed_row_bytes(format, 1536);
}

/// The ring has at least so many stages.
inline constexpr uint32_t kFewestRingStages = 4;

/// The format of the plan's layers.
WeightFormat persistent_format(const ModelPlan& plan);

/// Whether the persistent kernel can run the plan: one format (beside int4 also int8), no experts, rows that
/// fit.
bool persistent_supports(const ModelPlan& plan, int ctas);

/// `plan` points to device memory; the schedule keeps these addresses.
PersistentSchedule persistent_schedule(const ModelPlan& plan, const KvLayers& kv,
                                       const PersistentBuffers& buffers, int ctas);

}  // namespace carat::cuda
