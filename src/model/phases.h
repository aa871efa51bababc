// The phases that a step's time is told apart by, and the blocks of any backend with a mark before each. Used
// by the runners, and by `carat bench --phases` through engine/runner.h.
#pragma once
#include <cstdint>

#include "model/gemma4.h"

namespace carat {

enum class Phase : uint8_t {
  embedding,
  per_layer_inputs,
  qkv,
  rope,
  attention,
  output,
  mlp,  // where gate_up and down aren't told apart
  gate_up,
  down,
  experts,
  norms,  // where they have kernels of their own
  per_layer_mix,
  narrow,
  head,
  draw,
  kCount
};
const char* phase_name(Phase phase);

/// Forwards to `Op` and tells `Clock` when each phase begins: clock.begin(Phase).
template <Blocks Op, class Clock>
class MarkedBlocks {
 public:
  MarkedBlocks(Op& op, Clock& clock) : op_(op), clock_(clock) {}

  void embed(const ModelPlan& m, const Rows& rows) { at(Phase::embedding).embed(m, rows); }
  void per_layer_inputs(const ModelPlan& m, const Rows& rows) {
    at(Phase::per_layer_inputs).per_layer_inputs(m, rows);
  }
  void qkv(const LayerPlan& l, const Rows& rows, const StepRows& step) { at(Phase::qkv).qkv(l, rows, step); }
  void narrow(const ModelPlan& m, const StepRows& step) { at(Phase::narrow).narrow(m, step); }
  void attend(const LayerPlan& l, const Rows& rows, const StepRows& step) {
    at(Phase::attention).attend(l, rows, step);
  }
  void attention_out(const LayerPlan& l, const Rows& rows) { at(Phase::output).attention_out(l, rows); }
  void ffn(const LayerPlan& l, const Rows& rows) { at(Phase::mlp).ffn(l, rows); }
  void moe_ffn(const LayerPlan& l, const Rows& rows) { at(Phase::experts).moe_ffn(l, rows); }
  void per_layer_mix(const LayerPlan& l, const Rows& rows) {
    at(Phase::per_layer_mix).per_layer_mix(l, rows);
  }
  void logits(const ModelPlan& m, const Rows& rows) { at(Phase::head).logits(m, rows); }

 private:
  Op& at(Phase phase) {
    clock_.begin(phase);
    return op_;
  }

  Op& op_;
  Clock& clock_;
};

}  // namespace carat
