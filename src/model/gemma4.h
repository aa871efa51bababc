// Gemma 4: what the model is (the plan) and what one step computes (forward). Everything that differs between
// E2B, E4B, 12B, 31B and 26B-A4B is data in the plan; a backend supplies the blocks. docs/gemma4.md has the
// maths.
#pragma once
#include <array>
#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "model/weights.h"

namespace carat {

/// Rotary embedding over pairs (j, j + head_dim / 2); pairs from `rotary_pairs` on do not rotate.
/// Frequency j is theta^(-2 j / head_dim): the exponent runs over the whole head also when only a part
/// rotates.
struct Rope {
  float theta;
  int rotary_pairs;
};

enum KvGroupIndex { kFullGroup = 0, kSlidingGroup = 1, kKvGroups = 2 };

struct AttentionPlan {
  int heads, kv_heads, head_dim;  // query head h reads kv head h / (heads / kv_heads)
  int window;                     // tokens visible backwards, the token itself included; 0 = all
  Rope rope;
  int kv_group;        // KvGroupIndex
  int kv_layer;        // row inside the group; KV-sharing layers repeat their donor's
  bool writes_kv;      // false: k, v and k_norm are empty and the donor's pages are read
  Linear q, k, v, o;   // v empty while writes_kv: V is the raw output of k ("K = V")
  Vec q_norm, k_norm;  // [head_dim]
};

/// Experts beside the dense MLP (26B-A4B).
struct MoePlan {
  int experts, experts_per_token, intermediate_size;
  Linear router;     // [experts, d_model]
  Vec router_scale;  // [d_model]
  Vec expert_scale;  // [experts], applied after the chosen weights are renormalised
  Linear gate_up;    // [experts * 2 * intermediate_size, d_model]: per expert gate rows, then up rows
  Linear down;       // [experts * d_model, intermediate_size]
  Vec post_dense, pre_experts, post_experts;  // [d_model]
};

/// Per-layer embeddings (E2B, E4B): a gate on the residual stream, times this layer's slice of the token's
/// inputs.
struct PerLayerPlan {
  Linear gate;  // [ple_dim, d_model]
  Linear proj;  // [d_model, ple_dim]
  Vec post;     // [d_model]
};

/// The last thing a layer does: x *= scalar; xn = rms_norm(x, next_norm). next_norm is the next layer's input
/// norm or the final norm.
struct Tail {
  float scalar = 1.f;
  Vec next_norm;
};

struct LayerPlan {
  int index;
  AttentionPlan attention;
  Vec post_attention, pre_ffn, post_ffn;  // [d_model]
  int intermediate_size;
  Linear gate, up, down;
  std::optional<MoePlan> moe;
  std::optional<PerLayerPlan> per_layer;
  Tail tail;
};

/// One kind of attention's KV storage: pages hold [layers, kv_heads, head_dim] of K and of V per token.
struct KvGroup {
  int layers = 0, kv_heads = 0, head_dim = 0;
  int window = 0;  // 0: grows with the context
};

struct DrafterPlan;

struct ModelPlan {
  /// The row of `embed` and `ple_table` that a token reads: its own, but the padding token's for the
  /// placeholders of images and sound, and row 0 beyond the table.
  int32_t embedding_row(int32_t token, const Linear& table) const;

  int d_model, vocab, max_positions;
  float norm_eps;
  float embed_scale;            // sqrt(d_model), float32
  float logit_cap;              // 0: none
  Linear embed, head;           // [vocab, d_model]; the same bytes when tied
  int ple_dim = 0;              // 0: no per-layer embeddings
  float ple_embed_scale = 0.f;  // sqrt(ple_dim)
  Linear ple_table;             // [vocab, layers * ple_dim]
  Linear ple_project;           // [layers * ple_dim, d_model]
  Vec ple_norm;                 // [ple_dim]
  Vec first_norm;               // layer 0's input norm; the final norm is the last layer's tail
  std::vector<LayerPlan> layers;
  std::array<KvGroup, kKvGroups> kv_groups;
  int last_kv_layer;                 // later layers write no K/V
  std::vector<int32_t> soft_tokens;  // placeholders, see embedding_row()
  int32_t pad_token = 0;
  std::shared_ptr<const DrafterPlan> drafter;  // guesses tokens for this model; may be null
  std::shared_ptr<const void> storage;         // owns the Vecs and keeps the checkpoint's maps alive
};

/// Tokens [first, first + count) of a step continue one sequence of which `past` tokens are cached.
struct Segment {
  int32_t first, count, past;
  int32_t sequence;  // row of the page tables
};

/// A ragged batch of rows, segments laid end to end without padding. Several segments may belong to one
/// sequence.
struct Rows {
  std::span<const int32_t> tokens;  // [T]
  std::span<const Segment> segments;
  int count() const { return static_cast<int>(tokens.size()); }
};

/// pages[sequence * stride + position / page_tokens] is the page that holds `position`, -1 when released.
struct PageTable {
  std::span<const int32_t> pages;
  int stride = 0;
};

/// What forward() needs of one step. `tail` is `all` narrowed to the rows that need logits; see
/// narrow_rows().
struct StepRows {
  Rows all, tail;
  std::span<const int32_t> tail_rows;  // tail row r is row tail_rows[r] of `all`, ascending
  std::array<PageTable, kKvGroups> page_tables;
};

/// The block vocabulary of a backend. Seams are where a fused kernel would end; activations (x, xn, q,
/// context, the per-layer inputs and the logits) belong to the backend. Blocks don't throw, allocate or
/// synchronise.
template <class Op>
concept Blocks =
    requires(Op op, const ModelPlan& m, const LayerPlan& l, const StepRows& step, const Rows& rows) {
      op.embed(m, rows);             // x = embed[token] * scale;  xn = norm(x, first_norm)
      op.per_layer_inputs(m, rows);  // ple = (norm(P x / sqrt(d_model)) + table[token] * ple_scale) / sqrt(2)
      op.qkv(l, rows, step);         // q = rope(norm(Q xn)); K, V of layers that write them -> pages
      op.narrow(m, step);            // keep only step.tail_rows of x, q and ple
      op.attend(l, rows, step);      // context = softmax(q K^T) V over the sequence's pages; scale 1
      op.attention_out(l, rows);     // x += norm(O context, post_attention);  xn = norm(x, pre_ffn)
      op.ffn(l, rows);               // x += norm(down(gelu(gate xn) * up xn), post_ffn); tail if no per_layer
      op.moe_ffn(l, rows);           // the same with experts beside the dense MLP
      op.per_layer_mix(l, rows);     // x += norm(proj(gelu(gate x) * ple[l]), post);  tail
      op.logits(m, rows);            // logits = cap(head xn)
    };

/// One step. Rows whose logits nobody needs stop right after the last layer that writes K/V has written it:
/// exact, and for E2B 3.5 times less work per prompt token, since 20 of its 35 layers only read K/V.
template <Blocks Op>
void forward(Op& op, const ModelPlan& m, const StepRows& step) {
  const Rows* rows = &step.all;
  op.embed(m, *rows);
  if (m.ple_dim > 0) op.per_layer_inputs(m, *rows);
  for (const LayerPlan& l : m.layers) {
    op.qkv(l, *rows, step);
    if (l.index == m.last_kv_layer) {
      if (step.tail_rows.empty()) return;
      op.narrow(m, step);
      rows = &step.tail;
      // A backend may have kernels of its own for the rest of a step with few rows.
      if constexpr (requires { op.finish(m, step); }) {
        if (op.finish(m, step)) return;
      }
    }
    op.attend(l, *rows, step);
    op.attention_out(l, *rows);
    if (l.moe)
      op.moe_ffn(l, *rows);
    else
      op.ffn(l, *rows);
    if (l.per_layer) op.per_layer_mix(l, *rows);
  }
  op.logits(m, *rows);
}

}  // namespace carat
