// The checkpoint's weights -> device memory, as bfloat16, from all cores at once.
#pragma once
#include "cuda/device.h"
#include "model/gemma4.h"

namespace carat::cuda {

/// Owns the device memory that the plan's matrices and vectors point to after upload_weights().
struct DeviceWeights {
  DeviceArray<std::byte> matrices;
  DeviceArray<float> vectors;
};

/// Bytes that upload_weights() will allocate.
std::size_t weight_bytes(ModelPlan& plan);

/// Copies all weights to the current device and makes `plan` point there; the plan then no longer needs the
/// checkpoint. Float32 and float16 checkpoints are rounded to bfloat16. Matrices lie in for_each_linear()'s
/// order without gaps, so q, k, v and gate, up are one matrix each.
DeviceWeights upload_weights(ModelPlan& plan);

}  // namespace carat::cuda
