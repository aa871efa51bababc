// `carat inspect`: what a checkpoint is and what running it costs, read from its headers alone.
#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/backend.h"
#include "api/loaded_model.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include "cli/streams.h"
#include "cli/units.h"
#include "model/formats.h"
#include "model/gemma4_plan.h"

namespace carat {
namespace {

using Json = nlohmann::ordered_json;

/// "int4 (head int8)".
std::string format_of_weights(const ModelPlan& plan) {
  const std::string layers = format_name(stored_format(plan)), head = format_name(plan.head.format);
  return layers == head ? layers : layers + " (head " + head + ")";
}
constexpr const char* kGroupNames[kKvGroups] = {"full", "sliding"};

/// Released sizes, recognised by their shape.
std::string variant_name(const ModelPlan& plan) {
  struct Variant {
    std::size_t layers;
    int d_model;
    const char* name;
  };
  static constexpr Variant kVariants[] = {
      {35, 1536, "E2B"}, {42, 2560, "E4B"}, {48, 3840, "12B"}, {60, 5376, "31B"}, {30, 2816, "26B-A4B"}};
  for (const Variant& v : kVariants)
    if (plan.layers.size() == v.layers && plan.d_model == v.d_model) return v.name;
  return "custom";
}

std::vector<std::string> features(const ModelPlan& plan) {
  const auto any = [&](auto has) { return std::any_of(plan.layers.begin(), plan.layers.end(), has); };
  std::vector<std::string> names;
  if (plan.ple_dim > 0) names.push_back("per-layer embeddings");
  if (any([](const LayerPlan& l) { return !l.attention.writes_kv; })) names.push_back("shared KV layers");
  if (any([](const LayerPlan& l) { return l.attention.writes_kv && !l.attention.v; }))
    names.push_back("K = V");
  if (any([](const LayerPlan& l) { return l.moe.has_value(); })) names.push_back("mixture of experts");
  if (plan.head.data == plan.embed.data) names.push_back("tied head");
  return names;
}

struct Weights {
  int64_t parameters = 0;  // of the language model's matrices, tied ones once
  int64_t active_parameters =
      0;  // of those, what one token multiplies: no table rows, only the chosen experts
  std::size_t bytes = 0;
  std::size_t per_layer_table_bytes = 0;  // part of `bytes`; read a row at a time, so it may stay on disk
};

Weights count_weights(ModelPlan& plan) {
  Weights total;
  double expert_share = 1;
  for (const LayerPlan& l : plan.layers)
    if (l.moe) expert_share = static_cast<double>(l.moe->experts_per_token) / l.moe->experts;
  for_each_linear(plan, [&](const std::string& role, const Linear& w) {
    if (role == "embed" && w.data == plan.head.data) return;
    const int64_t count = w.rows * w.cols;
    total.parameters += count;
    total.bytes += size_bytes(w);
    if (role == "ple_table") total.per_layer_table_bytes = size_bytes(w);
    if (role == "ple_table" || role == "embed") return;
    const bool expert = role.rfind("experts_", 0) == 0;
    total.active_parameters +=
        expert ? static_cast<int64_t>(static_cast<double>(count) * expert_share) : count;
  });
  return total;
}

std::size_t kv_bytes_per_token(const KvGroup& group, std::size_t value_bytes) {
  return 2 * value_bytes * static_cast<std::size_t>(group.layers) * static_cast<std::size_t>(group.kv_heads) *
         static_cast<std::size_t>(group.head_dim);
}

std::size_t kv_bytes(const ModelPlan& plan, int context) {
  std::size_t total = 0;
  for (const KvGroup& group : plan.kv_groups)
    total += kv_bytes_per_token(group, kv_value_bytes(plan, {})) *
             static_cast<std::size_t>(group.window > 0 ? std::min(group.window, context) : context);
  return total;
}

std::vector<int> contexts(int max_positions) {
  std::vector<int> list;
  for (const int context : {4096, 32768})
    if (context < max_positions) list.push_back(context);
  list.push_back(max_positions);
  return list;
}

struct TensorTotals {
  std::size_t count = 0, bytes = 0;
  std::map<std::string, std::size_t> bytes_by_dtype;
};

TensorTotals count_tensors(const Checkpoint& checkpoint) {
  TensorTotals totals;
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    ++totals.count;
    totals.bytes += tensor.bytes.size();
    totals.bytes_by_dtype[tensor.dtype_name] += tensor.bytes.size();
  }
  return totals;
}

Json layer_json(const LayerPlan& l, int kv_donor) {
  const AttentionPlan& a = l.attention;
  return {{"index", l.index},
          {"attention", kGroupNames[a.kv_group]},
          {"heads", a.heads},
          {"kv_heads", a.kv_heads},
          {"head_dim", a.head_dim},
          {"window", a.window > 0 ? Json(a.window) : Json()},
          {"kv_from_layer", kv_donor},
          {"k_eq_v", a.writes_kv && !a.v},
          {"intermediate_size", l.intermediate_size},
          {"experts", l.moe ? l.moe->experts : 0}};
}

std::string json_report(LoadedModel& model) {
  const ModelPlan& plan = model.plan;
  const Weights weights = count_weights(model.plan);
  const TensorTotals tensors = count_tensors(*model.checkpoint);
  Json layers = Json::array(), groups = Json::object(), memory = Json::array();
  for (std::size_t i = 0; i < plan.layers.size(); ++i)
    layers.push_back(layer_json(plan.layers[i], model.config.layers[i].kv_donor));
  for (int g = 0; g < kKvGroups; ++g)
    groups[kGroupNames[g]] = {
        {"layers", plan.kv_groups[g].layers},
        {"kv_heads", plan.kv_groups[g].kv_heads},
        {"head_dim", plan.kv_groups[g].head_dim},
        {"window", plan.kv_groups[g].window > 0 ? Json(plan.kv_groups[g].window) : Json()},
        {"kv_bytes_per_token", kv_bytes_per_token(plan.kv_groups[g], kv_value_bytes(plan, {}))}};
  for (const int context : contexts(plan.max_positions))
    memory.push_back(
        {{"context", context},
         {"kv_bytes", kv_bytes(plan, context)},
         {"total_bytes", weights.bytes - weights.per_layer_table_bytes + kv_bytes(plan, context)}});
  const Json report{
      {"model", model.directory.string()},
      {"model_type", model.config.model_type},
      {"variant", variant_name(plan)},
      {"format", format_of_weights(plan)},
      {"features", features(plan)},
      {"parameters", weights.parameters},
      {"active_parameters", weights.active_parameters},
      {"hidden_size", plan.d_model},
      {"vocab_size", plan.vocab},
      {"max_position_embeddings", plan.max_positions},
      {"files", model.checkpoint->files().size()},
      {"tensors",
       {{"count", tensors.count}, {"bytes", tensors.bytes}, {"bytes_by_dtype", tensors.bytes_by_dtype}}},
      {"weight_bytes", weights.bytes},
      {"per_layer_table_bytes", weights.per_layer_table_bytes},
      {"bytes_per_token", bytes_per_token(plan)},
      {"kv_value_bytes", kv_value_bytes(plan, {})},
      {"kv_groups", groups},
      {"memory", memory},
      {"layers", layers}};
  return report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string format(const char* pattern, auto... values) {
  char line[256];
  std::snprintf(line, sizeof line, pattern, values...);
  return line;
}

/// "layers 0-3", with neighbours that have the same description on one line.
std::string describe_layers(const LoadedModel& model) {
  std::string text, previous;
  std::size_t first = 0;
  const auto flush = [&](std::size_t end) {
    if (previous.empty()) return;
    const std::string range =
        end - first == 1 ? std::to_string(first) : std::to_string(first) + "-" + std::to_string(end - 1);
    text += format("  %-7s %s\n", range.c_str(), previous.c_str());
  };
  for (std::size_t i = 0; i < model.plan.layers.size(); ++i) {
    const LayerPlan& l = model.plan.layers[i];
    const AttentionPlan& a = l.attention;
    std::string line =
        format("%-7s %d heads, %d KV, of %d", kGroupNames[a.kv_group], a.heads, a.kv_heads, a.head_dim);
    line += format(", MLP %d", l.intermediate_size);
    if (l.moe)
      line += format(" + %d of %d experts of %d", l.moe->experts_per_token, l.moe->experts,
                     l.moe->intermediate_size);
    if (a.writes_kv && !a.v) line += ", K = V";
    if (!a.writes_kv) line += format(", KV of layer %d", model.config.layers[i].kv_donor);
    if (line == previous) continue;
    flush(i);
    previous = std::move(line);
    first = i;
  }
  flush(model.plan.layers.size());
  return text;
}

std::string size(std::size_t bytes) { return format_si(static_cast<double>(bytes), "B"); }

std::string text_report(LoadedModel& model) {
  const ModelPlan& plan = model.plan;
  const Weights weights = count_weights(model.plan);
  const TensorTotals tensors = count_tensors(*model.checkpoint);
  std::string text = "Gemma 4 " + variant_name(plan) + " (" + model.config.model_type + ")";
  for (const std::string& feature : features(plan)) text += ", " + feature;
  text += format("\n%s parameters, %s active per token\n",
                 format_count(static_cast<double>(weights.parameters)).c_str(),
                 format_count(static_cast<double>(weights.active_parameters)).c_str());
  text += format("%zu layers, hidden size %d, vocabulary %d, context up to %d\n", plan.layers.size(),
                 plan.d_model, plan.vocab, plan.max_positions);
  text += describe_layers(model);
  text += format("%zu tensors in %zu file(s), %s:", tensors.count, model.checkpoint->files().size(),
                 size(tensors.bytes).c_str());
  for (const auto& [dtype, bytes] : tensors.bytes_by_dtype)
    text += " " + printable(dtype, 40) + " " + size(bytes);
  if (weights.bytes < tensors.bytes)
    text += "\nmatrices of the text model: " + size(weights.bytes) +
            "; the rest is norms, and what is left unread, such as towers of images and audio";
  text += "\nweights: " + format_of_weights(plan) + ", read per token: " + size(bytes_per_token(plan)) +
          " of weights\nKV per token:";
  for (int g = 0; g < kKvGroups; ++g) {
    if (plan.kv_groups[g].layers == 0) continue;
    text += format(" %s %s", kGroupNames[g],
                   size(kv_bytes_per_token(plan.kv_groups[g], kv_value_bytes(plan, {}))).c_str());
    if (plan.kv_groups[g].window > 0) text += format(" (window %d)", plan.kv_groups[g].window);
  }
  text += kv_value_bytes(plan, {}) == 4 ? " (float32 values)" : " (float16 values)";
  text += "\nmemory: weights " + size(weights.bytes - weights.per_layer_table_bytes);
  if (weights.per_layer_table_bytes > 0)
    text += " (and a per-layer table of " + size(weights.per_layer_table_bytes) +
            ", read row by row from the file)";
  text += "\n";
  for (const int context : contexts(plan.max_positions))
    text += format("  context %-7d KV %-8s total %s\n", context, size(kv_bytes(plan, context)).c_str(),
                   size(weights.bytes - weights.per_layer_table_bytes + kv_bytes(plan, context)).c_str());
  return text;
}

}  // namespace

int inspect_command(const InspectOptions& options) {
  LoadedModel model = load_model(options.model, warning_printer(false));
  write_stdout(options.json ? json_report(model) : text_report(model));
  return 0;
}

}  // namespace carat
