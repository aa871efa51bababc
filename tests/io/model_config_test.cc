#include "io/model_config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/expect_error.h"
#include "support/temp_directory.h"

namespace carat {
namespace {

using nlohmann::json;

/// E2B in small: 10 layers, the last 5 without K/V of their own.
json text_config() {
  return json::parse(R"({
    "model_type": "gemma4_text", "hidden_size": 64, "num_hidden_layers": 10, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "global_head_dim": 32, "intermediate_size": 128,
    "hidden_size_per_layer_input": 8, "vocab_size": 512, "vocab_size_per_layer_input": 500,
    "sliding_window": 16, "num_kv_shared_layers": 5, "use_double_wide_mlp": true, "attention_k_eq_v": false,
    "layer_types": ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention",
                    "full_attention", "sliding_attention", "sliding_attention", "sliding_attention",
                    "sliding_attention", "full_attention"],
    "rms_norm_eps": 1e-6, "max_position_embeddings": 4096, "final_logit_softcapping": 30.0,
    "hidden_activation": "gelu_pytorch_tanh",
    "rope_parameters": {
      "full_attention": {"rope_type": "proportional", "rope_theta": 2e6, "partial_rotary_factor": 0.25},
      "sliding_attention": {"rope_type": "default", "rope_theta": 5000}}})");
}

json nested(json text) {
  return {{"model_type", "gemma4"},
          {"architectures", {"Gemma4ForConditionalGeneration"}},
          {"text_config", std::move(text)},
          {"vision_config", {{"hidden_size", 768}}}};
}

ModelConfig parse(const json& config) { return parse_model_config(config.dump(), "config.json"); }

/// The nested config with fields of text_config replaced.
json with(const json& changes) {
  json text = text_config();
  text.update(changes);
  return nested(text);
}

void expect_rejected(ErrorKind kind, const json& changes, std::vector<std::string_view> parts) {
  parts.push_back("config.json");
  expect_error(kind, parts, [&] { parse(with(changes)); });
}

TEST(ModelConfig, ReadsANestedConfig) {
  const ModelConfig c = parse(nested(text_config()));
  EXPECT_EQ(c.model_type, "gemma4");
  EXPECT_EQ(c.hidden_size, 64);
  EXPECT_EQ(c.heads, 4);
  EXPECT_EQ(c.vocab_size, 512);
  EXPECT_EQ(c.vocab_size_per_layer_input, 500);
  EXPECT_EQ(c.sliding_window, 16);
  EXPECT_EQ(c.max_position_embeddings, 4096);
  EXPECT_FLOAT_EQ(c.final_logit_softcapping, 30.f);
  EXPECT_FLOAT_EQ(c.full_rope.theta, 2e6f);
  EXPECT_FLOAT_EQ(c.full_rope.rotary_fraction, 0.25f);
  EXPECT_FLOAT_EQ(c.sliding_rope.theta, 5000.f);
  EXPECT_FLOAT_EQ(c.sliding_rope.rotary_fraction, 1.f);
  EXPECT_EQ(c.experts, 0);
  ASSERT_EQ(c.layers.size(), 10u);
  EXPECT_EQ(c.layers[2].head_dim, 32);
  EXPECT_EQ(c.layers[3].head_dim, 16);
}

TEST(ModelConfig, ReadsAFlatConfig) {
  json flat = text_config();
  flat["architectures"] = {"Gemma4ForCausalLM"};
  const ModelConfig c = parse(flat);
  EXPECT_EQ(c.model_type, "gemma4_text");
  EXPECT_EQ(c.layers.size(), 10u);
}

TEST(ModelConfig, SharedLayersReadTheLastOwnerOfTheirKind) {
  const ModelConfig c = parse(nested(text_config()));
  std::vector<int> donors;
  for (const LayerConfig& layer : c.layers) donors.push_back(layer.kv_donor);
  EXPECT_EQ(donors, (std::vector<int>{0, 1, 2, 3, 4, 3, 3, 3, 3, 4}));
}

TEST(ModelConfig, OnlySharedLayersAreDoubleWide) {
  for (const bool wide : {true, false}) {
    const ModelConfig c = parse(with({{"use_double_wide_mlp", wide}}));
    EXPECT_EQ(c.layers[4].intermediate_size, 128);
    EXPECT_EQ(c.layers[5].intermediate_size, wide ? 256 : 128);
  }
  EXPECT_EQ(parse(with({{"num_kv_shared_layers", 0}})).layers[9].intermediate_size, 128);
}

TEST(ModelConfig, PicksTheSharedLayersOfThePublishedModels) {
  const auto donors = [](int layers, int period, int shared) {
    json types = json::array();
    for (int i = 0; i < layers; ++i)
      types.push_back((i + 1) % period ? "sliding_attention" : "full_attention");
    return parse(
               with(
                   {{"num_hidden_layers", layers}, {"layer_types", types}, {"num_kv_shared_layers", shared}}))
        .layers;
  };
  const std::vector<LayerConfig> e2b = donors(35, 5, 20), e4b = donors(42, 6, 18);
  for (int i = 0; i < 35; ++i) EXPECT_EQ(e2b[i].kv_donor, i < 15 ? i : (i + 1) % 5 ? 13 : 14) << i;
  for (int i = 0; i < 42; ++i) EXPECT_EQ(e4b[i].kv_donor, i < 24 ? i : (i + 1) % 6 ? 22 : 23) << i;
}

TEST(ModelConfig, MissingFieldsMeanWhatTheyMeanInTransformers) {
  const ModelConfig c = parse({{"model_type", "gemma4_text"}});
  EXPECT_EQ(c.hidden_size, 2304);
  EXPECT_EQ(c.heads, 8);
  EXPECT_EQ(c.vocab_size, 262144);
  EXPECT_EQ(c.sliding_window, 512);
  EXPECT_EQ(c.max_position_embeddings, 131072);
  EXPECT_EQ(c.rms_norm_eps, 1e-6f);
  EXPECT_EQ(c.final_logit_softcapping, 0.f);
  EXPECT_EQ(c.hidden_size_per_layer_input, 256);
  EXPECT_EQ(c.vocab_size_per_layer_input, 262144);
  EXPECT_TRUE(c.tie_word_embeddings);
  EXPECT_EQ(c.full_rope.theta, 1e6f);
  EXPECT_EQ(c.full_rope.rotary_fraction, 0.25f);
  EXPECT_EQ(c.sliding_rope.theta, 1e4f);
  EXPECT_EQ(c.bos_token_id, 2);
  EXPECT_EQ(c.pad_token_id, 0);
  EXPECT_EQ(c.eos_token_ids, std::vector<int>{1});
  ASSERT_EQ(c.layers.size(), 30u);
  for (int i = 0; i < 30; ++i) {
    const LayerConfig& layer = c.layers[static_cast<std::size_t>(i)];
    const bool full = (i + 1) % 6 == 0;
    EXPECT_EQ(layer.attention, full ? AttentionKind::full : AttentionKind::sliding) << i;
    EXPECT_EQ(layer.head_dim, full ? 512 : 256);
    EXPECT_EQ(layer.kv_heads, 4);
    EXPECT_EQ(layer.intermediate_size, 9216);
    EXPECT_EQ(layer.kv_donor, i);
    EXPECT_FALSE(layer.k_eq_v);
  }
}

TEST(ModelConfig, TheUnifiedFamilyHasItsOwnDefaults) {
  for (const json& config : {json{{"model_type", "gemma4_unified_text"}},
                             json{{"model_type", "gemma4_unified"}, {"text_config", json::object()}}}) {
    const ModelConfig c = parse(config);
    EXPECT_EQ(c.sliding_window, 1024);
    EXPECT_EQ(c.max_position_embeddings, 262144);
    EXPECT_EQ(c.hidden_size_per_layer_input, 0);
  }
}

TEST(ModelConfig, TheLastLayerIsAlwaysFull) {
  EXPECT_EQ(parse({{"model_type", "gemma4_text"}, {"num_hidden_layers", 4}}).layers[3].attention,
            AttentionKind::full);
  json types = text_config()["layer_types"];
  types[9] = "sliding_attention";
  const ModelConfig changed = parse(with({{"layer_types", types}}));
  EXPECT_EQ(changed.layers[9].attention, AttentionKind::full);
  ASSERT_EQ(changed.warnings.size(), 1u);
  EXPECT_NE(changed.warnings[0].find("layer_types: the last layer"), std::string::npos)
      << changed.warnings[0];
  EXPECT_TRUE(parse(nested(text_config())).warnings.empty());
}

TEST(ModelConfig, GlobalKvHeadsNeedKEqV) {
  const json heads{{"num_global_key_value_heads", 1}};
  EXPECT_EQ(parse(with(heads)).layers[2].kv_heads, 2);
  json k_eq_v = heads;
  k_eq_v["attention_k_eq_v"] = true;
  const ModelConfig c = parse(with(k_eq_v));
  EXPECT_EQ(c.layers[2].kv_heads, 1);
  EXPECT_TRUE(c.layers[2].k_eq_v);
  EXPECT_EQ(c.layers[3].kv_heads, 2);
  EXPECT_FALSE(c.layers[3].k_eq_v);
  EXPECT_EQ(
      parse(with({{"attention_k_eq_v", true}, {"num_global_key_value_heads", nullptr}})).layers[2].kv_heads,
      2);
}

TEST(ModelConfig, PerLayerConfigReplacesTheGlobalFields) {
  json text = text_config();
  text["per_layer_config"] = json::parse(
      R"({"02": {"head_dim": 48, "num_key_value_heads": 1}, "4": {"head_dim": 48, "num_key_value_heads": 1},
          "9": {"num_key_value_heads": 1, "head_dim": 48}})");
  const ModelConfig c = parse(nested(text));
  EXPECT_EQ(c.layers[2].head_dim, 48);  // not the 32 of global_head_dim
  EXPECT_EQ(c.layers[9].kv_heads, 1);
  EXPECT_EQ(c.layers[3].head_dim, 16);
  text["per_layer_config"] = json::object();
  EXPECT_EQ(parse(nested(text)).layers[2].head_dim, 16);
}

TEST(ModelConfig, RefusesPerLayerConfigsItCannotHonour) {
  const auto expect = [](ErrorKind kind, const char* overrides, std::vector<std::string_view> parts) {
    expect_rejected(kind, {{"per_layer_config", json::parse(overrides)}}, parts);
  };
  expect(ErrorKind::invalid_argument, R"({"10": {"head_dim": 32}})", {"per_layer_config.10", "0 to 9"});
  expect(ErrorKind::invalid_argument, R"({"-1": {"head_dim": 32}})", {"per_layer_config.-1"});
  expect(ErrorKind::invalid_argument, R"({"99999999999999999999": {}})", {"per_layer_config.9999"});
  expect(ErrorKind::unsupported, R"({"2": {"intermediate_size": 8}})",
         {"per_layer_config.2.intermediate_size = 8"});
  expect(ErrorKind::unsupported, R"({"2": {"head_dim": 32}})",
         {"layer 4", "head_dim 16", "layer 2", "full_attention"});
  expect(ErrorKind::corrupt, R"({"2": 5})", {"per_layer_config.2 = 5"});
  expect(ErrorKind::corrupt, "[1]", {"per_layer_config"});
}

TEST(ModelConfig, ReadsExpertsOnlyWhenEnabled) {
  json moe{
      {"enable_moe_block", true}, {"num_experts", 8}, {"top_k_experts", 2}, {"moe_intermediate_size", 24}};
  const ModelConfig c = parse(with(moe));
  EXPECT_EQ(c.experts, 8);
  EXPECT_EQ(c.experts_per_token, 2);
  EXPECT_EQ(c.moe_intermediate_size, 24);
  moe["enable_moe_block"] = false;
  EXPECT_EQ(parse(with(moe)).experts, 0);
  moe["enable_moe_block"] = true;
  moe["top_k_experts"] = 9;
  expect_rejected(ErrorKind::invalid_argument, moe, {"top_k_experts = 9", "1 to 8"});
  moe["top_k_experts"] = nullptr;
  expect_rejected(ErrorKind::corrupt, moe, {"top_k_experts", "missing"});
}

TEST(ModelConfig, TokenIdsMayStandInEitherObject) {
  json config = with({{"eos_token_id", 5}, {"bos_token_id", 7}, {"pad_token_id", nullptr}});
  EXPECT_EQ(parse(config).eos_token_ids, std::vector<int>{5});
  config["eos_token_id"] = {1, 106, 50};
  const ModelConfig c = parse(config);
  EXPECT_EQ(c.eos_token_ids, (std::vector<int>{1, 106, 50}));
  EXPECT_EQ(c.bos_token_id, 7);
  EXPECT_EQ(c.pad_token_id, -1);
  EXPECT_TRUE(parse(with({{"eos_token_id", nullptr}})).eos_token_ids.empty());
}

TEST(ModelConfig, PlaceholdersOfImagesAndAudioExistInMultimodalCheckpointsOnly) {
  json config = with({{"vocab_size", 262144}});
  EXPECT_EQ(parse(config).soft_token_ids, (std::vector<int>{258880, 258881, 258884}));
  config["image_token_id"] = 7;
  config["audio_token_id"] = nullptr;
  EXPECT_EQ(parse(config).soft_token_ids, (std::vector<int>{7, 258884}));
  EXPECT_TRUE(parse(config["text_config"]).soft_token_ids.empty());
  EXPECT_TRUE(parse(nested(text_config())).soft_token_ids.empty());  // outside a vocabulary of 512
}

TEST(ModelConfig, TyingIsDecidedByTheOuterObject) {
  json config = with({{"tie_word_embeddings", false}});
  EXPECT_FALSE(parse(config).tie_word_embeddings);
  config["tie_word_embeddings"] = true;
  EXPECT_TRUE(parse(config).tie_word_embeddings);
}

TEST(ModelConfig, DefaultThatIsBlamedIsCalledOne) {
  json text = text_config();
  text.erase("num_hidden_layers");
  expect_error(ErrorKind::invalid_argument, {"num_hidden_layers is absent, its default is 30"},
               [&] { parse(nested(text)); });
  text = text_config();
  text.erase("num_attention_heads");
  text["num_key_value_heads"] = 3;
  expect_error(ErrorKind::invalid_argument,
               {"8 attention heads", "num_attention_heads is absent, its default is 8"},
               [&] { parse(nested(text)); });
}

TEST(ModelConfig, NullSwitchesTheSoftcapOff) {
  EXPECT_EQ(parse(with({{"final_logit_softcapping", nullptr}})).final_logit_softcapping, 0.f);
}

TEST(ModelConfig, RefusesOtherModels) {
  const auto expect = [](const json& config, std::vector<std::string_view> parts) {
    parts.push_back("config.json");
    expect_error(ErrorKind::unsupported, parts, [&] { parse(config); });
  };
  expect({{"model_type", "gemma3"}}, {"\"gemma3\"", "gemma4"});
  expect({{"hidden_size", 64}}, {"model_type", "(absent)"});
  json other = nested(text_config());
  other["text_config"]["model_type"] = "gemma3_text";
  expect(other, {"text_config.model_type = \"gemma3_text\"", "must be \"gemma4_text\""});
  expect({{"model_type", "gemma4_assistant"}}, {"drafter", "can't run alone"});
  expect({{"model_type", "gemma4_unified_assistant"}}, {"drafter", "can't run alone"});
  expect({{"model_type", "gemma4_vision"}}, {"\"gemma4_vision\""});
  expect({{"model_type", "gemma4"}, {"architectures", {"Gemma4ForSequenceClassification"}}},
         {"Gemma4ForSequenceClassification", "Gemma4ForCausalLM"});
  json quantised = nested(text_config());
  quantised["quantization_config"] = {{"quant_method", "compressed-tensors"}};
  expect(quantised, {"quantization_config", "compressed-tensors", "bfloat16"});
  quantised.erase("quantization_config");
  quantised["quantization"] = {{"bits", 4}, {"group_size", 64}};
  expect(quantised, {"quantization", "an unnamed method"});
}

TEST(ModelConfig, RefusesWhatTheForwardPassLacks) {
  const auto expect = [](const json& changes, std::vector<std::string_view> parts) {
    expect_rejected(ErrorKind::unsupported, changes, std::move(parts));
  };
  expect({{"hidden_activation", "silu"}}, {"hidden_activation = \"silu\"", "gelu_pytorch_tanh"});
  expect({{"attention_bias", true}}, {"attention_bias = true"});
  expect({{"use_bidirectional_attention", "all"}}, {"use_bidirectional_attention = \"all\""});
  expect({{"rope_scaling", {{"rope_type", "yarn"}}}}, {"rope_scaling"});
  expect({{"quantization_config", {{"quant_method", "awq"}}}}, {"text_config.quantization_config", "awq"});
  expect({{"layer_types", {"chunked_attention"}}}, {"layer 0", "chunked_attention"});
  expect({{"num_kv_shared_layers", 10}}, {"all 10 layers", "drafter"});
  EXPECT_EQ(parse(with({{"use_bidirectional_attention", "vision"}})).layers.size(), 10u);
}

TEST(ModelConfig, RefusesUnknownRotaryEmbeddings) {
  const auto rope = [](const char* full) {
    return json{{"rope_parameters",
                 {{"full_attention", json::parse(full)}, {"sliding_attention", {{"rope_theta", 1e4}}}}}};
  };
  for (const char* type : {"linear", "yarn", "longrope", "spiral"}) {
    json entry{{"rope_type", type}, {"rope_theta", 1e6}, {"factor", 4.0}};
    expect_rejected(ErrorKind::unsupported, rope(entry.dump().c_str()),
                    {"text_config.rope_parameters.full_attention.rope_type", type});
  }
  expect_rejected(ErrorKind::unsupported, rope(R"({"type": "linear", "rope_theta": 1e6})"), {"linear"});
  expect_rejected(ErrorKind::unsupported,
                  rope(R"({"rope_type": "proportional", "rope_theta": 1e6, "factor": 8})"),
                  {"full_attention.factor = 8"});
  expect_rejected(ErrorKind::corrupt, rope("{}"), {"full_attention.rope_theta", "missing"});
  expect_rejected(ErrorKind::invalid_argument, rope(R"({"rope_theta": 0})"), {"rope_theta = 0"});
  expect_rejected(ErrorKind::invalid_argument,
                  rope(R"({"rope_type": "proportional", "rope_theta": 1, "partial_rotary_factor": 1.5})"),
                  {"partial_rotary_factor = 1.5"});
  expect_rejected(ErrorKind::corrupt, {{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 1e4}}}},
                  {"rope_parameters.sliding_attention", "missing"});
}

TEST(ModelConfig, ProportionalRotatesEverythingUnlessToldOtherwise) {
  json parameters = text_config()["rope_parameters"];
  parameters["full_attention"].erase("partial_rotary_factor");
  parameters["sliding_attention"]["partial_rotary_factor"] = 0.5;  // the default type has no use for it
  const ModelConfig c = parse(with({{"rope_parameters", parameters}}));
  EXPECT_EQ(c.full_rope.rotary_fraction, 1.f);
  EXPECT_EQ(c.sliding_rope.rotary_fraction, 1.f);
}

TEST(ModelConfig, RefusesImpossibleNumbers) {
  const std::vector<const char*> sizes{
      "hidden_size",    "num_hidden_layers",       "num_attention_heads",       "num_key_value_heads",
      "head_dim",       "global_head_dim",         "intermediate_size",         "vocab_size",
      "sliding_window", "max_position_embeddings", "vocab_size_per_layer_input"};
  for (const char* field : sizes) {
    for (const char* value :
         {"0", "-1", "4294967297", "99999999999999999999999", "9.5", "\"4\"", "true", "null", "[4]"}) {
      json config = with({{field, json::parse(value)}});
      SCOPED_TRACE(std::string(field) + " = " + value);
      EXPECT_THROW(parse(config), Error);
    }
    expect_rejected(ErrorKind::invalid_argument, {{field, -7}}, {field, "= -7", "must be from"});
  }
  expect_rejected(ErrorKind::invalid_argument, {{"head_dim", 15}}, {"layer 0", "head_dim = 15", "even"});
  expect_rejected(ErrorKind::invalid_argument, {{"num_key_value_heads", 3}},
                  {"4 attention heads", "3 key/value heads"});
  expect_rejected(ErrorKind::invalid_argument, {{"rms_norm_eps", 0}}, {"rms_norm_eps = 0"});
  expect_rejected(ErrorKind::invalid_argument, {{"rms_norm_eps", -1e-6}}, {"rms_norm_eps = -1e-06"});
  expect_rejected(ErrorKind::invalid_argument, {{"final_logit_softcapping", -30}},
                  {"final_logit_softcapping = -30"});
  expect_rejected(ErrorKind::invalid_argument, {{"hidden_size_per_layer_input", -8}},
                  {"hidden_size_per_layer_input"});
}

TEST(ModelConfig, RefusesLayersThatDoNotFitTogether) {
  expect_rejected(ErrorKind::invalid_argument, {{"num_hidden_layers", 9}},
                  {"layer_types = [10 values]", "is 9"});
  expect_rejected(ErrorKind::invalid_argument, {{"layer_types", json::array()}},
                  {"layer_types = [0 values]"});
  expect_rejected(ErrorKind::invalid_argument, {{"num_kv_shared_layers", 11}},
                  {"num_kv_shared_layers = 11", "0 to 10"});
  // Layer 9 is full, but no full layer comes before the first shared one.
  expect_rejected(ErrorKind::invalid_argument, {{"num_kv_shared_layers", 8}},
                  {"layer 2", "full_attention", "first 2 layers"});
}

TEST(ModelConfig, RefusesTokenIdsOutsideTheVocabulary) {
  for (const char* field : {"bos_token_id", "pad_token_id", "eos_token_id"}) {
    expect_rejected(ErrorKind::invalid_argument, {{field, 512}}, {field, "512", "511"});
    expect_rejected(ErrorKind::invalid_argument, {{field, -2}}, {field, "-2"});
  }
  expect_rejected(ErrorKind::invalid_argument, {{"eos_token_id", {1, 512}}}, {"eos_token_id", "512"});
  expect_rejected(ErrorKind::corrupt, {{"eos_token_id", "<eos>"}}, {"eos_token_id = \"<eos>\""});
}

TEST(ModelConfig, RefusesTextThatIsNotJson) {
  const auto expect = [](std::string_view text, std::vector<std::string_view> parts) {
    parts.push_back("config.json");
    expect_error(ErrorKind::corrupt, parts, [&] { parse_model_config(text, "config.json"); });
  };
  expect("", {"not valid JSON"});
  expect("{\n  \"rms_norm_eps\": NaN\n}", {"not valid JSON", "rms_norm_eps"});
  expect("{\"rms_norm_eps\": Infinity}", {"not valid JSON", "rms_norm_eps"});
  expect("{\"model_type\": \"gemma4\", \"text_config\": 5}", {"text_config = 5"});
  expect("{\"model_type\": \"gemma4\", \"text_config\": null}", {"text_config = null"});
  expect("{\"model_type\": 4}", {"model_type = 4"});
}

TEST(ModelConfig, LoadsFromADirectory) {
  const TempDirectory directory;
  expect_error(ErrorKind::not_found, {"config.json"}, [&] { load_model_config(directory.path()); });
  directory.write("config.json", nested(text_config()).dump());
  EXPECT_EQ(load_model_config(directory.path()).layers.size(), 10u);
}

json drafter_config() {
  json text = text_config();
  text["num_kv_shared_layers"] = text["num_hidden_layers"];
  text["hidden_size_per_layer_input"] = 0;
  text["use_double_wide_mlp"] = false;
  return {{"model_type", "gemma4_assistant"},
          {"architectures", {"Gemma4AssistantForCausalLM"}},
          {"text_config", text},
          {"backbone_hidden_size", 96}};
}

TEST(DrafterConfig, AllItsLayersReadAnotherModelsKv) {
  json config = drafter_config();
  for (const int shared : {10, 0}) {  // 0 means all, as in transformers
    config["text_config"]["num_kv_shared_layers"] = shared;
    const DrafterConfig c = parse_drafter_config(config.dump(), "config.json");
    EXPECT_EQ(c.text.layers.size(), 10u);
    for (const LayerConfig& layer : c.text.layers) EXPECT_EQ(layer.kv_donor, -1);
    EXPECT_EQ(c.backbone_hidden_size, 96);
    EXPECT_EQ(c.centroids, 2048);
    EXPECT_EQ(c.centroids_searched, 32);
  }
}

TEST(DrafterConfig, RefusesWhatADrafterIsNot) {
  const auto rejected = [](const char* field, const json& value, std::vector<std::string_view> parts) {
    json config = drafter_config();
    (config.contains(field) ? config : config["text_config"])[field] = value;
    expect_error(ErrorKind::unsupported, parts, [&] { parse_drafter_config(config.dump(), "config.json"); });
  };
  rejected("model_type", "gemma4", {"model_type", "not a drafter"});
  rejected("architectures", json::array({"Gemma4ForCausalLM"}), {"Gemma4AssistantForCausalLM"});
  rejected("hidden_size_per_layer_input", 8, {"hidden_size_per_layer_input", "must be 0"});
  rejected("use_double_wide_mlp", true, {"use_double_wide_mlp"});
  json some = drafter_config();
  some["text_config"]["num_kv_shared_layers"] = 3;
  expect_error(ErrorKind::invalid_argument, {"num_kv_shared_layers", "all of them"},
               [&] { parse_drafter_config(some.dump(), "config.json"); });
}

}  // namespace
}  // namespace carat
