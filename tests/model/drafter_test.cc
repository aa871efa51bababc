// Plans of drafters, and what is said of those that don't fit.
#include "model/drafter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"
#include "model/gemma4_plan.h"
#include "support/golden.h"

namespace carat {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string failure(const std::string& model, const std::string& drafter,
                    const std::function<void(ModelPlan&, DrafterConfig&)>& edit = {}) {
  try {
    ModelPlan target = load_test_plan(model);
    DrafterConfig config = load_drafter_config(test_checkpoint(drafter));
    if (edit) edit(target, config);
    make_drafter_plan(target, config, Checkpoint::open(test_checkpoint(drafter)));
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(DrafterPlan, ReadsTheKvOfTheTargetsLastOwners) {
  const ModelPlan target = load_drafting_plan("tiny");
  const DrafterPlan& drafter = *target.drafter;
  ASSERT_EQ(drafter.model.layers.size(), 4u);
  for (const LayerPlan& l : drafter.model.layers) {
    const AttentionPlan& a = l.attention;
    const KvGroup& kv = target.kv_groups[static_cast<std::size_t>(a.kv_group)];
    EXPECT_FALSE(a.writes_kv);
    EXPECT_EQ(a.kv_layer, kv.layers - 1);
    EXPECT_EQ(a.head_dim, kv.head_dim);
    EXPECT_EQ(a.kv_heads, kv.kv_heads);
    EXPECT_EQ(a.window, kv.window > 0 ? kv.window - 1 : 0) << "its own token is in the window and has no K/V";
  }
  EXPECT_EQ(drafter.model.layers[3].attention.kv_group, kFullGroup);
  EXPECT_FALSE(drafter.model.head);
  EXPECT_EQ(drafter.ordered.cluster_size(), 16);
  EXPECT_EQ(drafter.ordered.searched, 8);
}

TEST(DrafterPlan, WithoutCentroidsTheHeadIsDense) {
  const ModelPlan target = load_drafting_plan("tiny-dense");
  EXPECT_TRUE(target.drafter->model.head);
  EXPECT_FALSE(target.drafter->ordered.centroids);
}

TEST(DrafterPlan, OfAnotherModelIsRefused) {
  EXPECT_THAT(failure("tiny", "tiny-drafter",
                      [](ModelPlan&, DrafterConfig& config) { config.backbone_hidden_size = 1536; }),
              HasSubstr("a drafter for a model whose hidden_size is 1536; this model's is 64"));
  EXPECT_THAT(failure("tiny", "tiny-drafter", [](ModelPlan& target, DrafterConfig&) { target.vocab = 500; }),
              HasSubstr("vocab_size is 512; this model's is 500"));
  EXPECT_THAT(failure("tiny", "tiny-drafter",
                      [](ModelPlan& target, DrafterConfig&) { target.kv_groups[kFullGroup].head_dim = 64; }),
              HasSubstr("head size is 32; this model's is 64"));
  EXPECT_THAT(
      failure("tiny", "tiny-drafter",
              [](ModelPlan& target, DrafterConfig&) { target.kv_groups[kSlidingGroup].kv_heads = 3; }),
      HasSubstr("4 attention heads can't share this model's 3 K/V heads of sliding attention"));
  EXPECT_THAT(
      failure("tiny", "tiny-drafter", [](ModelPlan&, DrafterConfig& config) { config.centroids = 31; }),
      HasSubstr("512 tokens and the best 8 of 31 centroids don't go together"));
  EXPECT_THAT(failure("tiny", "tiny-drafter",
                      [](ModelPlan&, DrafterConfig& config) { config.text.layers.pop_back(); }),
              HasSubstr("has no use for tensor"));
  EXPECT_THAT(failure("tiny", "tiny"), HasSubstr("not a drafter for Gemma 4"));
}

TEST(OrderedHead, LooksAtTheTokensOfTheBestCentroids) {
  const OrderedHead head{
      .centroids = {.rows = 3}, .embed = {.rows = 6}, .tokens = {4, 0, 2, 5, 1, 3}, .searched = 2};
  EXPECT_THAT(candidates(head, std::vector{0.f, 2.f, 1.f}), ElementsAre(2, 5, 1, 3));
  EXPECT_THAT(candidates(head, std::vector{1.f, 1.f, 1.f}), ElementsAre(4, 0, 2, 5));
  EXPECT_EQ(likeliest_of(std::vector{4, 0, 2}, std::vector{1.f, 3.f, 3.f}), 0) << "the lower one of equals";
}

}  // namespace
}  // namespace carat
