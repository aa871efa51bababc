#include "cli/engine_flags.h"

#include <CLI/CLI.hpp>

#include "base/utf8.h"
#include "cli/flags.h"

namespace carat {
namespace {

ValueCheck device_name() {
  return [](std::string& name) -> std::string {
    return is_device_name(name) ? "" : "must be cpu, ref or cuda:N, not " + in_quotes(name, 40);
  };
}

/// 1 is cuda:1.
ValueCheck device_number_or_name() {
  return [](std::string& name) {
    if (!name.empty() && name.find_first_not_of("0123456789") == std::string::npos) name = "cuda:" + name;
    return device_name()(name);
  };
}

ValueCheck amount_of_memory() {
  return [](std::string& text) -> std::string {
    return parse_kv_memory(text)
               ? ""
               : "must be a share such as 0.9 or an amount such as 8GiB, not " + in_quotes(text, 40);
  };
}

}  // namespace

std::vector<CLI::Option*> add_device_flags(CLI::App* command, DeviceOptions& device) {
  std::vector<CLI::Option*> options{
      checked(command->add_option("--device", device.device, "what computes: cpu, ref or cuda:N"),
              device_name())
          ->type_name("NAME")
          ->capture_default_str(),
      add_count(command, "-t,--threads", device.threads, "cpu: threads (default: one per core)", 0,
                kMostThreads),
      add_choice(command, "--format", device.format,
                 "cpu, cuda: weights as bf16, int8 or int4 (default: as stored)", {"bf16", "int8", "int4"}),
      add_choice(command, "--isa", device.isa, "cpu: scalar, avx2, avx512 or neon (default: the best here)",
                 {"scalar", "avx2", "avx512", "neon"}),
      command->add_flag("--mmap", device.mmap, "cpu: read the files in place instead of repacking them"),
      checked(add_text(command, "--kv-memory", device.kv_memory,
                       "for K and V: a share of what the weights leave free, or an amount such as 8GiB"),
              amount_of_memory())
          ->type_name("X"),
      add_choice(command, "--kv-type", device.kv_type,
                 "K/V as f32 (not cuda), f16 (not ref) or int8 (default: as exact as the weights)",
                 {"f32", "f16", "int8"})};
  for (CLI::Option* option : options) option->group("Device");
  return options;
}

CLI::Option* add_devices_flag(CLI::App* command, std::vector<std::string>& devices) {
  return checked(command
                     ->add_option("--devices", devices,
                                  "GPUs such as 0,1: the whole model on each, requests where there is least "
                                  "to do")
                     ->delimiter(',')
                     ->allow_extra_args(false),
                 device_number_or_name())
      ->type_name("LIST")
      ->group("Device");
}

CLI::Option* add_context_flag(CLI::App* command, EngineSetup& setup, const std::string& meaning) {
  return add_count(command, "-c,--context,--ctx-size,--max-model-len", setup.context, meaning, 1, kMostTokens)
      ->group("Length");
}

std::vector<CLI::Option*> add_draft_flags(CLI::App* command, EngineSetup& setup) {
  std::vector<CLI::Option*> options{
      checked(add_text(command, "--draft", setup.draft,
                       "guess tokens ahead, for speed alone: ngram, suffix or a drafter's directory"),
              not_empty("ngram, suffix or a directory")),
      add_count(command, "--draft-tokens", setup.draft_tokens, "guess up to N at once", 1, 64)
          ->capture_default_str()};
  for (CLI::Option* option : options) option->group("Speed");
  return options;
}

std::vector<CLI::Option*> add_sampling_flags(CLI::App* command, ReplyOptions& o) {
  std::vector<CLI::Option*> options{
      add_number(command, "--temp,--temperature", o.temperature, "0 for the likeliest token always", 0, 1e4),
      add_count(command, "--top-k", o.top_k, "draw from the N likeliest; 0 for all", 0, kMostTokens),
      add_number(command, "--top-p", o.top_p, "draw from the likeliest that have this probability together",
                 0, 1),
      add_number(command, "--min-p", o.min_p, "draw from those this likely relative to the best", 0, 1),
      add_number(command, "--repeat-penalty", o.repetition_penalty, "above 1: fewer repetitions; 1 for none",
                 1e-3, 1e3),
      checked(command->add_option("--seed", o.seed, "same seed, same text (default: random)"), seed_number())
          ->type_name("N")};
  for (CLI::Option* option : options) option->group("Sampling (defaults: the checkpoint's)");
  return options;
}

std::vector<CLI::Option*> add_engine_flags(CLI::App* command, EngineSetup& setup) {
  CLI::Option* no_cache = command->add_flag_callback(
      "--no-prefix-cache", [&setup] { setup.prefix_cache = false; },
      "compute every prompt from its beginning, also where others began alike");
  std::vector<CLI::Option*> options{
      add_context_flag(command, setup,
                       "tokens of a prompt and its reply (default: the model's, as far as memory "
                       "goes)"),
      add_count(command, "--max-sequences,--parallel,--max-num-seqs", setup.max_sequences,
                "replies that are computed at once, as far as the memory goes", 1, kMostSequences)
          ->capture_default_str(),
      add_count(command, "--max-step-tokens,--max-num-batched-tokens", setup.max_step_tokens,
                "tokens of one pass over the weights, of all requests together (default: 512 on cpu, 2048 on "
                "cuda)",
                1, 1 << 16),
      no_cache};
  for (CLI::Option* option : options) option->group("Capacity");
  for (const auto& more : {add_draft_flags(command, setup), add_device_flags(command, setup.device)})
    options.insert(options.end(), more.begin(), more.end());
  return options;
}

}  // namespace carat
