// ModelConfig + Checkpoint -> ModelPlan: tensor names, shapes and variants end here.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "io/model_config.h"
#include "io/safetensors.h"
#include "model/drafter.h"
#include "model/gemma4.h"

namespace carat {

/// Finds the tensors under whichever prefix the checkpoint uses and checks every shape. Reads no weight bytes
/// but the small vectors. Throws Error{corrupt} naming file and tensor when one is missing, has another
/// shape, or belongs to a text model that `config` doesn't describe.
ModelPlan make_plan(const ModelConfig& config, std::shared_ptr<const Checkpoint> checkpoint);

/// The drafter in `checkpoint` as ModelPlan::drafter of `target`. Its layers read the K/V of the target's
/// last layers of their kind that own some. Throws as make_plan(), and Error{invalid_argument} when it was
/// trained for a model of another shape.
std::shared_ptr<const DrafterPlan> make_drafter_plan(const ModelPlan& target, const DrafterConfig& config,
                                                     std::shared_ptr<const Checkpoint> checkpoint);

/// Calls `visit(role, linear)` for every matrix of the plan, in the order in which a decode step reads them;
/// roles are "q", "gate", "head", ... Backends repack through it. The per-layer-embedding table and the input
/// embedding come last, as "ple_table" and "embed": a step reads single rows of them.
void for_each_linear(ModelPlan& plan, const std::function<void(const char* role, Linear& linear)>& visit);

/// Bytes of weights that a decode step reads (matrices once, one row of the tables per token).
std::size_t bytes_per_token(const ModelPlan& plan);

/// Bytes of K and V that one token adds to the full-attention group, which grows with the context.
/// `scale_bytes`: beside each K and each V of a head.
std::size_t kv_bytes_per_token(const ModelPlan& plan, std::size_t element_bytes, std::size_t scale_bytes = 0);

/// "FILE: tensor "NAME", row R" for row `row` of a matrix of `plan`, for messages.
std::string describe_row(const ModelPlan& plan, const Linear& w, int64_t row);

}  // namespace carat
