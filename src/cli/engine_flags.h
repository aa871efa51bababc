// The options that commands share: which device computes, how much the engine may hold, how it guesses ahead.
// --help shows each group under its own heading. All of them can come from the environment when the caller
// hands the returned options to read_from_environment().
#pragma once
#include <string>
#include <vector>

#include "api/backend.h"
#include "api/engine_setup.h"
#include "carat/request.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace carat {

/// --device, --threads, --format, --isa, --mmap, --kv-memory.
std::vector<CLI::Option*> add_device_flags(CLI::App* command, DeviceOptions& device);
/// --devices, instead of --device: see choose_one().
CLI::Option* add_devices_flag(CLI::App* command, std::vector<std::string>& devices);
/// -c, --context, and what other programs call it.
CLI::Option* add_context_flag(CLI::App* command, EngineSetup& setup, const std::string& meaning);
/// --draft, --draft-tokens.
std::vector<CLI::Option*> add_draft_flags(CLI::App* command, EngineSetup& setup);

/// --temperature, --top-k, ..., --seed.
std::vector<CLI::Option*> add_sampling_flags(CLI::App* command, ReplyOptions& options);

/// Device, context, draft and --max-sequences, --max-step-tokens, --no-prefix-cache, for commands that run
/// many requests at once. Defaults are what `setup` holds.
std::vector<CLI::Option*> add_engine_flags(CLI::App* command, EngineSetup& setup);

}  // namespace carat
