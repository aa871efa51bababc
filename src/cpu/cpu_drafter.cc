#include "cpu/cpu_drafter.h"

#include <algorithm>
#include <cstring>

namespace carat {
namespace {

/// A view of rows as they are stored: none of these is large enough to be worth packing.
MatmulWeights as_stored(const Linear& w) { return {WeightLayout::rows, w}; }

}  // namespace

CpuDrafter::CpuDrafter(const ModelPlan& target, const CpuBlocks& target_blocks, const RunnerOptions& limits,
                       CpuKv& kv, const Kernels& kernels, ThreadPool& pool)
    : target_(target),
      target_blocks_(target_blocks),
      kernels_(kernels),
      pool_(pool),
      weights_(target.drafter->model, {}, kernels, pool),
      pre_(as_stored(target.drafter->pre)),
      post_(as_stored(target.drafter->post)),
      centroids_(as_stored(target.drafter->ordered.centroids)),
      blocks_(target.drafter->model, weights_, one_row_each(limits), kv, kernels, pool),
      joined_(limits.max_sequences, 2 * int64_t{target.d_model}),
      hidden_(limits.max_sequences, target.d_model),
      centroid_logits_(limits.max_sequences, centroids_.linear.rows) {}

void CpuDrafter::begin(const DraftRows& rows) {
  tokens_.assign(rows.tokens.begin(), rows.tokens.end());
  at_ = draft_segments(rows, /*seen=*/false);
  seen_ = draft_segments(rows, /*seen=*/true);
  page_tables_ = rows.page_tables;
  blocks_.begin_draft(at_, seen_);
  for (int row = 0; row < count(); ++row) {
    const float* state = target_blocks_.final_state(rows.logit_rows[static_cast<std::size_t>(row)]);
    std::copy_n(state, target_.d_model, hidden_.row(row));
  }
}

void CpuDrafter::join(const DrafterPlan&, std::span<const int32_t> tokens) {
  for (int row = 0; row < count(); ++row) {
    const int32_t token = tokens[static_cast<std::size_t>(row)];
    float* joined = joined_.row(row);
    kernels_.decode_row(target_.embed, target_.embedding_row(token, target_.embed), target_.embed_scale,
                        joined);
    std::copy_n(hidden_.row(row), target_.d_model, joined + target_.d_model);
  }
  blocks_.start(pre_, joined_, count());
}

void CpuDrafter::layer(const LayerPlan& l) {
  const StepRows step{{tokens_, at_}, {tokens_, seen_}, {}, page_tables_};
  blocks_.qkv(l, step.all, step);
  blocks_.attend(l, step.tail, step);
  blocks_.attention_out(l, step.all);
  blocks_.ffn(l, step.all);
}

std::vector<int32_t> CpuDrafter::likeliest(const DrafterPlan& d) {
  std::vector<int32_t> tokens;
  if (d.ordered.centroids) {
    blocks_.project_final(centroids_, count(), centroid_logits_);
    for (int row = 0; row < count(); ++row) tokens.push_back(search(d.ordered, row));
    return tokens;
  }
  blocks_.logits(d.model, {tokens_, at_});
  const std::size_t vocab = static_cast<std::size_t>(d.model.vocab);
  for (std::size_t row = 0; row < tokens_.size(); ++row) {
    const float* logits = blocks_.logits().subspan(row * vocab, vocab).data();
    tokens.push_back(static_cast<int32_t>(kernels_.argmax(logits, d.model.vocab)));
  }
  return tokens;
}

/// The candidates' rows lie scattered over the head; each thread gathers some and multiplies them.
int32_t CpuDrafter::search(const OrderedHead& head, int row) {
  const std::span<const float> centroid_logits{centroid_logits_.row(row),
                                               static_cast<std::size_t>(head.centroids.rows)};
  const std::vector<int32_t> found = candidates(head, centroid_logits);
  const auto candidate_count = static_cast<int64_t>(found.size());
  const std::size_t bytes = row_bytes(head.embed.format, head.embed.cols);
  gathered_.resize(found.size() * bytes);
  logits_.resize(found.size());
  const MatmulWeights rows =
      as_stored({head.embed.format, candidate_count, head.embed.cols, gathered_.data()});
  const Activations x{blocks_.final_state(row), head.embed.cols};
  pool_.run([&](int thread) {
    const IndexRange panels = share_of(rows.panels(), thread, pool_.size());
    if (panels.count() == 0) return;
    const int64_t last = std::min(panels.last * kPanelRows, candidate_count);
    for (int64_t i = panels.first * kPanelRows; i < last; ++i) {
      const auto at = static_cast<std::size_t>(i);
      std::memcpy(gathered_.data() + at * bytes,
                  head.embed.data + static_cast<std::size_t>(found[at]) * bytes, bytes);
    }
    kernels_.matmul(rows, panels.first, panels.count(), x, 1, logits_.data(), candidate_count);
  });
  return likeliest_of(found, logits_);
}

}  // namespace carat
