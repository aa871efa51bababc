// The arithmetic of the CPU backend, compiled once per instruction set and chosen once at start. cpu_blocks
// divides the work among threads and calls these; each call runs on one thread, allocates nothing and throws
// nothing.
//
// Results never depend on how the work was divided: an output is the same bits whatever rows, tokens or
// sequences are computed beside it, in a prompt or in a decode step, from panels or from rows as stored.
#pragma once
#include <cstddef>
#include <cstdint>

#include "cpu/isa.h"
#include "model/weights.h"

namespace carat {

/// Rows of a matrix that are stored and computed together: the unit in which threads divide a matrix.
inline constexpr int kPanelRows = 32;

/// `panels`: blocks of 32 rows in the order in which matmul reads them. `rows`: row-major as in the
/// checkpoint, read in place (f32, f16 and bf16 only); slower, but nothing needs to be copied.
enum class WeightLayout { panels, rows };

/// A matrix that matmul can read. Made by pack_panels, or a view of the checkpoint. Rows past the last one of
/// the last panel are zero; f16 weights are held as f32.
struct MatmulWeights {
  WeightLayout layout = WeightLayout::panels;
  Linear linear;  // format, shape and bytes in that layout

  bool quantized() const {
    return linear.format == WeightFormat::int8 || linear.format == WeightFormat::int4;
  }
  int64_t panels() const { return (linear.rows + kPanelRows - 1) / kPanelRows; }
};

/// The format in which panels hold weights stored as `stored`.
WeightFormat packed_format(WeightFormat stored);
/// Bytes of one panel of `cols` columns: a multiple of 64. Panels follow each other without gaps.
std::size_t panel_bytes(WeightFormat packed, int64_t cols);

/// What a block of a quantised activation row has beside its integers: x ~ scale * q, and what the sum of a
/// block's products with packed weights, which carry an offset, begins with to come out right.
struct ActivationBlock {
  float scale;
  int32_t start;
};

/// The right-hand side of matmul: `values` for f32 and bf16 weights, `quantized` and `blocks` for int8 and
/// int4, whose blocks of columns they share. Strides that are a multiple of 4096 bytes, also that of the
/// output, make the rows compete for the same cache lines; add 64 bytes to those. Large batches gain from 2
/// MiB pages for all of it.
struct Activations {
  const float* values = nullptr;  // [tokens, stride]
  int64_t stride = 0;
  const int8_t* quantized = nullptr;        // [tokens, quantized_stride], see Kernels::quantize
  int64_t quantized_stride = 0;             // >= quantized_cols(cols)
  const ActivationBlock* blocks = nullptr;  // [tokens, blocks_stride]
  int64_t blocks_stride = 0;                // >= the blocks of a row of weights
};

/// Columns of a quantised activation row, zero padding included.
constexpr int64_t quantized_cols(int64_t cols) { return (cols + 63) / 64 * 64; }

/// f16 keeps 11 bits of values that the norms bound to about sqrt(head_dim): half the bytes of f32, at 1/4096
/// error. int8 is x ~ scale * q with a float32 scale per position, for K and for V: the largest magnitude is
/// 127.
enum class KvFormat { f32, f16, int8 };

/// Positions whose keys lie side by side: page_tokens must be a multiple.
inline constexpr int kKeyBlock = 32;
/// Positions that one attention partial covers. Chunks begin at multiples of it.
inline constexpr int kAttentionChunk = 256;
/// Largest head size.
inline constexpr int kMaxHeadDim = 512;

/// Floats between the V of neighbouring positions.
constexpr int padded_head_dim(int head_dim) { return (head_dim + 31) / 32 * 32; }

/// K and V of one layer, one KV head and one sequence. Position p lies in page pages[p / page_tokens], that
/// is at page * page_stride bytes from `keys` and `values`. In a page K is [page_tokens / 32, head_dim, 32]
/// (transposed in blocks, so that scores need no horizontal sums) and V is [page_tokens, padded_head_dim].
/// Scales of int8 lie at kv_scales_offset of each, [page_tokens].
struct KvView {
  KvFormat format;
  int head_dim;     // a multiple of 2, at most kMaxHeadDim
  int page_tokens;  // a multiple of kKeyBlock
  std::byte* keys;
  std::byte* values;
  int64_t page_stride;  // bytes
  const int32_t* pages;
};

constexpr int kv_element_bytes(KvFormat format) {
  return format == KvFormat::f32 ? 4 : format == KvFormat::f16 ? 2 : 1;
}
constexpr int64_t kv_scales_offset(KvFormat format, int page_tokens, int head_dim) {
  return int64_t{page_tokens} * padded_head_dim(head_dim) * kv_element_bytes(format);
}
/// Bytes of K, and as many of V, in one page of one layer and KV head.
constexpr int64_t kv_page_bytes(KvFormat format, int page_tokens, int head_dim) {
  const int64_t scales = format == KvFormat::int8 ? int64_t{page_tokens} * 4 : 0;
  return kv_scales_offset(format, page_tokens, head_dim) + scales;
}

/// The queries that read one KV head: `heads` query heads of each of `tokens` neighbouring tokens of one
/// sequence. Token i stands at position first_position + i and sees that position and the window - 1 before
/// it (window 0: all). Head h of token i is at q + i * token_stride + h * head_dim.
struct AttentionQueries {
  const float* q;
  int64_t token_stride;  // floats
  int tokens, heads;
  int32_t first_position;
  int window;
  const std::byte* after = nullptr;  // the page that is read next, asked for in good time; may be null
  int count() const { return tokens * heads; }
};

/// Softmax over part of the positions, not yet divided by the sum: context = sum_j exp(s_j - max) v_j.
struct AttentionPartial {
  float* context;  // [tokens * heads, head_dim]
  float* max;      // [tokens * heads]; -inf where nothing was visible
  float* sum;      // [tokens * heads]
};

/// Most queries (tokens * heads) of one attention call. 64 keeps the working set in a 2 MiB L2 cache.
inline constexpr int kMaxQueries = 64;
/// Floats of scratch space that attend and attend_chunk need.
constexpr int64_t attention_scratch_floats() {
  return int64_t{kMaxQueries} * (2 * kMaxHeadDim + kAttentionChunk + 4) +
         int64_t{kAttentionChunk} * kMaxHeadDim;
}

struct Kernels {
  Isa isa;

  /// y[t * y_stride + r] = sum_c w[r, c] x[t, c] for the rows of panels [first, first + count) and all
  /// tokens. f32 and bf16: float32 products and sums. int8 and int4: exact integer sums within a group of
  /// columns, groups summed in float32.
  void (*matmul)(const MatmulWeights& w, int64_t first_panel, int64_t panel_count, const Activations& x,
                 int tokens, float* y, int64_t y_stride);
  /// Panels [first, first + count) of row-major `w`, written to out (64-byte aligned) one after another.
  void (*pack_panels)(const Linear& w, int64_t first_panel, int64_t panel_count, std::byte* out);
  /// One activation row as 8-bit integers for weights of `format` (int8 or int4), in that format's blocks of
  /// columns. Writes quantized_cols(n) integers and one ActivationBlock per block of weights.
  void (*quantize)(WeightFormat format, const float* x, int64_t n, int8_t* q, ActivationBlock* blocks);

  /// out = x / sqrt(mean(x^2) + eps) * gain. gain may be null (ones); out may be x.
  void (*rms_norm)(const float* x, const float* gain, float eps, int64_t n, float* out);
  /// x = (x + norm(y, post_gain)) * scalar, and when out is not null, out = norm(x, next_gain). y may be out.
  void (*residual_norm)(float* x, const float* y, const float* post_gain, float scalar,
                        const float* next_gain, float eps, int64_t n, float* out);
  /// out = a x + b y. out may be x or y.
  void (*weighted_sum)(float a, const float* x, float b, const float* y, int64_t n, float* out);
  /// Rotates the pairs (j, j + head_dim / 2) for j < rotary_pairs by the angles whose cosines and sines are
  /// given.
  void (*rope)(float* x, const float* cosines, const float* sines, int head_dim, int rotary_pairs);
  /// out = gelu_tanh(gate) * up. out may be gate or up.
  void (*gelu_mul)(const float* gate, const float* up, int64_t n, float* out);
  /// x = cap * tanh(x / cap).
  void (*softcap)(float* x, float cap, int64_t n);
  /// The index of the largest value, the lowest one of equals; n >= 1. NaNs lose to everything.
  int64_t (*argmax)(const float* x, int64_t n);
  /// out = scale * (row `row` of row-major w), any format.
  void (*decode_row)(const Linear& w, int64_t row, float scale, float* out);

  /// Writes one position's K and V [head_dim] into its page.
  void (*store_kv)(const KvView& kv, int32_t position, const float* k, const float* v);
  /// Attention of at most kMaxQueries queries over all visible positions: context of token i, head h goes to
  /// out + i * out_stride + h * head_dim. The same bits as attend_chunk over every chunk, then
  /// merge_attention.
  void (*attend)(const KvView& kv, const AttentionQueries& queries, float* out, int64_t out_stride,
                 float* scratch);
  /// The part of it that chunk `chunk` contributes (positions from chunk * kAttentionChunk on): lets threads
  /// divide a long context. Only positions that some query sees are read.
  void (*attend_chunk)(const KvView& kv, const AttentionQueries& queries, int chunk,
                       const AttentionPartial& partial, float* scratch);
  /// out row i = the normalised merge of partials[0..count) for query i, in that order, for `heads` rows of
  /// one token beginning with query first_query.
  void (*merge_attention)(const AttentionPartial* partials, int count, int first_query, int heads,
                          int head_dim, float* out);
};

/// The table for `isa`, which must be available.
const Kernels& kernels_for(Isa isa);

/// Chunks [first, last) that hold the positions which `queries` see.
struct ChunkRange {
  int first, last;
};
constexpr ChunkRange visible_chunks(const AttentionQueries& queries) {
  const int32_t oldest = queries.window > 0 ? queries.first_position - queries.window + 1 : 0;
  const int32_t newest = queries.first_position + queries.tokens - 1;
  return {(oldest > 0 ? oldest : 0) / kAttentionChunk, newest / kAttentionChunk + 1};
}

}  // namespace carat
