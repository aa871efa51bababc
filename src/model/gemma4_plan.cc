// The only place that knows tensor names, shapes and how the sizes of Gemma 4 differ.
#include "model/gemma4_plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"

namespace carat {
namespace {

// Prefixes in use: multimodal checkpoints, older multimodal exports, text-only ones, bare state dicts.
constexpr std::array<std::string_view, 4> kPrefixes{"model.language_model.", "language_model.model.",
                                                    "model.", ""};
// What write_quantized_checkpoint() appends to the name of a matrix.
constexpr std::array<std::pair<std::string_view, WeightFormat>, 2> kQuantized{
    {{".int8", WeightFormat::int8}, {".int4", WeightFormat::int4}}};
constexpr std::array<std::string_view, 4> kHeadNames{"lm_head.weight", "language_model.lm_head.weight",
                                                     "model.lm_head.weight",
                                                     "model.language_model.lm_head.weight"};

struct PlanStorage {
  std::shared_ptr<const Checkpoint> checkpoint;
  std::vector<std::unique_ptr<float[]>> vectors;
};

WeightFormat weight_format(const Tensor& tensor, const Checkpoint& checkpoint) {
  for (const auto& [suffix, format] : kQuantized) {
    if (tensor.dtype == DType::u8 && tensor.name.ends_with(suffix)) return format;
  }
  switch (tensor.dtype) {
    case DType::f32:
      return WeightFormat::f32;
    case DType::f16:
      return WeightFormat::f16;
    case DType::bf16:
      return WeightFormat::bf16;
    default:
      fail(ErrorKind::unsupported, checkpoint.path(tensor), ": tensor ", in_quotes(tensor.name),
           " has dtype ", in_quotes(tensor.dtype_name), "; weights may be BF16, F16 or F32");
  }
}

std::string shape_text(std::span<const int64_t> shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

/// Typed, shape-checked access to the tensors under the checkpoint's prefix.
class TensorReader {
 public:
  TensorReader(const Checkpoint& checkpoint, PlanStorage& storage)
      : checkpoint_(checkpoint), storage_(storage) {
    for (std::string_view prefix : kPrefixes) {
      prefix_ = prefix;
      if (find(prefix_ + "embed_tokens.weight")) return;
    }
    fail(ErrorKind::corrupt, checkpoint.directory().string(),
         ": no tensor named embed_tokens.weight under any of ",
         "the prefixes model.language_model., language_model.model., model. or none; this is not a Gemma 4 "
         "text model");
  }

  Linear matrix(const std::string& name, int64_t rows, int64_t cols) {
    return view(get(name, std::array{rows, cols}), rows, cols);
  }

  /// Experts are stored [experts, rows, cols]; seen here as one matrix of experts * rows rows.
  Linear stacked_matrix(const std::string& name, int64_t experts, int64_t rows, int64_t cols) {
    return view(get(name, std::array{experts, rows, cols}), experts * rows, cols);
  }

  Vec vector(const std::string& name, int64_t size) {
    const Linear row = view(get(name, std::array{size}), 1, size);
    auto& values = storage_.vectors.emplace_back(std::make_unique<float[]>(static_cast<std::size_t>(size)));
    decode_row(row, 0, values.get());
    for (int64_t i = 0; i < size; ++i) {
      if (std::isfinite(values[static_cast<std::size_t>(i)])) continue;
      const Tensor& tensor = get(name, std::array{size});
      fail(ErrorKind::corrupt, checkpoint_.path(tensor), ": tensor ", in_quotes(tensor.name), " holds ",
           values[static_cast<std::size_t>(i)], " at ", i, "; weights must be finite numbers");
    }
    return {values.get(), static_cast<std::size_t>(size)};
  }

  /// Null when the checkpoint has no output head of its own.
  const Tensor* find_head() const {
    for (std::string_view head : kHeadNames) {
      if (const Tensor* tensor = find(std::string(head))) return tensor;
    }
    return nullptr;
  }

  Linear head(const Tensor& tensor, int64_t rows, int64_t cols) {
    expect_shape(tensor, std::array<int64_t, 2>{rows, cols});
    return view(tensor, rows, cols);
  }

  /// A tensor of the text model that was never read means that config.json describes another model, which
  /// would run and answer wrongly. K and V of sharing layers are the exception: Google's files keep them,
  /// nobody reads them.
  void expect_all_read(const ModelConfig& config) const {
    const Tensor* first = nullptr;
    int unread = 0;
    for (const auto& [name, tensor] : checkpoint_.tensors()) {
      if (!std::string_view(name).starts_with(prefix_) || read_.contains(name)) continue;
      const std::string_view rest = std::string_view(name).substr(prefix_.size());
      if (!belongs_to_text_model(rest) || is_unused_kv(rest, config)) continue;
      if (unread++ == 0) first = &tensor;
    }
    if (!first) return;
    const std::string more = unread == 1 ? "" : " and of " + std::to_string(unread - 1) + " more";
    fail(ErrorKind::corrupt, checkpoint_.path(*first),
         ": the model that config.json describes has no use for tensor ", in_quotes(first->name), more,
         "; config.json belongs to another checkpoint or was edited");
  }

 private:
  /// The tensor of this name, or its quantised form.
  const Tensor* find(const std::string& name) const {
    const Tensor* tensor = checkpoint_.find(name);
    for (const auto& [suffix, format] : kQuantized) {
      if (!tensor) tensor = checkpoint_.find(name + std::string(suffix));
    }
    return tensor;
  }

  const Tensor& get(const std::string& name, std::span<const int64_t> shape) {
    const Tensor* tensor = find(prefix_ + name);
    if (!tensor) {
      fail(ErrorKind::corrupt, checkpoint_.directory().string(), ": tensor ", in_quotes(prefix_ + name),
           " of shape ", shape_text(shape), " is missing");
    }
    expect_shape(*tensor, shape);
    read_.insert(tensor->name);
    return *tensor;
  }

  /// `name` is without the prefix. Other towers of multimodal checkpoints lie beside the text model when the
  /// prefix is short.
  static bool belongs_to_text_model(std::string_view name) {
    constexpr std::array<std::string_view, 5> kRoots{"layers.", "embed_tokens.", "embed_tokens_per_layer.",
                                                     "per_layer_", "norm."};
    return std::any_of(kRoots.begin(), kRoots.end(),
                       [&](std::string_view root) { return name.starts_with(root); });
  }

  static bool is_unused_kv(std::string_view name, const ModelConfig& config) {
    for (std::size_t i = 0; i < config.layers.size(); ++i) {
      if (config.layers[i].kv_donor == static_cast<int>(i)) continue;
      const std::string at = "layers." + std::to_string(i) + ".self_attn.";
      if (!name.starts_with(at)) continue;
      const std::string_view part = name.substr(at.size());
      return part.starts_with("k_proj.") || part.starts_with("v_proj.") || part.starts_with("k_norm.");
    }
    return false;
  }

  void expect_shape(const Tensor& tensor, std::span<const int64_t> weights) const {
    std::vector<int64_t> shape(weights.begin(), weights.end());
    const WeightFormat format = weight_format(tensor, checkpoint_);
    if (format == WeightFormat::int8 || format == WeightFormat::int4) {
      shape.back() = static_cast<int64_t>(row_bytes(format, shape.back()));
    }
    if (std::equal(shape.begin(), shape.end(), tensor.shape.begin(), tensor.shape.end())) return;
    fail(ErrorKind::corrupt, checkpoint_.path(tensor), ": tensor ", in_quotes(tensor.name), " has shape ",
         shape_text(tensor.shape), ", but config.json calls for ", shape_text(shape));
  }

  Linear view(const Tensor& tensor, int64_t rows, int64_t cols) const {
    return {weight_format(tensor, checkpoint_), rows, cols, tensor.bytes.data()};
  }

  const Checkpoint& checkpoint_;
  PlanStorage& storage_;
  std::string prefix_;
  std::set<std::string_view> read_;  // whole names, which the checkpoint owns
};

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
  const Vec final_norm = tensors.vector("norm.weight", config.hidden_size);
  for (int i = 0; i < static_cast<int>(config.layers.size()); ++i) {
    const Vec input_norm =
        tensors.vector("layers." + std::to_string(i) + ".input_layernorm.weight", config.hidden_size);
    (i == 0 ? plan.first_norm : plan.layers.back().tail.next_norm) = input_norm;
    plan.layers.push_back(make_layer(config, i, kv_rows[static_cast<std::size_t>(i)], tensors));
    if (plan.layers.back().attention.writes_kv) plan.last_kv_layer = i;
  }
  plan.layers.back().tail.next_norm = final_norm;
  tensors.expect_all_read(config);
  plan.storage = std::move(storage);
  return plan;
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

std::size_t kv_bytes_per_token(const ModelPlan& plan, std::size_t element_bytes) {
  const KvGroup& full = plan.kv_groups[kFullGroup];
  return 2 * element_bytes * static_cast<std::size_t>(int64_t{full.layers} * full.kv_heads * full.head_dim);
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
