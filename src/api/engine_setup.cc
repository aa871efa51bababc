#include "api/engine_setup.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/memory_text.h"
#include "carat/model_options.h"
#include "engine/engine.h"
#include "engine/kv_budget.h"
#include "engine/kv_pages.h"

namespace carat {
namespace {

/// What a unit stands for; 0 for none that we know.
double unit_bytes(std::string_view unit) {
  if (unit.empty()) return 0;
  const std::size_t power = std::string_view("kmgt").find(static_cast<char>(unit[0] | 0x20));
  if (power == std::string_view::npos) return unit == "B" ? 1 : 0;
  const std::string_view rest = unit.substr(1);
  if (rest == "B") return std::pow(1000.0, static_cast<double>(power + 1));
  return rest.empty() || rest == "iB" ? std::pow(1024.0, static_cast<double>(power + 1)) : 0;
}

KvMemory wanted_memory(const DeviceOptions& device, KvMemory otherwise) {
  if (device.kv_memory.empty()) return otherwise;
  const auto memory = parse_kv_memory(device.kv_memory);
  if (memory) return *memory;
  fail(ErrorKind::invalid_argument, "KV memory \"", device.kv_memory,
       "\" is neither a share such as 0.9 nor an amount such as 8GiB");
}

/// None when it is a share of an unknown amount.
std::optional<std::size_t> bytes_of(const KvMemory& memory, const ModelPlan& plan,
                                    const DeviceOptions& device, int sequences, int step_tokens) {
  if (memory.bytes) return memory.bytes;
  const std::size_t free = free_bytes_for_kv(plan, device, sequences, step_tokens);
  if (free == 0) return std::nullopt;
  return static_cast<std::size_t>(*memory.share * static_cast<double>(free));
}

DraftMethod draft_method(const std::string& name) {
  if (name.empty()) return DraftMethod::none;
  if (name == "ngram") return DraftMethod::ngram;
  return name == "suffix" ? DraftMethod::suffix : DraftMethod::model;
}

/// Before any number reaches an estimate of memory.
void check(const EngineSetup& setup, int max_positions) {
  const auto at_least = [](int least, const char* what, int value) {
    if (value < least) fail(ErrorKind::invalid_argument, what, " is ", value, ", must be at least ", least);
  };
  at_least(0, "context", setup.context);
  at_least(1, "number of sequences", setup.max_sequences);
  at_least(0, "tokens per step", setup.max_step_tokens);
  at_least(0, "number of waiting replies", setup.max_waiting);
  at_least(0, "number of draft tokens", setup.draft_tokens);
  if (setup.context > max_positions)
    fail(ErrorKind::invalid_argument, "a context of ", setup.context, ": the model has only ", max_positions,
         " positions");
}

/// As much as the memory allows, and the longest context that this leaves.
RunnerOptions shared_kv(const ModelPlan& plan, const EngineSetup& setup, int& context) {
  const bool host = setup.device.device == "cpu" || setup.device.device == "ref";
  const auto bytes = bytes_of(wanted_memory(setup.device, {.share = host ? 0.5 : 0.9, .bytes = {}}), plan,
                              setup.device, setup.max_sequences, step_tokens(setup));
  context = setup.context > 0 ? setup.context : plan.max_positions;
  if (!bytes) return size_kv(plan.kv_groups, context, 1, step_tokens(setup));
  KvBudget budget{*bytes,
                  kv_value_bytes(plan, setup.device),
                  kv_scale_bytes(setup.device),
                  context,
                  setup.max_sequences,
                  step_tokens(setup),
                  RunnerOptions{}.page_tokens};
  if (setup.context == 0) context = budget.context = longest_context_within(plan.kv_groups, budget);
  return size_kv_within(plan.kv_groups, budget);
}

/// Before K and V are sized: on a GPU the drafter's weights take some of the memory.
void add_wanted_drafter(LoadedModel& model, const EngineSetup& setup) {
  if (draft_method(setup.draft) == DraftMethod::model) add_drafter(model, setup.draft);
}

std::unique_ptr<Engine> start(LoadedModel model, std::shared_ptr<const Tokenizer> tokenizer,
                              const EngineSetup& setup, const RunnerOptions& limits, int context,
                              bool prefix_cache, const LoadProgress& progress) {
  EngineOptions options = engine_options(model);
  options.max_positions = context;
  options.max_waiting = setup.max_waiting;
  options.prefix_cache = prefix_cache;
  options.draft = draft_method(setup.draft);
  options.draft_tokens = setup.draft_tokens;
  return std::make_unique<Engine>(make_runner(std::move(model.plan), limits, setup.device, progress),
                                  std::move(tokenizer), std::move(options));
}

/// What EngineSetup and ModelOptions have in common.
template <class To, class From>
void copy_limits(const From& from, To& to) {
  to.context = from.context;
  to.max_sequences = from.max_sequences;
  to.max_step_tokens = from.max_step_tokens;
  to.prefix_cache = from.prefix_cache;
  to.draft = from.draft;
  to.draft_tokens = from.draft_tokens;
}

}  // namespace

ModelOptions model_options(const EngineSetup& setup) {
  ModelOptions options;
  options.device = setup.device.device;
  options.threads = setup.device.threads;
  options.isa = setup.device.isa;
  options.format = setup.device.format;
  options.mmap = setup.device.mmap;
  options.kv_memory = setup.device.kv_memory;
  options.kv_type = setup.device.kv_type;
  copy_limits(setup, options);
  return options;
}

EngineSetup engine_setup(const ModelOptions& options) {
  EngineSetup setup;
  setup.device = {options.device, options.threads,   options.isa,    options.format,
                  options.mmap,   options.kv_memory, options.kv_type};
  copy_limits(options, setup);
  return setup;
}

int step_tokens(const EngineSetup& setup) {
  const int wanted = setup.max_step_tokens != 0 ? setup.max_step_tokens : prompt_step_tokens(setup.device);
  return setup.draft.empty() ? wanted : std::max(wanted, 1 + setup.draft_tokens);
}

std::optional<KvMemory> parse_kv_memory(std::string_view text) {
  double number = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  if (error != std::errc{} || !(number > 0)) return std::nullopt;
  const std::string_view unit(end, static_cast<std::size_t>(last - end));
  if (unit.empty() || unit == "%") {
    const double share = unit.empty() ? number : number / 100;
    if (share > 1) return std::nullopt;
    return KvMemory{.share = share, .bytes = {}};
  }
  const double bytes = number * unit_bytes(unit);
  constexpr double kMost = 1ull << 60;
  if (!(bytes >= 1 && bytes <= kMost)) return std::nullopt;
  return KvMemory{.share = {}, .bytes = static_cast<std::size_t>(bytes)};
}

RunnerOptions exact_kv(const ModelPlan& plan, const DeviceOptions& device, int context, int sequences,
                       int max_step_tokens) {
  const RunnerOptions limits = size_kv(plan.kv_groups, context, sequences, max_step_tokens);
  const auto allowed =
      bytes_of(wanted_memory(device, {.share = 1.0, .bytes = {}}), plan, device, sequences, max_step_tokens);
  const std::size_t needed =
      kv_bytes(plan.kv_groups, limits, kv_value_bytes(plan, device), kv_scale_bytes(device));
  if (!allowed || needed <= *allowed) return limits;
  fail(ErrorKind::out_of_memory, "K and V of ", sequences, sequences == 1 ? " sequence" : " sequences",
       " of ", context, " tokens need ", memory_text_up(needed), ", ", memory_text(*allowed), " are ",
       device.kv_memory.empty() ? "free beside the weights" : "allowed", "; shorten the context",
       sequences > 1 ? " or take fewer sequences" : "");
}

std::unique_ptr<Engine> make_engine(LoadedModel model, std::shared_ptr<const Tokenizer> tokenizer,
                                    const EngineSetup& setup, const LoadProgress& progress) {
  check(setup, model.plan.max_positions);
  add_wanted_drafter(model, setup);
  int context = 0;
  const RunnerOptions limits = shared_kv(model.plan, setup, context);
  return start(std::move(model), std::move(tokenizer), setup, limits, context, setup.prefix_cache, progress);
}

std::unique_ptr<Engine> make_single_engine(LoadedModel model, std::shared_ptr<const Tokenizer> tokenizer,
                                           const EngineSetup& setup, const LoadProgress& progress) {
  check(setup, model.plan.max_positions);
  add_wanted_drafter(model, setup);
  const RunnerOptions limits = exact_kv(model.plan, setup.device, setup.context, 1, step_tokens(setup));
  return start(std::move(model), std::move(tokenizer), setup, limits, setup.context, false, progress);
}

}  // namespace carat
