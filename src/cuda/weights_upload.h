// The checkpoint's weights -> device memory, in the layouts of packed_rows.h, from all cores at once.
#pragma once
#include <functional>
#include <optional>

#include "cuda/device.h"
#include "model/drafter.h"
#include "model/gemma4.h"

namespace carat::cuda {

/// How much is done, in [0, 1].
using LoadingProgress = std::function<void(double fraction)>;

/// Owns the device memory that the plan's matrices and vectors point to after upload_weights().
struct DeviceWeights {
  DeviceArray<std::byte> matrices;
  DeviceArray<float> vectors;
};

/// Bytes that upload_weights() will allocate. Throws Error{invalid_argument} when the checkpoint can't be
/// loaded in the wanted format.
std::size_t weight_bytes(ModelPlan& plan, std::optional<WeightFormat> wanted);

/// Copies all weights to the current device and makes `plan` point there; the plan then no longer needs the
/// checkpoint. Matrices get the format that format_of_role() gives them for `wanted`, by encode_row(); the
/// embedding tables, and everything without `wanted`, stay as stored, except that float32 and float16 are
/// rounded to bfloat16. Matrices lie in for_each_linear()'s order without gaps, so q, k, v and gate, up are
/// one matrix each.
/// `progress`, if any, hears of it from this thread.
DeviceWeights upload_weights(ModelPlan& plan, std::optional<WeightFormat> wanted,
                             const LoadingProgress& progress);

/// The same for a drafter, as stored: its weights are few, and coarser guesses are worth less.
std::size_t weight_bytes(DrafterPlan& plan);
DeviceWeights upload_weights(DrafterPlan& plan);

}  // namespace carat::cuda
