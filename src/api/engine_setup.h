// How much an engine may hold, and the engine itself: from a checkpoint and what the user asked for. Used by
// every command that runs the engine and by the public API.
#pragma once
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "api/backend.h"
#include "api/loaded_model.h"
#include "engine/runner.h"
#include "text/tokenizer.h"

namespace carat {

inline namespace v1 {
struct ModelOptions;
}
class Engine;

struct EngineSetup {
  DeviceOptions device;
  int context = 0;  // tokens of the longest prompt plus reply; 0: the model's, as far as the memory goes
  int max_sequences = 16;    // replies that run at once, as far as the memory goes
  int max_step_tokens = 0;   // of all sequences together; 0: prompt_step_tokens()
  int max_waiting = 1024;    // replies beyond those that run; more are refused
  bool prefix_cache = true;  // keep K and V of texts that ended, for requests that begin alike
  std::string draft;         // "ngram", "suffix" or a drafter's checkpoint; empty: none
  int draft_tokens = 8;
};

/// The same for the public API, and back.
ModelOptions model_options(const EngineSetup& setup);
EngineSetup engine_setup(const ModelOptions& options);

/// Tokens of the largest step: as asked for, or as suits the device; at least a token with its drafts.
int step_tokens(const EngineSetup& setup);

/// "0.9" and "90%" are shares, "8GiB", "512MB" and "8g" amounts (of 1024, 1000 and 1024 to the power).
struct KvMemory {
  std::optional<double> share;  // of what is free beside the weights, in (0, 1]
  std::optional<std::size_t> bytes;
};
/// None when `text` is neither.
std::optional<KvMemory> parse_kv_memory(std::string_view text);

/// Pages for `sequences` sequences of `context` tokens and no more. Throws Error{invalid_argument} when one
/// of the numbers is impossible, Error{out_of_memory} when device.kv_memory, or all that is free, can't hold
/// them.
RunnerOptions exact_kv(const ModelPlan& plan, const DeviceOptions& device, int context, int sequences,
                       int max_step_tokens);

/// Loads the weights and starts the engine. Its pages share setup.device.kv_memory: by default half of what
/// the machine, or nine tenths of what a GPU has free beside the weights, and no more than the sequences can
/// use. Throws Error as make_runner() does, and Error{invalid_argument} when a context doesn't fit.
std::unique_ptr<Engine> make_engine(LoadedModel model, std::shared_ptr<const Tokenizer> tokenizer,
                                    const EngineSetup& setup, const LoadProgress& progress = {});
/// The same with pages for one sequence of setup.context tokens and no more.
std::unique_ptr<Engine> make_single_engine(LoadedModel model, std::shared_ptr<const Tokenizer> tokenizer,
                                           const EngineSetup& setup, const LoadProgress& progress = {});

}  // namespace carat
