// The blocks of model/gemma4.h as plain float32 loops: the executable specification that every backend is
// tested against. Read it beside docs/gemma4.md. No intrinsics, no threads, no cleverness.
#pragma once
#include <span>
#include <vector>

#include "model/gemma4.h"
#include "ref/ref_kv.h"

namespace carat {

class RefBlocks {
 public:
  RefBlocks(const ModelPlan& plan, RefKv& kv) : plan_(plan), kv_(kv) {}

  void embed(const ModelPlan& m, const Rows& rows);
  void per_layer_inputs(const ModelPlan& m, const Rows& rows);
  void qkv(const LayerPlan& l, const Rows& rows, const StepRows& step);
  void narrow(const ModelPlan& m, const StepRows& step);
  void attend(const LayerPlan& l, const Rows& rows, const StepRows& step);
  void attention_out(const LayerPlan& l, const Rows& rows);
  void ffn(const LayerPlan& l, const Rows& rows);
  void moe_ffn(const LayerPlan& l, const Rows& rows);
  void per_layer_mix(const LayerPlan& l, const Rows& rows);
  void logits(const ModelPlan& m, const Rows& rows);

  /// In place of embed(): x [rows, d_model] is given.
  void start(Vec first_norm, std::vector<float> x);
  /// What logits() multiplied with the head, [rows, d_model].
  std::span<const float> final_states() const { return xn_; }

  /// [rows, vocab] of the step just run.
  std::span<float> logits() { return logits_; }

 private:
  using Matrix = std::vector<float>;  // [rows, width], token-major; grows with the step

  void add_normed(const Matrix& branch, Vec gain, int count);
  void finish_layer(const LayerPlan& l, int count);
  void dense_mlp(const LayerPlan& l, int count);
  std::vector<float> expert_weights(const MoePlan& moe, const float* x) const;
  void add_experts(const MoePlan& moe, const float* input, std::span<const float> weights, float* out) const;

  const ModelPlan& plan_;
  RefKv& kv_;
  Matrix x_, xn_;       // [rows, d_model]: residual stream, and its norm for the next block
  Matrix q_, context_;  // [rows, heads, head_dim]
  Matrix ple_;          // [rows, layers, ple_dim]
  Matrix branch_, gate_, up_;
  Matrix logits_;
};

}  // namespace carat
