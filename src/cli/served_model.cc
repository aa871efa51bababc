#include "cli/served_model.h"

#include <cstdint>
#include <ctime>
#include <memory>
#include <utility>
#include <vector>

#include "api/loaded_model.h"
#include "api/prompt.h"
#include "api/sampling.h"
#include "engine/engine.h"
#include "model/formats.h"

namespace carat {
namespace {

/// One after the other, so that each may use the whole machine to load.
std::vector<std::unique_ptr<Engine>> make_engines(const LoadedModel& model,
                                                  const std::shared_ptr<const Tokenizer>& tokenizer,
                                                  EngineSetup setup, std::vector<std::string> devices,
                                                  const LoadProgress& progress) {
  if (devices.empty()) devices = {setup.device.device};
  std::vector<std::unique_ptr<Engine>> engines;
  for (const std::string& device : devices) {
    setup.device.device = device;
    const auto part = [&](double fraction) {
      if (progress)
        progress((static_cast<double>(engines.size()) + fraction) / static_cast<double>(devices.size()));
    };
    engines.push_back(make_engine(model, tokenizer, setup, part));
  }
  return engines;
}

}  // namespace

std::shared_ptr<ServedModel> load_served_model(const std::string& model, const EngineSetup& setup,
                                               const std::vector<std::string>& devices,
                                               const ReplyOptions& defaults, const WarningSink& warn,
                                               const LoadProgress& progress) {
  LoadedModel loaded = load_model(model, warn);
  auto served = std::make_shared<ServedModel>();
  served->tokenizer = load_tokenizer(loaded, warn);
  served->names = {model};
  served->bos = bos_token(loaded);
  served->vocab = loaded.config.vocab_size;
  served->sampling = sampling_params(defaults, loaded.generation);
  served->chat_template = load_chat_template(loaded, served->tokenizer, warn);
  served->grammars = make_grammars(served->tokenizer, engine_options(loaded).eos_tokens);
  served->created = static_cast<int64_t>(std::time(nullptr));
  served->fingerprint = std::string("carat-" CARAT_VERSION "-") + format_name(stored_format(loaded.plan));
  served->engine =
      std::make_shared<EnginePool>(make_engines(loaded, served->tokenizer, setup, devices, progress));
  return served;
}

}  // namespace carat
