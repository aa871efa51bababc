// Quantised copies of a checkpoint: which format each matrix gets, and writing them. A quantised matrix X is
// stored as the U8 tensor "X.int8" or "X.int4" of shape [rows, row_bytes], rows of blocks as in formats.h;
// make_plan() finds it where the checkpoint has no X.
#pragma once
#include <filesystem>
#include <functional>
#include <string_view>

#include "base/thread_pool.h"
#include "io/model_config.h"
#include "io/safetensors.h"
#include "model/gemma4.h"
#include "model/weights.h"

namespace carat {

/// The format in which a matrix of `role` (see for_each_linear) stored as `stored` is kept when `wanted` is
/// asked for. Roles that lose most from few bits keep more: the router decides which experts run and stays as
/// stored; the head and the per-layer-embedding path never get less than 8 bits.
WeightFormat format_of_role(std::string_view role, WeightFormat stored, WeightFormat wanted);

/// Writes the text model of `checkpoint` to `directory`, which must not exist, quantised to `format` (int8 or
/// int4), with copies of the configuration and tokenizer files. The directory has its name only once it is
/// complete; see PartDirectory. Uses all threads of `pool`; reports progress from the calling thread, and
/// when `progress` throws, removes what is written. Throws Error{invalid_argument} when the checkpoint is
/// quantised already or the directory exists, Error{unavailable} when it can't be written.
void write_quantized_checkpoint(const ModelConfig& config, std::shared_ptr<const Checkpoint> checkpoint,
                                WeightFormat format, const std::filesystem::path& directory, ThreadPool& pool,
                                const std::function<void(double fraction)>& progress);

/// encode_row() for row `row` of `w`, a matrix of `plan`, whose weights are `values`. Its Error names file,
/// tensor and row too.
void encode_row_of(const ModelPlan& plan, const Linear& w, int64_t row, WeightFormat format,
                   const float* values, std::byte* out);

}  // namespace carat
