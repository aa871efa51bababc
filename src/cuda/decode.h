// The kernels of a decode step with a single row (sm_90 and later). They pass float32 vectors and start
// before their predecessor has ended: each brings its first weights on chip, then waits for its input.
#pragma once
#include "cuda/kernels.h"

namespace carat::cuda {

/// Where a matvec gets its vector. Every CTA computes it anew: cheaper than a kernel of its own.
enum class VectorSource {
  plain,     // in
  residual,  // x = (in + norm(branch, branch_gain)) * scalar;  vector = norm(x, norm_gain), or x without a
             // gain
  embedding  // x = embedding[token] * scalar;  vector likewise
};

struct VectorInput {
  VectorSource source = VectorSource::plain;
  const float* in = nullptr;
  const float* branch = nullptr;
  const float* branch_gain = nullptr;
  const float* norm_gain = nullptr;
  float scalar = 1.f, eps = 0.f;
  Matrix embedding{};
  const int32_t* token = nullptr;
  float* x_out = nullptr;  // x, for the kernels to come; must not be `in`
};

enum class VectorFinish { store, gated_gelu, per_layer, logits };

/// What a per-layer gate is multiplied with: (norm(raw * project_scale) * gain + table[token] * table_scale)
/// / sqrt(2), or `raw` itself when gain is null.
struct PerLayerFactor {
  const float* raw = nullptr;  // this layer's slice of the projection, [ple_dim]
  const float* gain = nullptr;
  Matrix table{};
  int table_column = 0;  // where this layer's slice begins
  float project_scale = 0.f, table_scale = 0.f;
};

struct VectorOutput {
  VectorFinish finish = VectorFinish::store;
  float* out = nullptr;  // [rows], gated: [rows / 2]
  PerLayerFactor factor;
  // logits: capped; the best of each CTA's share goes to the candidates
  float cap = 0.f;
  const int32_t* suppressed = nullptr;
  int suppressed_count = 0;
  float* candidate_values = nullptr;
  int32_t* candidate_ids = nullptr;
};

struct MatvecArgs {
  Matrix w;
  VectorInput input;
  VectorOutput output;
  /// Lets the next kernel start only once all before this one have ended; what follows may then read their
  /// results before its own wait.
  bool late = false;
  // Set by matvec():
  int outputs_each, outputs_rest;  // outputs per CTA; the first `outputs_rest` CTAs have one more
  int slices, slices_shift;        // the columns are split over the warps of a CTA; warps per slice
  int slice_cols;                  // of all slices but the last
  int row_bytes, slice_bytes;
  int stages;  // copies that a warp has in flight
};

/// Whether matvec() can multiply a matrix of this format and so many columns.
bool matvec_supports(WeightFormat format, int cols);
/// CTAs of a product, each of which leaves a candidate when it is a head's.
int matvec_ctas(const Queue& queue, const Matrix& w, bool gated = false);
void matvec(Queue& queue, const MatvecArgs& args);

/// The drawn token from the candidates of the head: for the next step, and for the host (pinned memory).
void pick_candidate(Queue& queue, const float* values, const int32_t* ids, int count, int32_t* drawn,
                    int32_t* host_token);

/// Reads a step's words from pinned memory, of which the first is their number, and resolves its only token
/// as resolve_tokens() does. A kernel that reads over the bus costs less than a copy between two graphs.
void fetch_step(Queue& queue, const int32_t* from, int32_t* to, int32_t* token, const int32_t* drawn,
                const SoftTokens& soft);

struct DecodeAttentionArgs {
  const float* qkv;  // raw q, then k and v where the layer owns them
  int heads, window;
  bool writes_kv, has_v;
  const float* q_norm;
  const float* k_norm;
  const float* frequencies;
  int rotary_pairs;
  float eps;
  KvLayer kv;
  const int32_t* position;
  int lead;  // as in RopeKvArgs
  PageTables tables;
  float* context;  // [heads, head_dim]
  int halves;      // of keys and values that are read: 2, or 1 for the high ones
};
/// CTAs that share out the keys of a head.
inline constexpr int kAttentionCluster = 8;
/// Norms, rotation, K/V append and attention of one row, for contexts that are not long.
void decode_attention(Queue& queue, const DecodeAttentionArgs& args);

}  // namespace carat::cuda
