#include "ref/ref_drafter.h"

#include <algorithm>
#include <utility>

#include "ref/ref_math.h"

namespace carat {

void RefDrafter::begin(const DraftRows& rows) {
  const std::size_t d = target_.d_model;
  tokens_.assign(rows.tokens.begin(), rows.tokens.end());
  at_ = draft_segments(rows, /*seen=*/false);
  seen_ = draft_segments(rows, /*seen=*/true);
  page_tables_ = rows.page_tables;
  hidden_.clear();
  for (const int32_t row : rows.logit_rows) {
    const auto state = target_blocks_.final_states().subspan(row * d, d);
    hidden_.insert(hidden_.end(), state.begin(), state.end());
  }
}

// x = pre [embed[token] * scale, hidden]
void RefDrafter::join(const DrafterPlan& d, std::span<const int32_t> tokens) {
  const std::size_t width = target_.d_model;
  std::vector<float> joined(2 * hidden_.size()), x;
  for (std::size_t r = 0; r < tokens.size(); ++r) {
    float* embedding = joined.data() + 2 * r * width;
    decode_row(target_.embed, target_.embedding_row(tokens[r], target_.embed), embedding);
    for (std::size_t i = 0; i < width; ++i) embedding[i] *= target_.embed_scale;
    std::copy_n(hidden_.data() + r * width, width, embedding + width);
  }
  matmul(d.pre, joined.data(), static_cast<int>(tokens.size()), x);
  blocks_.start(d.model.first_norm, std::move(x));
}

void RefDrafter::layer(const LayerPlan& l) {
  const Rows seen{tokens_, seen_};
  const StepRows step{rows_at(), seen, {}, page_tables_};
  blocks_.qkv(l, step.all, step);
  blocks_.attend(l, seen, step);
  blocks_.attention_out(l, step.all);
  blocks_.ffn(l, step.all);
}

std::vector<int32_t> RefDrafter::likeliest(const DrafterPlan& d) {
  std::vector<int32_t> tokens;
  const int count = static_cast<int>(tokens_.size());
  if (d.ordered.centroids) {
    std::vector<float> centroid_logits, row(d.model.d_model);
    const std::size_t clusters = d.ordered.centroids.rows;
    matmul(d.ordered.centroids, blocks_.final_states().data(), count, centroid_logits);
    for (int r = 0; r < count; ++r) {
      const auto found = candidates(d.ordered, std::span(centroid_logits).subspan(r * clusters, clusters));
      std::vector<float> logits;
      for (const int32_t token : found) {
        decode_row(d.ordered.embed, token, row.data());
        logits.push_back(
            dot(row.data(), blocks_.final_states().data() + r * d.model.d_model, d.model.d_model));
      }
      tokens.push_back(likeliest_of(found, logits));
    }
    return tokens;
  }
  blocks_.logits(d.model, rows_at());
  const std::size_t vocab = d.model.vocab;
  for (int r = 0; r < count; ++r) {
    const auto logits = blocks_.logits().subspan(r * vocab, vocab);
    tokens.push_back(static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin()));
  }
  return tokens;
}

void RefDrafter::next_hidden(const DrafterPlan& d) {
  matmul(d.post, blocks_.final_states().data(), static_cast<int>(tokens_.size()), hidden_);
}

}  // namespace carat
