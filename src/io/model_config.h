// config.json and generation_config.json as plain values. Every default is that of transformers'
// Gemma4TextConfig or Gemma4UnifiedTextConfig (models/gemma4*/configuration_*.py), so a file that omits a
// field means here what it means there; nothing after this file knows JSON.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace carat {

enum class AttentionKind { sliding, full };

struct RopeConfig {
  float theta = 10000.f;
  /// Share of the head's dimension pairs that rotate; the exponent always runs over the whole head
  /// ("proportional" in transformers). 1 for the sliding layers.
  float rotary_fraction = 1.f;
};

/// What may differ from layer to layer, resolved: no later code consults the rules again.
struct LayerConfig {
  AttentionKind attention;
  int head_dim;
  int kv_heads;
  int intermediate_size;
  bool k_eq_v;   // no v_proj tensor: V is the raw output of k_proj
  int kv_donor;  // the layer whose K/V this one reads; itself when it owns them, -1 in a drafter
};

struct ModelConfig {
  std::string model_type;  // "gemma4", "gemma4_text", "gemma4_unified", ...
  int hidden_size = 2304;
  int heads = 8;
  int vocab_size = 262144;
  int sliding_window = 512;  // tokens visible backwards, the token itself included
  int max_position_embeddings = 131072;
  float rms_norm_eps = 1e-6f;
  float final_logit_softcapping = 0.f;    // 0: none
  int hidden_size_per_layer_input = 256;  // 0: no per-layer embeddings
  int vocab_size_per_layer_input = 262144;
  bool tie_word_embeddings = true;
  RopeConfig sliding_rope{10000.f, 1.f};
  RopeConfig full_rope{1000000.f, 0.25f};
  int experts = 0;  // 0: no mixture of experts
  int experts_per_token = 0;
  int moe_intermediate_size = 0;
  int bos_token_id = 2;  // -1: none
  int pad_token_id = 0;  // -1: none
  std::vector<int> eos_token_ids{1};
  /// Placeholders of images, video frames and audio in a multimodal checkpoint. Without such input they read
  /// the embedding rows of the padding token, as in transformers.
  std::vector<int> soft_token_ids;
  std::vector<LayerConfig> layers;
  std::vector<std::string> warnings;  // what the file says and is not done, one line each
};

/// A drafter (transformers' gemma4_assistant and gemma4_unified_assistant): a small text model that guesses
/// tokens for a larger one. All its layers read K/V of that model's layers.
struct DrafterConfig {
  ModelConfig text;
  int backbone_hidden_size = 1536;  // hidden_size of the model it was trained for
  // Of a head that looks only at the tokens of the best centroids. Whether it has one, its tensors say.
  int centroids = 2048, centroids_searched = 32;
};

/// Sampling defaults of the checkpoint; absent fields are absent.
struct GenerationConfig {
  bool do_sample = false;
  std::optional<float> temperature, top_p, min_p, repetition_penalty;
  std::optional<int> top_k;
  std::optional<int> bos_token_id, pad_token_id;
  std::vector<int> eos_token_ids;
  std::vector<int> suppress_tokens;
};

/// Throws Error{not_found}, Error{corrupt} (not JSON, wrong type), Error{unsupported} (another architecture,
/// a rope type or activation we don't know, quantised weights) or Error{invalid_argument} (impossible
/// numbers), naming file and field. What it returns is consistent: layers of one attention kind agree in
/// head_dim and kv_heads, every kv_donor owns its K/V, heads are a multiple of kv_heads, head_dim is even, no
/// size overflows int64 arithmetic.
ModelConfig load_model_config(const std::filesystem::path& directory);
ModelConfig parse_model_config(std::string_view json, const std::string& source_name);

/// The same for a drafter's directory.
DrafterConfig load_drafter_config(const std::filesystem::path& directory);
DrafterConfig parse_drafter_config(std::string_view json, const std::string& source_name);

/// All defaults when the directory has no generation_config.json. Every id is in [0, vocab), and at least one
/// token is not suppressed. Throws Error{corrupt} or Error{invalid_argument}, naming file, field and value.
GenerationConfig load_generation_config(const std::filesystem::path& directory, int vocab);
GenerationConfig parse_generation_config(std::string_view json, const std::string& source_name, int vocab);

}  // namespace carat
