// Plans of real checkpoints, and of the same checkpoints edited into every layout that is in use.
#include "model/gemma4_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"
#include "io/checkpoint_writer.h"
#include "support/golden.h"
#include "support/temp_directory.h"

namespace carat {
namespace {

/// The checkpoint tests/data/<base> with its list of tensors edited.
class EditedPlan : public testing::Test {
 protected:
  using Tensors = std::vector<TensorToWrite>;

  ModelPlan plan(const std::string& base, const std::function<void(Tensors&)>& edit, bool tied = true) {
    const auto original = Checkpoint::open(test_checkpoint(base));
    Tensors tensors;
    for (const auto& [key, tensor] : original->tensors()) {
      tensors.push_back({key,
                         tensor.dtype_name,
                         tensor.shape,
                         {reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()}});
    }
    edit(tensors);
    directory_.write("model.safetensors", safetensors_file(tensors));
    ModelConfig config = load_model_config(test_checkpoint(base));
    config.tie_word_embeddings = tied;
    return make_plan(config, Checkpoint::open(directory_.path()));
  }

  std::string failure(const std::string& base, const std::function<void(Tensors&)>& edit, bool tied = true) {
    try {
      plan(base, edit, tied);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  static TensorToWrite& find(Tensors& tensors, std::string_view suffix) {
    for (TensorToWrite& tensor : tensors) {
      if (tensor.name.ends_with(suffix)) return tensor;
    }
    throw std::runtime_error("no such tensor in the test's checkpoint");
  }

  static void rename_prefix(Tensors& tensors, std::string_view prefix) {
    constexpr std::string_view kOld = "model.language_model.";
    for (TensorToWrite& tensor : tensors) tensor.name = std::string(prefix) + tensor.name.substr(kOld.size());
  }

  TempDirectory directory_;
};

TEST_F(EditedPlan, EveryPrefixInUseIsFound) {
  for (const char* prefix : {"model.language_model.", "language_model.model.", "model.", ""}) {
    EXPECT_EQ(plan("tiny", [&](Tensors& t) { rename_prefix(t, prefix); }).layers.size(), 10u) << prefix;
  }
  EXPECT_THAT(failure("tiny", [&](Tensors& t) { rename_prefix(t, "decoder."); }),
              testing::HasSubstr("embed_tokens.weight"));
}

TEST_F(EditedPlan, KeysAndValuesOfSharingLayersMayBeAbsent) {
  const ModelPlan p = plan("tiny", [](Tensors& tensors) {
    std::erase_if(tensors, [](const TensorToWrite& t) {
      const bool sharing = t.name.find("layers.5.") != t.name.npos || t.name.find("layers.9.") != t.name.npos;
      return sharing && (t.name.find("k_proj") != t.name.npos || t.name.find("v_proj") != t.name.npos ||
                         t.name.find("k_norm") != t.name.npos);
    });
  });
  EXPECT_FALSE(p.layers[5].attention.writes_kv);
  EXPECT_FALSE(p.layers[5].attention.k);
}

TEST_F(EditedPlan, TensorsOfOtherTowersAreLeftAlone) {
  const ModelPlan p = plan("tiny", [](Tensors& tensors) {
    tensors.push_back({"model.vision_tower.patch_embedder.weight", "F32", {1}, std::string(4, '\0')});
  });
  EXPECT_EQ(p.layers.size(), 10u);
}

TEST_F(EditedPlan, HeadIsTheEmbeddingUnlessTheCheckpointHasOne) {
  const ModelPlan tied = plan("tiny", [](Tensors&) {});
  EXPECT_EQ(tied.head.data, tied.embed.data);
  const auto add_head = [](Tensors& tensors) {
    TensorToWrite head = find(tensors, "embed_tokens.weight");
    head.name = "lm_head.weight";
    tensors.push_back(head);
  };
  for (bool says_tied : {false, true}) {
    const ModelPlan separate = plan("tiny", add_head, says_tied);
    EXPECT_NE(separate.head.data, separate.embed.data);
    EXPECT_EQ(separate.head.rows, 512);
  }
  EXPECT_THAT(failure("tiny", [](Tensors&) {}, false), testing::HasSubstr("lm_head.weight"));
}

TEST_F(EditedPlan, MissingTensorIsNamedWithItsShape) {
  EXPECT_THAT(failure("tiny",
                      [](Tensors& t) {
                        std::erase_if(
                            t, [](const auto& x) { return x.name.ends_with("layers.3.mlp.up_proj.weight"); });
                      }),
              testing::AllOf(testing::HasSubstr("layers.3.mlp.up_proj.weight"),
                             testing::HasSubstr("[128, 64]"), testing::HasSubstr("missing")));
}

TEST_F(EditedPlan, WrongShapeIsNamedWithBothShapes) {
  EXPECT_THAT(
      failure("tiny", [](Tensors& t) { find(t, "layers.3.mlp.up_proj.weight").shape = {64, 128}; }),
      testing::AllOf(testing::HasSubstr("layers.3.mlp.up_proj.weight"), testing::HasSubstr("[64, 128]"),
                     testing::HasSubstr("[128, 64]"), testing::HasSubstr("model.safetensors")));
}

TEST_F(EditedPlan, TextTensorThatTheConfigHasNoUseForIsNamed) {
  const std::string extra = failure("tiny", [](Tensors& tensors) {
    for (const char* suffix : {"layers.0.mlp.down_proj.weight", "layers.0.mlp.up_proj.weight"}) {
      TensorToWrite copy = find(tensors, suffix);
      copy.name.replace(copy.name.find("layers.0."), 9, "layers.10.");
      tensors.push_back(copy);
    }
  });
  EXPECT_THAT(extra, testing::AllOf(testing::HasSubstr("model.safetensors"),
                                    testing::HasSubstr("layers.10.mlp.down_proj.weight\" and of 1 more"),
                                    testing::HasSubstr("config.json")));
}

TEST(Plan, ConfigThatLeavesOutAPartOfTheCheckpointIsRefused) {
  const auto refused = [](const char* base, const std::function<void(ModelConfig&)>& edit) {
    ModelConfig config = load_model_config(test_checkpoint(base));
    edit(config);
    try {
      make_plan(config, Checkpoint::open(test_checkpoint(base)));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  const auto names = [](const char* tensor) { return testing::HasSubstr(tensor); };
  EXPECT_THAT(refused("tiny", [](ModelConfig& c) { c.hidden_size_per_layer_input = 0; }),
              names("embed_tokens_per_layer.weight"));
  EXPECT_THAT(refused("tiny-dense", [](ModelConfig& c) { c.layers.pop_back(); }), names("layers."));
  EXPECT_THAT(refused("tiny-moe", [](ModelConfig& c) { c.experts = 0; }), names("experts.down_proj"));
  const auto every_layer_shares = [](ModelConfig& c) {
    for (LayerConfig& layer : c.layers) layer.k_eq_v = true;
  };
  EXPECT_THAT(refused("tiny-dense", every_layer_shares), names("v_proj.weight"));
}

TEST_F(EditedPlan, VectorWithAValueThatIsNotFiniteIsRefused) {
  const std::string message = failure("tiny", [](Tensors& tensors) {
    TensorToWrite& norm = find(tensors, "layers.3.self_attn.q_norm.weight");
    norm.bytes.replace(4, 2, "\x80\x7f", 2);  // the third bf16
  });
  EXPECT_THAT(message, testing::AllOf(testing::HasSubstr("model.safetensors"), testing::HasSubstr("inf at 2"),
                                      testing::HasSubstr("layers.3.self_attn.q_norm.weight")));
}

TEST_F(EditedPlan, IntegerWeightsAreRefused) {
  EXPECT_THAT(failure("tiny", [](Tensors& t) { find(t, "layers.3.mlp.up_proj.weight").dtype = "I16"; }),
              testing::AllOf(testing::HasSubstr("layers.3.mlp.up_proj.weight"), testing::HasSubstr("I16")));
}

TEST(Plan, SharingLayersReadTheLastOwnerOfTheirKind) {
  const ModelPlan p = load_test_plan("tiny");  // (4 sliding, 1 full) twice; the last 5 layers share
  EXPECT_EQ(p.last_kv_layer, 4);
  EXPECT_EQ(p.kv_groups[kSlidingGroup].layers, 4);
  EXPECT_EQ(p.kv_groups[kSlidingGroup].window, 16);
  EXPECT_EQ(p.kv_groups[kFullGroup].layers, 1);
  for (int i = 5; i < 9; ++i) EXPECT_EQ(p.layers[static_cast<std::size_t>(i)].attention.kv_layer, 3);
  EXPECT_EQ(p.layers[9].attention.kv_layer, 0);
  EXPECT_EQ(p.layers[4].intermediate_size, 128);
  EXPECT_EQ(p.layers[5].intermediate_size, 256);  // double wide
}

TEST(Plan, FullLayersRotateAQuarterOfTheirPairs) {
  const ModelPlan p = load_test_plan("tiny");
  EXPECT_EQ(p.layers[0].attention.rope.rotary_pairs, 8);  // head_dim 16, all pairs
  EXPECT_EQ(p.layers[4].attention.rope.rotary_pairs, 4);  // head_dim 32, a quarter of 16
  EXPECT_EQ(p.layers[4].attention.rope.theta, 1e6f);
}

TEST(Plan, KEqualsVOnFullLayersOnly) {
  const ModelPlan p = load_test_plan("tiny-dense");
  EXPECT_TRUE(p.layers[0].attention.v);
  EXPECT_FALSE(p.layers[5].attention.v);
  EXPECT_TRUE(p.layers[5].attention.k);
  EXPECT_EQ(p.kv_groups[kFullGroup].kv_heads, 1);
  EXPECT_EQ(p.kv_groups[kSlidingGroup].kv_heads, 2);
  EXPECT_EQ(p.last_kv_layer, 5);
}

TEST(Plan, EveryLayerHandsOnTheNextLayersNorm) {
  const ModelPlan p = load_test_plan("tiny");
  for (const LayerPlan& l : p.layers) EXPECT_EQ(l.tail.next_norm.size(), 64u);
  EXPECT_NE(p.layers[8].tail.next_norm.data(), p.layers[9].tail.next_norm.data());
}

TEST(Plan, BytesPerTokenCountOnlyTheChosenExperts) {
  const auto linear_bytes = [](ModelPlan p) {
    std::size_t total = 0;
    for_each_linear(p, [&](const char* role, Linear& w) {
      const std::string_view r = role;
      if (r == "embed")
        total += row_bytes(w.format, w.cols);
      else if (r.starts_with("experts"))
        total += size_bytes(w) * 2 / 8;  // 2 of 8
      else
        total += size_bytes(w);
    });
    return total;
  };
  const ModelPlan moe = load_test_plan("tiny-moe");
  EXPECT_EQ(bytes_per_token(moe), linear_bytes(moe));
}

TEST(Plan, PlaceholdersReadThePaddingRow) {
  ModelPlan p = load_test_plan("tiny");
  p.soft_tokens = {100, 101};
  p.pad_token = 7;
  EXPECT_EQ(p.embedding_row(99, p.embed), 99);
  EXPECT_EQ(p.embedding_row(101, p.embed), 7);
  EXPECT_EQ(p.embedding_row(600, p.ple_table), 0);  // beyond the table's 512 rows
}

}  // namespace
}  // namespace carat
