// A Gemma 4 of a few thousand random weights, so that a test can run many thousand steps of the real model:
// full and sliding layers with K/V of their own and shared, two head sizes, grouped queries, and a drafter.
#pragma once
#include <cmath>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/random.h"
#include "model/drafter.h"
#include "model/gemma4.h"

namespace carat {

class TinyPlan {
 public:
  static ModelPlan make(int vocab, int window, uint64_t seed) { return TinyPlan(vocab, window, seed).plan_; }

 private:
  static constexpr int kDModel = 16, kHeads = 2, kFfn = 32;

  TinyPlan(int vocab, int window, uint64_t seed) : seed_(seed), weights_(std::make_shared<Weights>()) {
    plan_.d_model = kDModel;
    plan_.vocab = vocab;
    plan_.max_positions = 4096;
    plan_.norm_eps = 1e-6f;
    plan_.embed_scale = std::sqrt(static_cast<float>(kDModel));
    plan_.logit_cap = 30.f;
    plan_.embed = plan_.head = matrix(vocab, kDModel, 1.f);
    plan_.first_norm = gains(kDModel);
    plan_.kv_groups = {KvGroup{1, 1, 16, 0}, KvGroup{2, 1, 8, window}};
    plan_.last_kv_layer = 2;
    add_layer(plan_, kSlidingGroup, 0, true);
    add_layer(plan_, kFullGroup, 0, true);
    add_layer(plan_, kSlidingGroup, 1, true);
    add_layer(plan_, kFullGroup, 0, false);
    add_layer(plan_, kSlidingGroup, 1, false);
    add_drafter();
    plan_.storage = weights_;
  }

  void add_drafter() {
    auto drafter = std::make_shared<DrafterPlan>();
    ModelPlan& small = drafter->model;
    small.d_model = kDModel;
    small.vocab = plan_.vocab;
    small.norm_eps = plan_.norm_eps;
    small.kv_groups = plan_.kv_groups;
    small.last_kv_layer = -1;
    small.head = plan_.embed;
    small.first_norm = gains(kDModel);
    add_layer(small, kSlidingGroup, 1, false);
    --small.layers.back().attention.window;
    add_layer(small, kFullGroup, 0, false);
    drafter->pre = matrix(kDModel, 2 * kDModel, 1.f);
    drafter->post = matrix(kDModel, kDModel, 1.f);
    plan_.drafter = drafter;
  }

  void add_layer(ModelPlan& plan, int group, int kv_layer, bool writes_kv) {
    const KvGroup& kv = plan.kv_groups[group];
    const int d = kv.head_dim;
    LayerPlan l{};
    l.index = static_cast<int>(plan.layers.size());
    AttentionPlan& a = l.attention;
    a = {kHeads, kv.kv_heads, d,         kv.window, {1e4f, group == kFullGroup ? d / 8 : d / 2},
         group,  kv_layer,    writes_kv, {},        {},
         {},     {},          {},        {}};
    a.q = matrix(kHeads * d, kDModel, 1.f);
    a.o = matrix(kDModel, kHeads * d, 1.f);
    a.q_norm = gains(d);
    if (writes_kv) {
      a.k = matrix(kv.kv_heads * d, kDModel, 1.f);
      a.v = matrix(kv.kv_heads * d, kDModel, 1.f);
      a.k_norm = gains(d);
    }
    l.post_attention = gains(kDModel);
    l.pre_ffn = gains(kDModel);
    l.post_ffn = gains(kDModel);
    l.intermediate_size = kFfn;
    l.gate = matrix(kFfn, kDModel, 1.f);
    l.up = matrix(kFfn, kDModel, 1.f);
    l.down = matrix(kDModel, kFfn, 1.f);
    l.tail = {0.9f, gains(kDModel)};
    plan.layers.push_back(l);
  }

  using Weights = std::deque<std::vector<float>>;

  std::vector<float>& numbers(std::size_t count, float centre, float spread) {
    std::vector<float>& values = weights_->emplace_back(count);
    for (float& value : values) value = centre + spread * (2.f * random_uniform(seed_, counter_++) - 1.f);
    return values;
  }
  Linear matrix(int64_t rows, int64_t cols, float scale) {
    const float spread = scale * std::sqrt(3.f / static_cast<float>(cols));
    const auto& values = numbers(static_cast<std::size_t>(rows * cols), 0.f, spread);
    return {WeightFormat::f32, rows, cols, reinterpret_cast<const std::byte*>(values.data())};
  }
  Vec gains(int size) { return numbers(static_cast<std::size_t>(size), 1.f, 0.3f); }

  uint64_t seed_, counter_ = 0;
  std::shared_ptr<Weights> weights_;
  ModelPlan plan_{};
};

}  // namespace carat
