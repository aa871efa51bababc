#include "api/loaded_model.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "io/hub.h"
#include "model/gemma4_plan.h"

namespace carat {
namespace {

void add_missing(std::vector<int32_t>& set, const std::vector<int32_t>& more) {
  for (const int32_t token : more)
    if (std::find(set.begin(), set.end(), token) == set.end()) set.push_back(token);
}

/// Some exporters round the vocabulary up for the sake of matrix sizes.
bool is_padding(int pieces, int vocab) { return vocab - pieces < 256 && vocab % 64 == 0; }

void warn_of_vocabulary(const WarningSink& warn, const std::filesystem::path& file, int pieces, int vocab) {
  if (pieces == vocab || is_padding(pieces, vocab)) return;
  warn(file.string() + " has " + std::to_string(pieces) + " pieces, the model's vocabulary " +
       std::to_string(vocab) + "; tokens beyond the tokenizer's have no text");
}

void warn_of_bos(const WarningSink& sink, const LoadedModel& model, const Tokenizer& tokenizer) {
  const int32_t used = model.generation.bos_token_id.value_or(model.config.bos_token_id);
  const int32_t of_tokenizer = tokenizer.find("<bos>");
  const auto warn = [&](const char* file, int32_t other) {
    sink("bos is " + std::to_string(other) + " in " + file + ", but " + std::to_string(used) + " in " +
         (model.generation.bos_token_id ? "generation_config.json" : "config.json") + ", which is used");
  };
  if (model.config.bos_token_id != used && model.config.bos_token_id >= 0)
    warn("config.json", model.config.bos_token_id);
  if (of_tokenizer != used && of_tokenizer >= 0 && used >= 0) warn("tokenizer.json", of_tokenizer);
}

std::shared_ptr<const Tokenizer> open_tokenizer(const std::filesystem::path& directory) {
  const std::filesystem::path file = directory / "tokenizer.json";
  std::error_code ignored;
  if (std::filesystem::symlink_status(file, ignored).type() == std::filesystem::file_type::not_found)
    fail(ErrorKind::not_found, in_quotes(directory.string()), " has no tokenizer.json");
  return Tokenizer::load(file);
}

}  // namespace

LoadedModel load_model(const std::string& model, const WarningSink& warn) {
  LoadedModel loaded;
  loaded.directory = find_model(model);
  loaded.config = load_model_config(loaded.directory);
  loaded.generation = load_generation_config(loaded.directory, loaded.config.vocab_size);
  loaded.checkpoint = Checkpoint::open(loaded.directory);
  loaded.plan = make_plan(loaded.config, loaded.checkpoint);
  if (!warn) return loaded;
  for (const std::string& warning : loaded.config.warnings) warn(warning);
  return loaded;
}

void add_drafter(LoadedModel& model, const std::string& drafter) {
  const std::filesystem::path directory = find_model(drafter);
  const DrafterConfig config = load_drafter_config(directory);
  model.plan.drafter = make_drafter_plan(model.plan, config, Checkpoint::open(directory));
}

std::shared_ptr<const Tokenizer> load_tokenizer(const std::string& model) {
  std::error_code error;
  if (std::filesystem::is_regular_file(model, error)) return Tokenizer::load(model);
  return open_tokenizer(find_model(model));
}

std::shared_ptr<const Tokenizer> load_tokenizer(const LoadedModel& model, const WarningSink& warn) {
  auto tokenizer = open_tokenizer(model.directory);
  const auto file = model.directory / "tokenizer.json";
  const int pieces = tokenizer->vocab_size(), vocab = model.config.vocab_size;
  if (pieces > vocab) {
    fail(ErrorKind::corrupt, file.string(), ": ", pieces, " pieces, but the model's vocabulary has only ",
         vocab, "; it is of another model");
  }
  if (!warn) return tokenizer;
  warn_of_vocabulary(warn, file, pieces, vocab);
  warn_of_bos(warn, model, *tokenizer);
  return tokenizer;
}

EngineOptions engine_options(const LoadedModel& model) {
  EngineOptions options;
  add_missing(options.eos_tokens, model.config.eos_token_ids);
  add_missing(options.eos_tokens, model.generation.eos_token_ids);
  options.suppressed_tokens = model.generation.suppress_tokens;
  options.max_positions = model.plan.max_positions;
  return options;
}

WeightFormat stored_format(const ModelPlan& plan) { return plan.layers.front().attention.q.format; }

int32_t bos_token(const LoadedModel& model) {
  const int32_t bos = model.generation.bos_token_id.value_or(model.config.bos_token_id);
  if (bos < 0)
    fail(ErrorKind::unsupported, "config.json: bos_token_id is null, but every prompt begins with bos");
  return bos;
}

}  // namespace carat
