// What the kernel files offer to the blocks and the runner: one function per launch. All pointers are device
// memory; nothing here allocates, waits or throws.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "model/weights.h"

namespace carat::cuda {

/// The widest residual stream: four vectors of four elements in each thread of a norm.
inline constexpr int kMostNormThreads = 512, kMostModelWidth = 4 * 4 * kMostNormThreads;

/// What every GPU of compute capability 8.0 or later gives a CTA, static shared memory included.
inline constexpr int kFewestSharedBytes = 99 * 1024;

using bfloat16 = __nv_bfloat16;
using float16 = __half;

/// A stream, and the first error of a launch on it.
struct Queue {
  cudaStream_t stream = nullptr;
  bool overlap = true;  // programmatic dependent launch (sm_90 and later)
  int sm_count = 1;
  cudaError_t status = cudaSuccess;
  std::unordered_map<const void*, std::size_t>
      prepared{};                         // kernels and the dynamic shared memory they may use
  bool warpgroups = false;                // has Hopper's tensor core instructions (sm_90a)
  int shared_bytes = kFewestSharedBytes;  // of a CTA, at most
};

/// A matrix [rows, width] as the tensor cores read it: value = hi + lo keeps 16 bits of mantissa, so that two
/// passes are as good as float32 activations; hi alone is plain bfloat16.
struct Split {
  bfloat16* hi = nullptr;
  bfloat16* lo = nullptr;
};

/// A float32 matrix [rows, width] as the sum of `parts` partial results that lie `stride` floats apart.
struct PartialSums {
  float* data = nullptr;
  int parts = 1;
  std::size_t stride = 0;
};

// ---- matmul.cu: y[t] = W x[t]

/// [rows, cols], cols a multiple of 8, in one of the layouts of packed_rows.h.
struct Matrix {
  const std::byte* data;
  int rows, cols;
  WeightFormat format = WeightFormat::bf16;  // or int8, int4
};

enum class Finish {
  store,       // float32
  gated_gelu,  // W is [gate; up]: gelu(gate x) * up x, split
  gelu_times,  // gelu(y) * factor, split
  cap          // cap * tanh(y / cap), float32; plain float32 when cap is 0
};

/// Where partial sums may go: `floats` of room at `data`.
struct Workspace {
  float* data;
  std::size_t floats;
};

struct MatmulOutput {
  Finish finish = Finish::store;
  float* out = nullptr;           // store, cap: [tokens, rows]
  Split split;                    // gated_gelu: [tokens, rows / 2]; gelu_times: [tokens, rows]
  const float* factor = nullptr;  // gelu_times: row t begins at t * factor_stride
  int factor_stride = 0;
  float cap = 0.f;
  Workspace workspace{};  // gelu_times of many tokens: room for partial sums
};

/// Two passes over the activations where x has a low half, one where it has none (more than 64 tokens only).
void matmul(Queue& queue, const Matrix& w, Split x, int tokens, const MatmulOutput& output);
/// y as partial sums, so that few tokens still occupy the whole GPU.
PartialSums matmul_partial(Queue& queue, const Matrix& w, Split x, int tokens, Workspace workspace);

// ---- rows.cu: embedding, norms, per-layer inputs

struct EmbedArgs {
  const int32_t* tokens;
  const int32_t* rows;  // which of the tokens; null: all in order
  Matrix table;
  float scale;
  const float* norm;
  float eps;
  int d_model;
  float* x;           // null: not wanted, nor its norm
  Split raw, normed;  // raw: x itself, for the per-layer projection
};
void embed(Queue& queue, const EmbedArgs& args, int rows);

/// x = (x + norm(branch, gain)) * scalar;  xn = norm(x, next), or x itself when next is null.
struct AddNormArgs {
  PartialSums branch;
  const float* gain;
  float scalar;
  const float* next;
  float eps;
  int d_model;
  float* x;
  Split xn;
};
void add_norm(Queue& queue, const AddNormArgs& args, int rows);

/// ple = (norm(ple * project_scale, gain) + table[token] * table_scale) / sqrt(2), one norm per layer's
/// slice, of neighbouring layers.
struct PerLayerInputArgs {
  const int32_t* tokens;
  const int32_t* rows;  // which of the tokens; null: all in order
  Matrix table;         // [table rows, all layers * ple_dim]
  int first_layer, layers, ple_dim;
  float project_scale, table_scale, eps;
  const float* gain;
  float* ple;  // [rows, layers * ple_dim], in place
};
void per_layer_inputs(Queue& queue, const PerLayerInputArgs& args, int rows);

/// Row r of `to` = row rows[r] of `from`; `width` in bytes, a multiple of 16.
void gather_rows(Queue& queue, const void* from, void* to, std::size_t width_bytes, const int32_t* rows,
                 int count);

/// Placeholders of images and sound: they read the padding token's rows of the tables.
struct SoftTokens {
  static constexpr int kMost = 8;
  int32_t ids[kMost];
  int count;
  int32_t padding;
};
/// tokens[i] = drawn[~tokens[i]] where negative; a failed draw counts as token 0. Placeholders become the
/// padding token.
void resolve_tokens(Queue& queue, int32_t* tokens, int count, const int32_t* drawn, const SoftTokens& soft);

// ---- attention.cu and rope_kv.cu

/// The step's page tables, packed: group g's begins at pages + offset[g].
struct PageTables {
  const int32_t* pages;
  const int32_t* offset;  // [2]
  const int32_t* stride;  // [2]
  bool operator==(const PageTables&) const = default;
};

/// One layer's keys and values, float16 pairs: value = high + low has 22 bits. The high half of K of page p,
/// kv head h, slot s begins at keys + p * page_stride + (h * page_tokens + s) * head_dim; V follows
/// `value_offset` later, and the low halves `low_offset` after the high ones: 0 where there are none. Many
/// rows read the high halves only.
/// Of KvType::int8 a token and head has a record of its own: the bytes of K, those of V (`value_offset` is
/// head_dim / 2), a float32 scale of each and 8 bytes to the next multiple of 16.
struct KvLayer {
  float16* keys;
  std::size_t page_stride, value_offset, low_offset;
  int page_tokens, kv_heads, head_dim, group;
  bool int8 = false;
};
/// From one token of a head to the next, in float16s.
constexpr int kv_stride(int head_dim, bool int8) { return int8 ? head_dim + 8 : head_dim; }

/// Where each row of a step belongs.
struct RowPlaces {
  const int32_t* tokens;
  const int32_t* positions;
  const int32_t* sequences;
  bool operator==(const RowPlaces&) const = default;
};

struct RopeKvArgs {
  PartialSums sums;  // raw q, k, v: [rows, width], width = (heads + 0, 1 or 2 kv_heads) * head_dim
  int heads, width;
  bool writes_kv, has_v;
  const float* q_norm;
  const float* k_norm;
  const float* frequencies;  // [rotary_pairs]
  int rotary_pairs;
  int lead;  // queries stand so many positions behind the last key they see: a drafter's 1, others 0
  float eps;
  float16* q;  // [rows, heads, head_dim]
  KvLayer kv;
  RowPlaces places;
  PageTables tables;
};
void rope_kv(Queue& queue, const RopeKvArgs& args, int rows);

/// Neighbouring rows of one segment that share a pass over the keys.
struct AttentionTile {
  int32_t first_row, count, position, sequence;
};

struct AttentionArgs {
  const float16* q;   // [rows, heads, head_dim]
  Split context;      // [rows, heads * head_dim]
  float* context32;   // instead, for a single row
  int heads, window;  // 0: all positions
  KvLayer kv;
  PageTables tables;
  const AttentionTile* tiles;
  int tile_count, tile_rows;  // tile_rows: 16 or 64 query rows (tokens times heads per kv head)
  int most_splits;            // of the keys, over CTAs
  int most_keys;              // of a row
  int rows;
  Workspace partial;  // [rows, heads, splits, head_dim + 2]
};
/// Keys of one block of attention() where there is room, and the shared memory that a tile of `rows` query
/// rows takes with blocks of `keys`: what is allocated at launch, and all of it.
constexpr int attention_keys(int head_dim, int rows) { return rows == 16 && head_dim <= 256 ? 128 : 64; }
constexpr int attention_dynamic_bytes(int head_dim, int rows, int keys, bool int8) {
  const int scale_bytes = int8 ? 2 * 16 : 0;
  return ((rows + 2 * keys) * head_dim + rows * keys) * 2 + keys * scale_bytes;
}
constexpr int attention_shared_bytes(int head_dim, int rows, int keys, bool int8) {
  constexpr int kPlaceBytes = 2 * 8, kScratchBytes = 512;
  return attention_dynamic_bytes(head_dim, rows, keys, int8) + keys * kPlaceBytes + kScratchBytes;
}
/// Otherwise blocks are halved, down to kFewestAttentionKeys. Tiles of 16 rows always fit, those of 64 unless
/// K and V are int8 and head_dim is 512.
inline constexpr int kFewestAttentionKeys = 16;
constexpr bool attention_fits(int head_dim, int rows, bool int8, int shared_bytes) {
  return attention_shared_bytes(head_dim, rows, kFewestAttentionKeys, int8) <= shared_bytes;
}
inline constexpr int kMostAttentionSplits = 128;
/// Splits of the keys that attention() uses for so many tiles, at most `most`. With one split it writes the
/// context itself; more take a second kernel.
int attention_splits(int tile_count, int kv_heads, int sm_count, int most);
inline constexpr int kRawTileRows = 16;
/// Whether attention() with `raw` fits, for so many query heads per KV head.
bool raw_attention_fits(Queue& queue, const KvLayer& kv, int heads_per_kv);
/// With `raw` instead of args.q it does rope_kv()'s work too: tiles of kRawTileRows query rows, one token
/// each, no two of one sequence.
void attention(Queue& queue, const AttentionArgs& args, const RopeKvArgs* raw = nullptr);

// ---- moe.cu

struct MoeArgs {
  int d_model, experts, chosen, width;
  float eps;
  const float* x;  // residual [rows, d_model]
  Matrix router;
  const float* router_scale;
  const float* expert_scale;
  const float* pre;
  Matrix gate_up;
  Matrix down;
  float* input;             // scratch [rows, d_model]
  float* scores;            // scratch [rows, experts]
  int32_t* chosen_experts;  // scratch [rows, chosen]
  float* chosen_weights;    // scratch [rows, chosen]
  float* hidden;            // scratch [rows, chosen, width]
  float* out;               // [rows, d_model]
};
void experts(Queue& queue, const MoeArgs& args, int rows);
/// branch = norm(branch, post_dense) + norm(experts, post_experts)
void add_experts(Queue& queue, PartialSums branch, const float* post_dense, const float* experts,
                 const float* post_experts, float eps, int d_model, float* out, int rows);

// ---- sample.cu

/// drawn[r] = the id of the largest logit of row r, the lower one of equals; -1 when one is NaN or none is
/// finite. Suppressed ids are overwritten with -infinity first.
struct GreedyArgs {
  float* logits;  // [rows, vocab]
  int vocab;
  const int32_t* suppressed;
  int suppressed_count;
  float* candidate_values;  // scratch [rows, kGreedyChunks]
  int32_t* candidate_ids;
  int32_t* drawn;  // [rows]
};
inline constexpr int kGreedyChunks = 64;
void greedy(Queue& queue, const GreedyArgs& args, int rows);

}  // namespace carat::cuda
