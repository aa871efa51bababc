#include "io/model_config.h"

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/utf8.h"
#include "io/json_object.h"

namespace carat {
namespace {

// Bounds that no real model comes near; with them every product of two sizes fits into 64 bits.
constexpr Range<int> kLayers{1, 1024}, kHeads{1, 4096}, kHeadDim{2, 8192}, kSize{1, 1 << 22};
constexpr Range<int> kVocab{1, 1 << 24}, kPositions{1, 1 << 30}, kPerLayerSize{0, 1 << 16},
    kExperts{1, 1 << 14};
constexpr int kNoToken = -1;

constexpr std::string_view kSliding = "sliding_attention", kFull = "full_attention";

std::string_view name(AttentionKind kind) { return kind == AttentionKind::full ? kFull : kSliding; }

/// config.json of a multimodal checkpoint nests the language model; a text-only one is flat.
struct ConfigFile {
  JsonObject root, text;
  bool unified;  // the 12B family, whose defaults differ
};

void check_architectures(const JsonObject& root, std::span<const std::string_view> known,
                         std::string_view names) {
  for (const std::string& architecture : root.strings("architectures")) {
    if (std::ranges::find(known, architecture) != known.end()) continue;
    fail(ErrorKind::unsupported, root.where("architectures"), " names ", in_quotes(architecture), ": only ",
         names, " are supported");
  }
}

bool is_drafter(std::string_view type) { return type.starts_with("gemma4") && type.ends_with("_assistant"); }

void check_family(const JsonObject& root) {
  static constexpr std::array<std::string_view, 4> kTypes{"gemma4", "gemma4_text", "gemma4_unified",
                                                          "gemma4_unified_text"};
  static constexpr std::array<std::string_view, 4> kArchitectures{
      "Gemma4ForConditionalGeneration", "Gemma4ForCausalLM", "Gemma4UnifiedForConditionalGeneration",
      "Gemma4UnifiedForCausalLM"};
  const std::string type = root.string("model_type", "");
  if (is_drafter(type)) {
    root.reject(ErrorKind::unsupported, "model_type",
                "a drafter, which predicts tokens for a larger Gemma 4 and can't run alone; give that model "
                "instead, and this one with --draft");
  }
  if (std::find(kTypes.begin(), kTypes.end(), type) == kTypes.end()) {
    root.reject(ErrorKind::unsupported, "model_type",
                "only Gemma 4 is supported (gemma4, gemma4_text, gemma4_unified, gemma4_unified_text)");
  }
  check_architectures(root, kArchitectures,
                      "Gemma4ForConditionalGeneration, Gemma4ForCausalLM and their Gemma4Unified forms");
}

void check_drafter_family(const JsonObject& root) {
  static constexpr std::array<std::string_view, 2> kArchitectures{"Gemma4AssistantForCausalLM",
                                                                  "Gemma4UnifiedAssistantForCausalLM"};
  if (!is_drafter(root.string("model_type", ""))) {
    root.reject(ErrorKind::unsupported, "model_type",
                "not a drafter for Gemma 4 (gemma4_assistant, gemma4_unified_assistant)");
  }
  check_architectures(root, kArchitectures,
                      "Gemma4AssistantForCausalLM and Gemma4UnifiedAssistantForCausalLM");
  if (!root.has("text_config")) fail(ErrorKind::corrupt, root.where("text_config"), ": missing");
}

enum class Role { model, drafter };

ConfigFile open_config(std::string_view json, const std::string& source, Role role) {
  const JsonObject root = JsonObject::parse(json, source);
  role == Role::model ? check_family(root) : check_drafter_family(root);
  if (root.is_null("text_config")) root.reject(ErrorKind::corrupt, "text_config", "must be an object");
  const bool unified = root.string("model_type", "").starts_with("gemma4_unified");
  if (!root.has("text_config")) return {root, root, unified};
  const JsonObject text = root.object("text_config");
  const std::string_view type = unified ? "gemma4_unified_text" : "gemma4_text";
  if (text.string("model_type", type) != type) {
    text.reject(ErrorKind::unsupported, "model_type", "beside this model_type it must be ", in_quotes(type));
  }
  return {root, text, unified};
}

/// What the forward pass doesn't implement must not be run as if it were absent.
void check_supported(const JsonObject& config) {
  for (const char* field : {"quantization_config", "quantization", "compression_config"}) {
    if (!config.has(field)) continue;
    const JsonObject quantization = config.object(field);
    fail(ErrorKind::unsupported, config.where(field), ": weights quantised with ",
         in_quotes(quantization.string("quant_method", "an unnamed method")),
         " are not supported; use the bfloat16 checkpoint of the same model");
  }
  if (config.string("hidden_activation", "gelu_pytorch_tanh") != "gelu_pytorch_tanh") {
    config.reject(ErrorKind::unsupported, "hidden_activation", "only \"gelu_pytorch_tanh\" is supported");
  }
  if (config.boolean("attention_bias", false)) {
    config.reject(ErrorKind::unsupported, "attention_bias", "biases in the attention are not supported");
  }
  // "vision" changes only how image tokens see each other.
  if (config.has("use_bidirectional_attention") &&
      config.string("use_bidirectional_attention", "") != "vision") {
    config.reject(ErrorKind::unsupported, "use_bidirectional_attention",
                  "only causal attention over text is supported (\"vision\" or null)");
  }
  if (config.has("rope_scaling")) {
    config.reject(ErrorKind::unsupported, "rope_scaling", "scaled rotary embeddings are not supported");
  }
}

/// For a message that blames a number which may not be in the file.
std::string default_note(const JsonObject& object, const std::string& field, int value) {
  return object.has(field) ? "" : "; " + field + " is absent, its default is " + std::to_string(value);
}

RopeConfig read_rope(const JsonObject& text, AttentionKind kind, RopeConfig fallback) {
  if (!text.has("rope_parameters")) return fallback;
  const JsonObject entry = text.object("rope_parameters").object(name(kind));
  const std::string type = entry.string("rope_type", entry.string("type", "default"));
  if (type != "default" && type != "proportional") {
    fail(ErrorKind::unsupported, entry.where("rope_type"), " = ", in_quotes(type),
         ": only \"default\" and \"proportional\" are supported");
  }
  if (entry.number("factor", 1.f, {0.f, 1e6f}) != 1.f) {
    entry.reject(ErrorKind::unsupported, "factor", "scaled rotary embeddings are not supported");
  }
  constexpr Range<float> kTheta{1e-3f, 1e30f}, kShare{0.f, 1.f};
  const JsonObject& holder = entry.has("rope_theta") ? entry : text;
  if (!holder.has("rope_theta")) fail(ErrorKind::corrupt, entry.where("rope_theta"), ": missing");
  const float share =
      text.has("partial_rotary_factor") ? text.number("partial_rotary_factor", 1.f, kShare) : 1.f;
  RopeConfig rope;
  rope.theta = holder.number("rope_theta", 0.f, kTheta);
  // The default type rotates every pair, whatever the factor says.
  rope.rotary_fraction = type == "proportional" ? entry.number("partial_rotary_factor", share, kShare) : 1.f;
  return rope;
}

std::vector<AttentionKind> read_layer_kinds(const JsonObject& text, std::vector<std::string>& warnings) {
  const int count = text.integer("num_hidden_layers", 30, kLayers);
  std::vector<AttentionKind> kinds;
  for (const std::string& type : text.strings("layer_types")) {
    if (type != kSliding && type != kFull) {
      fail(ErrorKind::unsupported, text.where("layer_types"), ": layer ", kinds.size(), " is ",
           in_quotes(type), ", only \"", kSliding, "\" and \"", kFull, "\" are supported");
    }
    kinds.push_back(type == kFull ? AttentionKind::full : AttentionKind::sliding);
  }
  if (!text.has("layer_types")) {
    for (int i = 0; i < count; ++i) {
      kinds.push_back((i + 1) % 6 == 0 ? AttentionKind::full : AttentionKind::sliding);
    }
  }
  if (kinds.size() != static_cast<std::size_t>(count)) {
    text.reject(ErrorKind::invalid_argument, "layer_types", "num_hidden_layers is ", count,
                default_note(text, "num_hidden_layers", count));
  }
  if (kinds.back() != AttentionKind::full) {
    // transformers does the same, with or without a list in the file.
    if (text.has("layer_types")) {
      warnings.push_back(text.where("layer_types") + ": the last layer is run with full attention");
    }
    kinds.back() = AttentionKind::full;
  }
  return kinds;
}

/// What the layers have in common until a rule or an override says otherwise.
struct LayerDefaults {
  int head_dim, kv_heads, full_head_dim, full_kv_heads, intermediate_size;
  bool k_eq_v, double_wide;
  int first_shared;  // layers from here on read another layer's K/V; the layer count when there are none
};

LayerDefaults read_layer_defaults(const JsonObject& text, int layers, Role role) {
  LayerDefaults d{};
  d.head_dim = d.full_head_dim = text.integer("head_dim", 256, kHeadDim);
  d.kv_heads = d.full_kv_heads = text.integer("num_key_value_heads", 4, kHeads);
  d.intermediate_size = text.integer("intermediate_size", 9216, kSize);
  d.k_eq_v = text.boolean("attention_k_eq_v", false);
  d.double_wide = text.boolean("use_double_wide_mlp", false);
  int shared = text.integer("num_kv_shared_layers", 0, {0, layers});
  if (role == Role::drafter) {
    // 0 means all, as in transformers.
    if (shared != 0 && shared != layers)
      text.reject(ErrorKind::invalid_argument, "num_kv_shared_layers", "a drafter of ", layers,
                  " layers shares the K/V of all of them");
    shared = 0;
  } else if (shared == layers) {
    text.reject(ErrorKind::unsupported, "num_kv_shared_layers", "all ", layers,
                " layers read the K/V of another model; a drafter can't run alone");
  }
  d.first_shared = layers - shared;
  // per_layer_config replaces these two fields, it does not add to them.
  if (!text.has("per_layer_config")) {
    d.full_head_dim = text.integer("global_head_dim", 512, kHeadDim);
    if (d.k_eq_v && text.has("num_global_key_value_heads")) {
      d.full_kv_heads = text.integer("num_global_key_value_heads", 0, kHeads);
    }
  }
  return d;
}

/// per_layer_config: {"5": {"head_dim": 512, "num_key_value_heads": 1}, ...}; keys may be padded with zeros.
void apply_overrides(const JsonObject& text, std::vector<LayerConfig>& layers) {
  if (!text.has("per_layer_config")) return;
  const JsonObject overrides = text.object("per_layer_config");
  for (const std::string& key : overrides.keys()) {
    const bool digits = !key.empty() && key.size() <= 9 && key.find_first_not_of("0123456789") == key.npos;
    const std::size_t index = digits ? std::stoul(key) : layers.size();
    if (index >= layers.size()) {
      overrides.reject(ErrorKind::invalid_argument, key, "not a layer from 0 to ", layers.size() - 1);
    }
    const JsonObject layer = overrides.object(key);
    for (const std::string& field : layer.keys()) {
      if (field == "head_dim") {
        layers[index].head_dim = layer.integer(field, 0, kHeadDim);
      } else if (field == "num_key_value_heads") {
        layers[index].kv_heads = layer.integer(field, 0, kHeads);
      } else {
        layer.reject(ErrorKind::unsupported, field, "this field can't differ between layers");
      }
    }
  }
}

/// Invariants that later code relies on; see the declaration of load_model_config.
void check_layers(const JsonObject& text, const ModelConfig& config) {
  std::map<AttentionKind, int> first_of;
  for (int i = 0; const LayerConfig& layer : config.layers) {
    const std::string where = text.where("layer " + std::to_string(i));
    if (layer.head_dim % 2 != 0) {
      fail(ErrorKind::invalid_argument, where, ": head_dim = ", layer.head_dim, " must be even");
    }
    if (config.heads % layer.kv_heads != 0) {
      fail(ErrorKind::invalid_argument, where, ": ", config.heads, " attention heads are not a multiple of ",
           layer.kv_heads, " key/value heads", default_note(text, "num_attention_heads", config.heads),
           default_note(text, "num_key_value_heads", 4));
    }
    const int first = first_of.try_emplace(layer.attention, i).first->second;
    const LayerConfig& like = config.layers[static_cast<std::size_t>(first)];
    if (layer.head_dim != like.head_dim || layer.kv_heads != like.kv_heads) {
      fail(ErrorKind::unsupported, where, ": head_dim ", layer.head_dim, " and ", layer.kv_heads,
           " key/value heads differ from layer ", first, " (", like.head_dim, ", ", like.kv_heads, "), also ",
           name(layer.attention));
    }
    ++i;
  }
}

std::vector<LayerConfig> read_layers(const JsonObject& text, std::vector<std::string>& warnings, Role role) {
  const std::vector<AttentionKind> kinds = read_layer_kinds(text, warnings);
  const int count = static_cast<int>(kinds.size());
  const LayerDefaults d = read_layer_defaults(text, count, role);
  std::map<AttentionKind, int> last_owner;
  std::vector<LayerConfig> layers;
  for (int i = 0; const AttentionKind kind : kinds) {
    const bool full = kind == AttentionKind::full, shared = i >= d.first_shared;
    if (!shared) last_owner[kind] = i;
    const auto donor = last_owner.find(kind);
    if (donor == last_owner.end()) {
      text.reject(ErrorKind::invalid_argument, "num_kv_shared_layers", "layer ", i, " is ", name(kind),
                  " and shares K/V, but none of the first ", d.first_shared, " layers is of that kind");
    }
    layers.push_back({.attention = kind,
                      .head_dim = full ? d.full_head_dim : d.head_dim,
                      .kv_heads = full ? d.full_kv_heads : d.kv_heads,
                      .intermediate_size = d.intermediate_size * (d.double_wide && shared ? 2 : 1),
                      .k_eq_v = d.k_eq_v && full,
                      .kv_donor = role == Role::drafter ? -1 : donor->second});
    ++i;
  }
  apply_overrides(text, layers);
  return layers;
}

void read_experts(const JsonObject& text, ModelConfig& config) {
  if (!text.boolean("enable_moe_block", false)) return;
  for (const char* field : {"num_experts", "top_k_experts", "moe_intermediate_size"}) {
    if (!text.has(field))
      fail(ErrorKind::corrupt, text.where(field), ": missing, although enable_moe_block is true");
  }
  config.experts = text.integer("num_experts", 0, kExperts);
  config.experts_per_token = text.integer("top_k_experts", 0, {1, config.experts});
  config.moe_intermediate_size = text.integer("moe_intermediate_size", 0, kSize);
}

/// A token id; null says that there is none.
int read_token_id(const JsonObject& object, const char* field, int fallback, Range<int> ids) {
  return object.is_null(field) ? kNoToken : object.integer(field, fallback, ids);
}

/// Token ids stand beside text_config in some files and inside it in others; the outer ones win.
void read_token_ids(const ConfigFile& file, ModelConfig& config) {
  const int last = config.vocab_size - 1;
  const auto holder = [&](const char* field) -> const JsonObject& {
    return file.root.has(field) ? file.root : file.text;
  };
  config.bos_token_id =
      read_token_id(holder("bos_token_id"), "bos_token_id", config.bos_token_id, {kNoToken, last});
  config.pad_token_id =
      read_token_id(holder("pad_token_id"), "pad_token_id", config.pad_token_id, {kNoToken, last});
  const JsonObject& eos = holder("eos_token_id");
  if (eos.has("eos_token_id") || eos.is_null("eos_token_id")) {
    config.eos_token_ids = eos.integers("eos_token_id", {0, last});
  }
}

/// transformers' default ids; a text-only config has no placeholders.
void read_soft_token_ids(const ConfigFile& file, ModelConfig& config) {
  if (!file.root.has("text_config")) return;
  constexpr std::pair<const char*, int> kFields[] = {
      {"image_token_id", 258880}, {"audio_token_id", 258881}, {"video_token_id", 258884}};
  for (const auto& [field, fallback] : kFields) {
    const int id = read_token_id(file.root, field, fallback, {kNoToken, kVocab.most});
    if (id >= 0 && id < config.vocab_size) config.soft_token_ids.push_back(id);
  }
}

ModelConfig read_config(const ConfigFile& file, Role role) {
  const JsonObject& text = file.text;
  check_supported(file.root);
  check_supported(text);

  ModelConfig config;
  config.model_type = file.root.string("model_type", "");
  config.hidden_size = text.integer("hidden_size", config.hidden_size, kSize);
  config.heads = text.integer("num_attention_heads", config.heads, kHeads);
  config.vocab_size = text.integer("vocab_size", config.vocab_size, kVocab);
  config.sliding_window = text.integer("sliding_window", file.unified ? 1024 : 512, kPositions);
  config.max_position_embeddings =
      text.integer("max_position_embeddings", file.unified ? 262144 : 131072, kPositions);
  config.rms_norm_eps = text.number("rms_norm_eps", config.rms_norm_eps, {1e-12f, 1.f});
  if (text.has("final_logit_softcapping")) {
    config.final_logit_softcapping = text.number("final_logit_softcapping", 0.f, {1e-3f, 1e6f});
  }
  config.hidden_size_per_layer_input =
      file.unified ? text.integer("hidden_size_per_layer_input", 0, {0, 0})  // a family without them
                   : text.integer("hidden_size_per_layer_input", 256, kPerLayerSize);
  if (config.hidden_size_per_layer_input > 0) {
    config.vocab_size_per_layer_input = text.integer("vocab_size_per_layer_input", 262144, kVocab);
  }
  config.tie_word_embeddings =
      file.root.boolean("tie_word_embeddings", text.boolean("tie_word_embeddings", true));
  config.layers = read_layers(text, config.warnings, role);
  check_layers(text, config);
  for (const LayerConfig& layer : config.layers) {
    RopeConfig& rope = layer.attention == AttentionKind::full ? config.full_rope : config.sliding_rope;
    rope = read_rope(text, layer.attention, rope);
  }
  read_experts(text, config);
  read_token_ids(file, config);
  read_soft_token_ids(file, config);
  return config;
}

MappedFile open_config_file(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / "config.json";
  std::error_code ignored;
  if (std::filesystem::symlink_status(path, ignored).type() == std::filesystem::file_type::not_found)
    fail(ErrorKind::not_found, in_quotes(directory.string()), " is not a checkpoint: it has no config.json");
  return MappedFile(path, kMostConfigBytes);
}

/// What a drafter can't have, as in transformers.
void check_drafter_text(const JsonObject& text, const ModelConfig& config) {
  if (config.hidden_size_per_layer_input > 0)
    text.reject(ErrorKind::unsupported, "hidden_size_per_layer_input", "a drafter has none; it must be 0");
  for (const char* field : {"enable_moe_block", "use_double_wide_mlp"}) {
    if (text.boolean(field, false))
      text.reject(ErrorKind::unsupported, field, "a drafter has none; it must be false");
  }
}

}  // namespace

ModelConfig parse_model_config(std::string_view json, const std::string& source_name) {
  return read_config(open_config(json, source_name, Role::model), Role::model);
}

ModelConfig load_model_config(const std::filesystem::path& directory) {
  const MappedFile file = open_config_file(directory);
  return parse_model_config(file.text(), file.path().string());
}

DrafterConfig parse_drafter_config(std::string_view json, const std::string& source_name) {
  const ConfigFile file = open_config(json, source_name, Role::drafter);
  DrafterConfig config;
  config.text = read_config(file, Role::drafter);
  check_drafter_text(file.text, config.text);
  config.backbone_hidden_size = file.root.integer("backbone_hidden_size", file.unified ? 3840 : 1536, kSize);
  config.centroids = file.root.integer("num_centroids", 2048, kVocab);
  config.centroids_searched = file.root.integer("centroid_intermediate_top_k", 32, kVocab);
  return config;
}

DrafterConfig load_drafter_config(const std::filesystem::path& directory) {
  const MappedFile file = open_config_file(directory);
  return parse_drafter_config(file.text(), file.path().string());
}

}  // namespace carat
