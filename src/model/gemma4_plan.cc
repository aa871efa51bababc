// The only place that knows tensor names, shapes and how the sizes of Gemma 4 differ.
#include "model/gemma4_plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "model/tensor_reader.h"

namespace carat {
namespace {

int group_of(AttentionKind kind) { return kind == AttentionKind::full ? kFullGroup : kSlidingGroup; }

/// Fills the two groups and returns each layer's row in its group. Layers of a kind share one page shape, as
/// ModelConfig promises.
std::vector<int> assign_kv_rows(const ModelConfig& config, std::array<KvGroup, kKvGroups>& groups) {
  groups[kSlidingGroup].window = config.sliding_window;
  std::vector<int> rows(config.layers.size());
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    const LayerConfig& layer = config.layers[i];
    KvGroup& group = groups[static_cast<std::size_t>(group_of(layer.attention))];
    if (layer.kv_donor != static_cast<int>(i)) {
      rows[i] = rows[static_cast<std::size_t>(layer.kv_donor)];
      continue;
    }
    group.kv_heads = layer.kv_heads;
    group.head_dim = layer.head_dim;
    rows[i] = group.layers++;
  }
  return rows;
}

AttentionPlan make_attention(const ModelConfig& config, int index, int kv_row, TensorReader& tensors) {
  const LayerConfig& layer = config.layers[static_cast<std::size_t>(index)];
  const bool full = layer.attention == AttentionKind::full;
  const RopeConfig& rope = full ? config.full_rope : config.sliding_rope;
  const int64_t hidden = config.hidden_size, q_rows = int64_t{config.heads} * layer.head_dim,
                kv_rows = int64_t{layer.kv_heads} * layer.head_dim;
  const std::string at = "layers." + std::to_string(index) + ".self_attn.";
  AttentionPlan a{};
  a.heads = config.heads;
  a.kv_heads = layer.kv_heads;
  a.head_dim = layer.head_dim;
  a.window = full ? 0 : config.sliding_window;
  // The count of rotating pairs is truncated as in transformers' proportional rope.
  a.rope = {rope.theta, static_cast<int>(rope.rotary_fraction * static_cast<float>(layer.head_dim) / 2.f)};
  a.kv_group = group_of(layer.attention);
  a.kv_layer = kv_row;
  a.writes_kv = layer.kv_donor == index;
  a.q = tensors.matrix(at + "q_proj.weight", q_rows, hidden);
  a.q_norm = tensors.vector(at + "q_norm.weight", layer.head_dim);
  if (a.writes_kv) {
    a.k = tensors.matrix(at + "k_proj.weight", kv_rows, hidden);
    a.k_norm = tensors.vector(at + "k_norm.weight", layer.head_dim);
    if (!layer.k_eq_v) a.v = tensors.matrix(at + "v_proj.weight", kv_rows, hidden);
  }
  a.o = tensors.matrix(at + "o_proj.weight", hidden, q_rows);
  return a;
}

MoePlan make_moe(const ModelConfig& config, const std::string& at, TensorReader& tensors) {
  const int64_t hidden = config.hidden_size, experts = config.experts, width = config.moe_intermediate_size;
  MoePlan moe{};
  moe.experts = config.experts;
  moe.experts_per_token = config.experts_per_token;
  moe.intermediate_size = config.moe_intermediate_size;
  moe.router = tensors.matrix(at + "router.proj.weight", experts, hidden);
  moe.router_scale = tensors.vector(at + "router.scale", hidden);
  moe.expert_scale = tensors.vector(at + "router.per_expert_scale", experts);
  moe.gate_up = tensors.stacked_matrix(at + "experts.gate_up_proj", experts, 2 * width, hidden);
  moe.down = tensors.stacked_matrix(at + "experts.down_proj", experts, hidden, width);
  moe.post_dense = tensors.vector(at + "post_feedforward_layernorm_1.weight", hidden);
  moe.pre_experts = tensors.vector(at + "pre_feedforward_layernorm_2.weight", hidden);
  moe.post_experts = tensors.vector(at + "post_feedforward_layernorm_2.weight", hidden);
  return moe;
}

LayerPlan make_layer(const ModelConfig& config, int index, int kv_row, TensorReader& tensors) {
  const LayerConfig& layer = config.layers[static_cast<std::size_t>(index)];
  const int64_t hidden = config.hidden_size, ple_dim = config.hidden_size_per_layer_input;
  const std::string at = "layers." + std::to_string(index) + ".";
  LayerPlan l{};
  l.index = index;
  l.attention = make_attention(config, index, kv_row, tensors);
  l.post_attention = tensors.vector(at + "post_attention_layernorm.weight", hidden);
  l.pre_ffn = tensors.vector(at + "pre_feedforward_layernorm.weight", hidden);
  l.post_ffn = tensors.vector(at + "post_feedforward_layernorm.weight", hidden);
  l.intermediate_size = layer.intermediate_size;
  l.gate = tensors.matrix(at + "mlp.gate_proj.weight", layer.intermediate_size, hidden);
  l.up = tensors.matrix(at + "mlp.up_proj.weight", layer.intermediate_size, hidden);
  l.down = tensors.matrix(at + "mlp.down_proj.weight", hidden, layer.intermediate_size);
  if (config.experts > 0) l.moe = make_moe(config, at, tensors);
  if (ple_dim > 0) {
    l.per_layer = PerLayerPlan{tensors.matrix(at + "per_layer_input_gate.weight", ple_dim, hidden),
                               tensors.matrix(at + "per_layer_projection.weight", hidden, ple_dim),
                               tensors.vector(at + "post_per_layer_input_norm.weight", hidden)};
  }
  l.tail.scalar = tensors.vector(at + "layer_scalar", 1)[0];
  return l;
}

/// The layers, and the norms before, between and behind them.
void add_layers(const ModelConfig& config, const std::vector<int>& kv_rows, TensorReader& tensors,
                ModelPlan& plan) {
  const Vec final_norm = tensors.vector("norm.weight", config.hidden_size);
  for (int i = 0; i < static_cast<int>(config.layers.size()); ++i) {
    const Vec input_norm =
        tensors.vector("layers." + std::to_string(i) + ".input_layernorm.weight", config.hidden_size);
    (i == 0 ? plan.first_norm : plan.layers.back().tail.next_norm) = input_norm;
    plan.layers.push_back(make_layer(config, i, kv_rows[static_cast<std::size_t>(i)], tensors));
    if (plan.layers.back().attention.writes_kv) plan.last_kv_layer = i;
  }
  plan.layers.back().tail.next_norm = final_norm;
}

void add_per_layer_inputs(const ModelConfig& config, TensorReader& tensors, ModelPlan& plan) {
  plan.ple_dim = config.hidden_size_per_layer_input;
  if (plan.ple_dim == 0) return;
  const int64_t width = int64_t{plan.ple_dim} * static_cast<int64_t>(config.layers.size());
  plan.ple_embed_scale = std::sqrt(static_cast<float>(plan.ple_dim));
  plan.ple_table = tensors.matrix("embed_tokens_per_layer.weight", config.vocab_size_per_layer_input, width);
  plan.ple_project = tensors.matrix("per_layer_model_projection.weight", width, plan.d_model);
  plan.ple_norm = tensors.vector("per_layer_projection_norm.weight", plan.ple_dim);
}

/// The head: transformers uses a stored lm_head even where the config says tied, and so do we.
Linear make_head(const ModelConfig& config, TensorReader& tensors, const Linear& embed,
                 const Checkpoint& checkpoint) {
  if (const Tensor* head = tensors.find_head())
    return tensors.head(*head, config.vocab_size, config.hidden_size);
  if (config.tie_word_embeddings) return embed;
  fail(ErrorKind::corrupt, checkpoint.directory().string(),
       ": config.json says tie_word_embeddings is false, but ", "there is no tensor lm_head.weight");
}

}  // namespace

int32_t ModelPlan::embedding_row(int32_t token, const Linear& table) const {
  if (std::find(soft_tokens.begin(), soft_tokens.end(), token) != soft_tokens.end()) token = pad_token;
  return token < table.rows ? token : 0;
}

ModelPlan make_plan(const ModelConfig& config, std::shared_ptr<const Checkpoint> checkpoint) {
  auto storage = std::make_shared<PlanStorage>();
  storage->checkpoint = checkpoint;
  TensorReader tensors(*checkpoint, *storage);
  ModelPlan plan{};
  plan.d_model = config.hidden_size;
  plan.vocab = config.vocab_size;
  plan.max_positions = config.max_position_embeddings;
  plan.norm_eps = config.rms_norm_eps;
  // Not rounded to bf16: the reference is transformers in float32, where the factor is float32 too.
  plan.embed_scale = std::sqrt(static_cast<float>(config.hidden_size));
  plan.logit_cap = config.final_logit_softcapping;
  plan.soft_tokens.assign(config.soft_token_ids.begin(), config.soft_token_ids.end());
  plan.pad_token = std::max(0, config.pad_token_id);
  plan.embed = tensors.matrix("embed_tokens.weight", config.vocab_size, config.hidden_size);
  plan.head = make_head(config, tensors, plan.embed, *checkpoint);
  add_per_layer_inputs(config, tensors, plan);
  const std::vector<int> kv_rows = assign_kv_rows(config, plan.kv_groups);
  add_layers(config, kv_rows, tensors, plan);
  tensors.expect_all_read(config);
  plan.storage = std::move(storage);
  return plan;
}

namespace {

void require_match(const Checkpoint& checkpoint, const char* what, int64_t drafter, int64_t target) {
  if (drafter == target) return;
  fail(ErrorKind::invalid_argument, checkpoint.directory().string(), ": a drafter for a model whose ", what,
       " is ", drafter, "; this model's is ", target);
}

/// Lets the layer read the target's K/V. Its own idea of the number of K/V heads has no tensors to show for
/// it, so the target's counts.
void read_kv_of(const ModelPlan& target, const Checkpoint& checkpoint, AttentionPlan& a) {
  const KvGroup& kv = target.kv_groups[static_cast<std::size_t>(a.kv_group)];
  const char* kind = a.kv_group == kFullGroup ? "full" : "sliding";
  require_match(checkpoint, "head size", a.head_dim, kv.layers > 0 ? kv.head_dim : 0);
  if (a.heads % kv.kv_heads != 0) {
    fail(ErrorKind::invalid_argument, checkpoint.directory().string(), ": ", a.heads,
         " attention heads can't share this model's ", kv.kv_heads, " K/V heads of ", kind, " attention");
  }
  a.kv_heads = kv.kv_heads;
  a.kv_layer = kv.layers - 1;
  if (kv.window == 1)
    fail(ErrorKind::unsupported, checkpoint.directory().string(), ": a drafter needs a window of 2 or more");
  a.window = kv.window > 0 ? kv.window - 1 : 0;
}

OrderedHead make_ordered_head(const DrafterConfig& config, const Checkpoint& checkpoint,
                              const TensorReader& tensors, const Linear& embed) {
  const Tensor* order = checkpoint.find("masked_embedding.token_ordering");
  if (!order) return {};
  const int64_t vocab = config.text.vocab_size, clusters = config.centroids;
  const std::string where = checkpoint.path(*order) + ": tensor " + in_quotes(order->name);
  if (order->dtype != DType::i64 || order->shape != std::vector{vocab})
    fail(ErrorKind::corrupt, where, " must hold ", vocab, " numbers of 64 bits");
  if (vocab % clusters != 0 || config.centroids_searched > clusters) {
    fail(ErrorKind::invalid_argument, checkpoint.directory().string(), ": ", vocab, " tokens and the best ",
         config.centroids_searched, " of ", clusters, " centroids don't go together");
  }
  OrderedHead head;
  head.centroids = tensors.whole_name("masked_embedding.centroids.weight", clusters, config.text.hidden_size);
  head.embed = embed;
  head.searched = config.centroids_searched;
  for (int64_t i = 0; i < vocab; ++i) {
    int64_t token = 0;
    std::memcpy(&token, order->bytes.data() + i * static_cast<int64_t>(sizeof token), sizeof token);
    if (token < 0 || token >= vocab) fail(ErrorKind::corrupt, where, " holds ", token, " at ", i);
    head.tokens.push_back(static_cast<int32_t>(token));
  }
  return head;
}

}  // namespace

std::shared_ptr<const DrafterPlan> make_drafter_plan(const ModelPlan& target, const DrafterConfig& config,
                                                     std::shared_ptr<const Checkpoint> checkpoint) {
  require_match(*checkpoint, "hidden_size", config.backbone_hidden_size, target.d_model);
  require_match(*checkpoint, "vocab_size", config.text.vocab_size, target.vocab);
  auto storage = std::make_shared<PlanStorage>();
  storage->checkpoint = checkpoint;
  TensorReader tensors(*checkpoint, *storage);
  auto drafter = std::make_shared<DrafterPlan>();
  const int64_t hidden = config.text.hidden_size;
  drafter->pre = tensors.whole_name("pre_projection.weight", hidden, 2 * int64_t{target.d_model});
  drafter->post = tensors.whole_name("post_projection.weight", target.d_model, hidden);
  ModelPlan& plan = drafter->model;
  plan.d_model = config.text.hidden_size;
  plan.vocab = config.text.vocab_size;
  plan.max_positions = target.max_positions;
  plan.norm_eps = config.text.rms_norm_eps;
  plan.kv_groups = target.kv_groups;
  plan.last_kv_layer = -1;
  add_layers(config.text, std::vector<int>(config.text.layers.size()), tensors, plan);
  for (LayerPlan& l : plan.layers) read_kv_of(target, *checkpoint, l.attention);
  const Linear embed = tensors.matrix("embed_tokens.weight", plan.vocab, hidden);
  drafter->ordered = make_ordered_head(config, *checkpoint, tensors, embed);
  if (!drafter->ordered.centroids) plan.head = embed;
  tensors.expect_all_read(config.text);
  plan.storage = std::move(storage);
  return drafter;
}

namespace {

/// Calls visit(role, linear) for every matrix that is there, in the order in which a step reads them, the
/// tables last.
template <class Plan, class Visit>
void visit_linears(Plan& plan, const Visit& visit) {
  const auto visit_present = [&](const char* role, auto& linear) {
    if (linear) visit(role, linear);
  };
  visit_present("ple_project", plan.ple_project);
  for (auto& l : plan.layers) {
    visit_present("q", l.attention.q);
    visit_present("k", l.attention.k);
    visit_present("v", l.attention.v);
    visit_present("o", l.attention.o);
    visit_present("gate", l.gate);
    visit_present("up", l.up);
    visit_present("down", l.down);
    if (l.moe) {
      visit_present("router", l.moe->router);
      visit_present("experts_gate_up", l.moe->gate_up);
      visit_present("experts_down", l.moe->down);
    }
    if (l.per_layer) {
      visit_present("ple_gate", l.per_layer->gate);
      visit_present("ple_proj", l.per_layer->proj);
    }
  }
  visit_present("head", plan.head);
  visit_present("ple_table", plan.ple_table);
  visit_present("embed", plan.embed);
}

}  // namespace

void for_each_linear(ModelPlan& plan, const std::function<void(const char* role, Linear& linear)>& visit) {
  visit_linears(plan, visit);
}

std::size_t bytes_per_token(const ModelPlan& plan) {
  std::size_t total = 0;
  visit_linears(plan, [&](std::string_view role, const Linear& w) {
    if (role == "ple_table" || role == "embed") {
      total += size_bytes(slice_rows(w, 0, 1));
    } else if (role.starts_with("experts_")) {
      const MoePlan& moe = *plan.layers.front().moe;
      total += size_bytes(w) / static_cast<std::size_t>(moe.experts) *
               static_cast<std::size_t>(moe.experts_per_token);
    } else {
      total += size_bytes(w);
    }
  });
  return total;
}

std::size_t kv_bytes_per_token(const ModelPlan& plan, std::size_t element_bytes, std::size_t scale_bytes) {
  const KvGroup& full = plan.kv_groups[kFullGroup];
  const auto heads = static_cast<std::size_t>(int64_t{full.layers} * full.kv_heads);
  return 2 * heads * (element_bytes * static_cast<std::size_t>(full.head_dim) + scale_bytes);
}

std::string describe_row(const ModelPlan& plan, const Linear& w, int64_t row) {
  const std::size_t bytes = row_bytes(w.format, w.cols);
  const std::byte* at = w.data + bytes * static_cast<std::size_t>(row);
  const auto* storage = static_cast<const PlanStorage*>(plan.storage.get());
  if (!storage) return "row " + std::to_string(row);  // a plan made by hand
  const Checkpoint& checkpoint = *storage->checkpoint;
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    const std::byte* first = tensor.bytes.data();
    if (std::less<>()(at, first) || !std::less<>()(at, first + tensor.bytes.size())) continue;
    const auto stored_row = static_cast<std::size_t>(at - first) / bytes;  // w may be a slice
    return checkpoint.path(tensor) + ": tensor " + in_quotes(name) + ", row " + std::to_string(stored_row);
  }
  return "row " + std::to_string(row);
}

}  // namespace carat
