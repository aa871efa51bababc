#include "model/operations.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/golden.h"

namespace carat {
namespace {

/// Counted token by token and layer by layer, as forward() goes.
double counted(const ModelPlan& plan, int tokens) {
  double sum = 0;
  const auto multiply = [&](const Linear& w) { sum += 2. * static_cast<double>(w.rows * w.cols); };
  for (int t = 0; t < tokens; ++t) {
    const bool last = t == tokens - 1;
    for (const LayerPlan& l : plan.layers) {
      if (l.index > plan.last_kv_layer && !last) break;
      const AttentionPlan& a = l.attention;
      for (const Linear* w : {&a.q, &a.k, &a.v}) multiply(*w);
      if (l.index == plan.last_kv_layer && !last) break;
      if (plan.ple_dim > 0) sum += 2. * plan.ple_dim * plan.d_model;
      const int keys = a.window > 0 ? std::min(t + 1, a.window) : t + 1;
      sum += 4. * a.heads * a.head_dim * keys;
      for (const Linear* w : {&a.o, &l.gate, &l.up, &l.down}) multiply(*w);
      if (l.per_layer) {
        multiply(l.per_layer->gate);
        multiply(l.per_layer->proj);
      }
      if (!l.moe) continue;
      multiply(l.moe->router);
      sum += 2. * l.moe->experts_per_token * 3 * l.moe->intermediate_size * plan.d_model;
    }
  }
  multiply(plan.head);
  return sum;
}

TEST(PromptOperations, AreThoseOfForward) {
  for (const char* model : {"tiny", "tiny-dense", "tiny-moe"}) {
    const ModelPlan plan = load_test_plan(model);
    for (const int tokens : {1, 2, 15, 16, 17, 60})
      EXPECT_DOUBLE_EQ(prompt_operations(plan, tokens), counted(plan, tokens)) << model << ", " << tokens;
  }
}

}  // namespace
}  // namespace carat
