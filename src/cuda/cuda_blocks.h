// The blocks of model/gemma4.h as kernel launches, for steps of any shape. They allocate nothing and wait for
// nothing.
#pragma once
#include <array>

#include "cuda/device.h"
#include "cuda/kernels.h"
#include "cuda/phase_events.h"
#include "cuda/step_upload.h"
#include "engine/runner.h"
#include "model/gemma4.h"

namespace carat::cuda {

/// `rows` rows from the first of `w` on: more than w has where the next matrix lies right behind it.
inline Matrix matrix(const Linear& w, int64_t rows) {
  return {w.data, static_cast<int>(rows), static_cast<int>(w.cols), w.format};
}
inline Matrix matrix(const Linear& w) { return matrix(w, w.rows); }

/// K/V storage: per group [pages, layers, 4, kv_heads, page_tokens, head_dim] float16; the 4 are the high
/// halves of K and of V, then their low halves. Of KvType::f16 there are only the 2 high ones; of int8 a
/// record per token and head, see KvLayer.
class KvStorage {
 public:
  KvStorage(const ModelPlan& plan, const RunnerOptions& limits);

  static std::size_t bytes(const ModelPlan& plan, const RunnerOptions& limits);
  KvLayer layer(const AttentionPlan& a) const;
  void copy_page(Queue& queue, const PageCopy& copy) const;

 private:
  std::array<KvGroup, kKvGroups> groups_;
  RunnerOptions limits_;
  std::array<DeviceArray<float16>, kKvGroups> storage_;
};

class SingleRow;

class CudaBlocks {
 public:
  /// `plan` points to device memory; plan, kv and queue outlive the blocks.
  CudaBlocks(const ModelPlan& plan, const KvStorage& kv, const RunnerOptions& limits, Queue& queue,
             bool fast_prompts);

  static std::size_t bytes(const ModelPlan& plan, const RunnerOptions& limits, int sm_count);

  /// Names the step that the following blocks belong to. `logits` has room for [tail rows, vocab]. Queries
  /// stand `lead` positions behind their rows.
  void begin(const DeviceStep& step, float* logits, int lead = 0);

  /// In place of embed(): x = w input;  xn = norm(x, first_norm). What a drafter begins with.
  void start(const Linear& w, Split input);
  /// Of the step begun last: what logits() multiplies with the head, [tail rows, d_model].
  Split final_states() const { return split(xn_); }
  /// The residual stream that a step leaves behind, of which the final states are the norms: float32,
  /// [tail rows, d_model]. Stays until the next step begins.
  const float* final_residuals(const DeviceStep& step) const;

  void embed(const ModelPlan& m, const Rows& rows);
  void per_layer_inputs(const ModelPlan& m, const Rows& rows);
  void qkv(const LayerPlan& l, const Rows& rows, const StepRows& step);
  void narrow(const ModelPlan& m, const StepRows& step);
  /// Leaves the rest of a step that goes on with one row to finish_with(). False without it, or with more
  /// rows.
  bool finish(const ModelPlan& m, const StepRows& step);
  void attend(const LayerPlan& l, const Rows& rows, const StepRows& step);
  void attention_out(const LayerPlan& l, const Rows& rows);
  void ffn(const LayerPlan& l, const Rows& rows);
  void moe_ffn(const LayerPlan& l, const Rows& rows);
  void per_layer_mix(const LayerPlan& l, const Rows& rows);
  void logits(const ModelPlan& m, const Rows& rows);

  const SoftTokens& soft_tokens() const { return soft_tokens_; }
  void finish_with(SingleRow& single_row) { single_row_ = &single_row; }
  /// Who is told when each phase begins; null: nobody.
  void mark_phases(PhaseEvents* events) { phases_ = events; }
  bool marks_phases() const { return phases_ != nullptr; }
  void mark(Phase phase) const {
    if (phases_) phases_->begin(phase);
  }
  const float* frequencies(int kv_group) const {
    return frequencies_[static_cast<std::size_t>(kv_group)].data();
  }

 private:
  /// A row-major activation matrix for the tensor cores.
  struct SplitArray {
    DeviceArray<bfloat16> hi, lo;
    explicit SplitArray(std::size_t size) : hi(size), lo(size) {}
  };

  int rows() const { return rows_->count; }
  /// Without the low half where the matmuls make one pass only.
  Split split(const SplitArray& array) const;
  void add_branch(PartialSums branch, Vec gain, float scalar, const float* next);
  /// Whether fewer rows than the step has go on behind the last layer that writes K/V.
  bool narrows() const { return step_.tail.count < step_.all.count; }
  /// Whether attend() takes raw q, k and v. narrow() would have to move them, and more tiles than
  /// multiprocessors hide rope_kv() better than they do its work.
  bool attends_raw(const AttentionPlan& a) const {
    return step_.all.one_each && !narrows() && rows() * a.kv_heads <= queue_.sm_count &&
           step_.all.tiles[static_cast<std::size_t>(a.kv_group)].tile_rows == kRawTileRows &&
           raw_attention_fits(queue_, kv_.layer(a), a.heads / a.kv_heads);
  }
  void project_per_layer_inputs(int first_layer, int layers, const int32_t* token_rows);
  PartialSums dense_mlp(const LayerPlan& l);
  void finish_ffn(const LayerPlan& l, PartialSums branch);

  const ModelPlan& plan_;
  const KvStorage& kv_;
  Queue& queue_;
  const bool fast_prompts_;
  SoftTokens soft_tokens_{};
  std::array<DeviceArray<float>, kKvGroups> frequencies_;  // [rotary_pairs]
  // Activations of the current rows; narrow() moves the rows that stay into the second of each pair.
  std::array<DeviceArray<float>, 2> x_;
  std::array<DeviceArray<float16>, 2> q_;
  DeviceArray<float> ple_;  // per-layer inputs of the current rows, of ple_layers_ layers from ple_first_ on
  int ple_first_ = 0, ple_layers_ = 0;
  SplitArray xn_, context_, hidden_;
  DeviceArray<float> sums_, attention_parts_;
  DeviceArray<float> moe_input_, moe_scores_, moe_weights_, moe_hidden_, moe_out_, moe_sum_;
  DeviceArray<int32_t> moe_chosen_;
  DeviceStep step_;
  RopeKvArgs raw_{};  // of the layer whose q, k and v sums_ has
  const DeviceRows* rows_ = nullptr;
  std::size_t now_ = 0;  // which of each pair is current
  float* logits_ = nullptr;
  SingleRow* single_row_ = nullptr;
  PhaseEvents* phases_ = nullptr;
};

}  // namespace carat::cuda
