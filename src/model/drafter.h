// A drafter: four small layers that guess what a model says next, from that model's own last hidden state,
// embeddings and K/V (transformers' gemma4_assistant). The plan, and what one round of guesses computes.
// docs/gemma4.md has the maths.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "model/gemma4.h"

namespace carat {

/// A head that first looks for the best centroids, then among their tokens alone. It only saves time: the
/// likeliest token is nearly always among them.
struct OrderedHead {
  Linear centroids;             // [clusters, d_model]
  Linear embed;                 // [vocab, d_model], by token id
  std::vector<int32_t> tokens;  // [vocab]: those of cluster c are [c * size, (c + 1) * size)
  int searched = 0;             // clusters
  int cluster_size() const { return static_cast<int>(embed.rows / centroids.rows); }
};

struct DrafterPlan {
  /// Layers that own no K/V; kv_group and kv_layer are the target's. `head` is empty when there is an ordered
  /// one; there are no input embeddings. A sliding window is one token shorter than the target's: the token
  /// that a guess follows is in the target's window and has no K/V yet.
  ModelPlan model;
  Linear pre;   // [d_model, 2 * target d_model]: the token's embedding, then the hidden state -> x
  Linear post;  // [target d_model, d_model]: normed x -> the hidden state that the next guess goes on from
  OrderedHead ordered;  // `centroids` empty: the dense head
};

/// Sequences to guess for. Row r stands for one whose last token `tokens[r]` has no K/V yet: it was drawn
/// from logit row `logit_rows[r]` of the step before, and `past[r]` tokens before it are in the page tables'
/// row r.
struct DraftRows {
  std::span<const int32_t> tokens, logit_rows, past;
  std::array<PageTable, kKvGroups> page_tables;
  int count() const { return static_cast<int>(tokens.size()); }
};

/// The blocks of a drafter beyond those of its layers, for rows that the backend knows. `hidden` is the
/// target's normed final state, then the drafter's own. `Tokens` names one token per row, wherever the
/// backend keeps them.
template <class Op, class Tokens>
concept DrafterBlocks = requires(Op op, const DrafterPlan& d, const LayerPlan& l, Tokens tokens) {
  op.join(d, tokens);        // x = pre [embed[token] * scale, hidden];  xn = norm(x, first_norm)
  op.layer(l);               // one layer for all rows, at position past, over the target's K/V [0, past)
  tokens = op.likeliest(d);  // the rows' tokens with the largest logit
  op.next_hidden(d);         // hidden = post xn
};

/// `count` rounds of guesses that go on from `tokens`; calls take(i, tokens) with those of round i. The
/// position stays the same for all of them: guesses see each other only through the hidden state.
template <class Op, class Tokens, class Take>
  requires DrafterBlocks<Op, Tokens>
void guess_rounds(Op& op, const DrafterPlan& d, Tokens tokens, int count, Take&& take) {
  for (int i = 0; i < count; ++i) {
    if (i > 0) op.next_hidden(d);
    op.join(d, tokens);
    for (const LayerPlan& l : d.model.layers) op.layer(l);
    tokens = op.likeliest(d);
    take(i, tokens);
  }
}

/// `count` guesses per row, [rows, count], of blocks that keep tokens in a vector. op.begin(rows): hidden =
/// the target's final states of rows.logit_rows; positions.
template <class Op>
std::vector<int32_t> guess(Op& op, const DrafterPlan& d, const DraftRows& rows, int count) {
  std::vector<int32_t> guesses(rows.tokens.size() * static_cast<std::size_t>(count));
  op.begin(rows);
  const std::vector<int32_t> first(rows.tokens.begin(), rows.tokens.end());
  guess_rounds(op, d, first, count, [&](int i, const std::vector<int32_t>& tokens) {
    for (std::size_t r = 0; r < tokens.size(); ++r)
      guesses[r * static_cast<std::size_t>(count) + static_cast<std::size_t>(i)] = tokens[r];
  });
  return guesses;
}

/// The tokens that an ordered head looks at: those of the clusters whose centroids have the largest logits.
std::vector<int32_t> candidates(const OrderedHead& head, std::span<const float> centroid_logits);

/// Of `tokens` that with the largest logit, the lowest one of equals.
int32_t likeliest_of(std::span<const int32_t> tokens, std::span<const float> logits);

/// The rows as segments of one token: `seen` is one position earlier, because the row's own token has no K/V.
std::vector<Segment> draft_segments(const DraftRows& rows, bool seen);

}  // namespace carat
