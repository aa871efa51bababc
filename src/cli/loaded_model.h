// MODEL on the command line -> everything that the commands need of a checkpoint.
#pragma once
#include <filesystem>
#include <memory>
#include <string>

#include "engine/engine.h"
#include "io/model_config.h"
#include "io/safetensors.h"
#include "model/gemma4.h"
#include "text/tokenizer.h"

namespace carat {

struct LoadedModel {
  std::filesystem::path directory;
  ModelConfig config;
  GenerationConfig generation;
  std::shared_ptr<const Checkpoint> checkpoint;
  ModelPlan plan;
};

/// `model`: a directory or "org/name"; see io/hub.h. Warnings go to standard error unless `quiet`. Throws
/// Error as the loaders do.
LoadedModel load_model(const std::string& model, bool quiet = false);

/// The demo model that comes with the program: $CARAT_DEMO_MODEL, else share/carat/models/demo beside the
/// program's directory, else the source tree it was built from. Throws Error{not_found}.
std::filesystem::path find_demo_model();

/// The checkpoint's own tokenizer. Throws Error{corrupt} when it has pieces for which the model has no
/// embedding; warns, unless `quiet`, when it has fewer, and when the files disagree about bos.
std::shared_ptr<const Tokenizer> load_tokenizer(const LoadedModel& model, bool quiet);

/// `model` as for load_model(), or a tokenizer.json.
std::shared_ptr<const Tokenizer> load_tokenizer(const std::string& model);

/// Ends on the eos tokens of config.json and generation_config.json together: instruction-tuned checkpoints
/// name the end of a turn only in the latter.
EngineOptions engine_options(const LoadedModel& model);

inline bool is_quantized(WeightFormat format) {
  return format == WeightFormat::int8 || format == WeightFormat::int4;
}

/// The format of the layers' matrices. The head and per-layer embeddings of an int4 copy are int8.
WeightFormat stored_format(const ModelPlan& plan);

/// The id that starts every sequence.
int32_t bos_token(const LoadedModel& model);

}  // namespace carat
