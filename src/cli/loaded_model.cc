#include "cli/loaded_model.h"

#include <algorithm>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "cli/streams.h"
#include "io/hub.h"
#include "model/gemma4_plan.h"

namespace carat {
namespace {

void add_missing(std::vector<int32_t>& set, const std::vector<int32_t>& more) {
  for (const int32_t token : more)
    if (std::find(set.begin(), set.end(), token) == set.end()) set.push_back(token);
}

}  // namespace

LoadedModel load_model(const std::string& model, bool quiet) {
  LoadedModel loaded;
  loaded.directory = find_model(model);
  loaded.config = load_model_config(loaded.directory);
  loaded.generation = load_generation_config(loaded.directory, loaded.config.vocab_size);
  loaded.checkpoint = Checkpoint::open(loaded.directory);
  loaded.plan = make_plan(loaded.config, loaded.checkpoint);
  if (quiet) return loaded;
  for (const std::string& warning : loaded.config.warnings) print_message("warning: " + warning);
  return loaded;
}

std::filesystem::path find_demo_model() {
  if (const char* chosen = std::getenv("CARAT_DEMO_MODEL"); chosen && *chosen) return chosen;
  std::error_code error;  // exists() and read_symlink() only report: a place that can't be read has no model
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto installed = program.parent_path().parent_path() / "share/carat/models/demo";
  const std::filesystem::path source_tree = CARAT_DEMO_MODEL_SOURCE;
  for (const auto& place : {installed, source_tree})
    if (std::filesystem::exists(place / "config.json", error)) return place;
  fail(ErrorKind::not_found, "the demo model is neither in ", installed.string(), " nor in ",
       source_tree.string(), "; name a MODEL or set CARAT_DEMO_MODEL");
}

std::shared_ptr<const Tokenizer> load_tokenizer(const std::string& model) {
  std::error_code error;
  if (std::filesystem::is_regular_file(model, error)) return Tokenizer::load(model);
  return Tokenizer::load(find_model(model) / "tokenizer.json");
}

EngineOptions engine_options(const LoadedModel& model) {
  EngineOptions options;
  add_missing(options.eos_tokens, model.config.eos_token_ids);
  add_missing(options.eos_tokens, model.generation.eos_token_ids);
  options.suppressed_tokens = model.generation.suppress_tokens;
  options.max_positions = model.plan.max_positions;
  return options;
}

int32_t bos_token(const LoadedModel& model) {
  const int32_t bos = model.generation.bos_token_id.value_or(model.config.bos_token_id);
  if (bos < 0)
    fail(ErrorKind::unsupported, "config.json: bos_token_id is null, but every prompt begins with bos");
  return bos;
}

}  // namespace carat
