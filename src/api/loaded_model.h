// The name of a model -> everything that its users need of a checkpoint. For the program and the public API.
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "engine/engine_options.h"
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

/// Gets what is doubtful about a checkpoint, one line each. Empty for callers that don't want to know.
using WarningSink = std::function<void(const std::string& warning)>;

/// `model`: a directory or "org/name"; see io/hub.h. Throws Error as the loaders do.
LoadedModel load_model(const std::string& model, const WarningSink& warn);

/// Gives the model the drafter `drafter`, named as for load_model(). Throws as the loaders do.
void add_drafter(LoadedModel& model, const std::string& drafter);

/// The checkpoint's own tokenizer. Throws Error{corrupt} when it has pieces for which the model has no
/// embedding; warns when it has fewer, and when the files disagree about bos.
std::shared_ptr<const Tokenizer> load_tokenizer(const LoadedModel& model, const WarningSink& warn);

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
