#include "cuda/cuda_blocks.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "cuda/guess.h"
#include "cuda/packed_rows.h"
#include "cuda/single_row.h"

namespace carat::cuda {
namespace {

/// Float16s that K and V of one token and head take.
int token_elements(int head_dim, KvType type) {
  if (type == KvType::int8) return kv_stride(head_dim, true);
  return type == KvType::f16 ? 2 * head_dim : 4 * head_dim;
}

std::size_t page_elements(const KvGroup& group, const RunnerOptions& limits) {
  return static_cast<std::size_t>(group.layers) * static_cast<std::size_t>(group.kv_heads) *
         static_cast<std::size_t>(limits.page_tokens) *
         static_cast<std::size_t>(token_elements(group.head_dim, limits.kv_type));
}

/// Widths of the widest layer, per row.
struct Widths {
  std::size_t d, heads, context, qkv, hidden, ple, experts, chosen, moe_hidden;

  explicit Widths(const ModelPlan& plan) {
    d = static_cast<std::size_t>(plan.d_model);
    heads = qkv = hidden = experts = chosen = moe_hidden = 0;
    for (const LayerPlan& l : plan.layers) {
      const AttentionPlan& a = l.attention;
      heads = std::max(heads, static_cast<std::size_t>(a.heads * a.head_dim));
      qkv = std::max(qkv, static_cast<std::size_t>((a.heads + 2 * a.kv_heads) * a.head_dim));
      hidden = std::max(hidden, static_cast<std::size_t>(std::max(l.intermediate_size, plan.ple_dim)));
      if (!l.moe) continue;
      experts = static_cast<std::size_t>(l.moe->experts);
      chosen = static_cast<std::size_t>(l.moe->experts_per_token);
      moe_hidden = chosen * static_cast<std::size_t>(l.moe->intermediate_size);
    }
    context = std::max(heads, d);  // also holds x for the per-layer projection
    ple = static_cast<std::size_t>(plan.ple_dim) * plan.layers.size();
  }
};

/// Partial sums of a product: all rows of the widest output once, or 16 parts of up to 64 rows.
std::size_t sums_size(const Widths& w, std::size_t tokens) {
  return std::max(w.qkv, w.d) * std::max(tokens, std::size_t{16 * 64});
}

/// attention() makes at most two CTAs per multiprocessor, of at most 64 query rows each.
std::size_t attention_parts_size(const ModelPlan& plan, int sm_count) {
  int head_dim = 0;
  for (const KvGroup& group : plan.kv_groups) head_dim = std::max(head_dim, group.head_dim);
  return std::size_t{2 * 64} * static_cast<std::size_t>(sm_count * (head_dim + 2));
}

}  // namespace

KvStorage::KvStorage(const ModelPlan& plan, const RunnerOptions& limits)
    : groups_(plan.kv_groups), limits_(limits) {
  for (std::size_t g = 0; g < kKvGroups; ++g) {
    storage_[g] =
        DeviceArray<float16>(static_cast<std::size_t>(limits.pages[g]) * page_elements(groups_[g], limits));
    if (storage_[g].size() > 0) check(cudaMemset(storage_[g].data(), 0, storage_[g].bytes()), "cudaMemset");
  }
}

std::size_t KvStorage::bytes(const ModelPlan& plan, const RunnerOptions& limits) {
  std::size_t total = 0;
  for (std::size_t g = 0; g < kKvGroups; ++g) {
    total += static_cast<std::size_t>(limits.pages[g]) * page_elements(plan.kv_groups[g], limits) *
             sizeof(float16);
  }
  return total;
}

KvLayer KvStorage::layer(const AttentionPlan& a) const {
  const KvGroup& group = groups_[static_cast<std::size_t>(a.kv_group)];
  const std::size_t page = page_elements(group, limits_);
  const std::size_t layer = page / static_cast<std::size_t>(group.layers);
  float16* keys =
      storage_[static_cast<std::size_t>(a.kv_group)].data() + static_cast<std::size_t>(a.kv_layer) * layer;
  KvLayer kv{keys, page, layer / 2, 0, limits_.page_tokens, a.kv_heads, a.head_dim, a.kv_group};
  if (limits_.kv_type == KvType::automatic) {
    kv.value_offset = layer / 4;
    kv.low_offset = layer / 2;
  } else if (limits_.kv_type == KvType::int8) {
    kv.value_offset = static_cast<std::size_t>(a.head_dim) / 2;
    kv.int8 = true;
  }
  return kv;
}

void KvStorage::copy_page(Queue& queue, const PageCopy& copy) const {
  const auto g = static_cast<std::size_t>(copy.group);
  const std::size_t page = page_elements(groups_[g], limits_);
  if (queue.status != cudaSuccess) return;
  float16* base = storage_[g].data();
  queue.status = cudaMemcpyAsync(base + static_cast<std::size_t>(copy.to) * page,
                                 base + static_cast<std::size_t>(copy.from) * page, page * sizeof(float16),
                                 cudaMemcpyDeviceToDevice, queue.stream);
}

CudaBlocks::CudaBlocks(const ModelPlan& plan, const KvStorage& kv, const RunnerOptions& limits, Queue& queue,
                       bool fast_prompts)
    : plan_(plan),
      kv_(kv),
      queue_(queue),
      fast_prompts_(fast_prompts),
      xn_(static_cast<std::size_t>(limits.max_step_tokens) * Widths(plan).d),
      context_(static_cast<std::size_t>(limits.max_step_tokens) * Widths(plan).context),
      hidden_(static_cast<std::size_t>(limits.max_step_tokens) * Widths(plan).hidden) {
  soft_tokens_.count = static_cast<int>(plan.soft_tokens.size());
  std::ranges::copy(plan.soft_tokens, soft_tokens_.ids);
  soft_tokens_.padding = plan.pad_token;
  const Widths w(plan);
  const auto tokens = static_cast<std::size_t>(limits.max_step_tokens);
  for (std::size_t i = 0; i < 2; ++i) {
    x_[i] = DeviceArray<float>(tokens * w.d);
    q_[i] = DeviceArray<float16>(tokens * w.heads);
  }
  ple_ = DeviceArray<float>(tokens * w.ple);
  sums_ = DeviceArray<float>(sums_size(w, tokens));
  attention_parts_ = DeviceArray<float>(attention_parts_size(plan, queue.sm_count));
  if (w.experts > 0) {
    moe_input_ = DeviceArray<float>(tokens * w.d);
    moe_scores_ = DeviceArray<float>(tokens * w.experts);
    moe_weights_ = DeviceArray<float>(tokens * w.chosen);
    moe_chosen_ = DeviceArray<int32_t>(tokens * w.chosen);
    moe_hidden_ = DeviceArray<float>(tokens * w.moe_hidden);
    moe_out_ = DeviceArray<float>(tokens * w.d);
    moe_sum_ = DeviceArray<float>(tokens * w.d);
  }
  for (const LayerPlan& l : plan.layers) {
    const AttentionPlan& a = l.attention;
    DeviceArray<float>& device = frequencies_[static_cast<std::size_t>(a.kv_group)];
    if (device.size() > 0) continue;  // one rope per group
    std::vector<float> host;
    for (int j = 0; j < a.rope.rotary_pairs; ++j)
      host.push_back(static_cast<float>(std::pow(double{a.rope.theta}, -2.0 * j / a.head_dim)));
    device = DeviceArray<float>(host.size());
    check(cudaMemcpy(device.data(), host.data(), device.bytes(), cudaMemcpyHostToDevice), "cudaMemcpy");
  }
}

std::size_t CudaBlocks::bytes(const ModelPlan& plan, const RunnerOptions& limits, int sm_count) {
  const Widths w(plan);
  const auto tokens = static_cast<std::size_t>(limits.max_step_tokens);
  const std::size_t moe = w.experts > 0 ? 3 * w.d + w.moe_hidden + w.experts + 2 * w.chosen : 0;
  const std::size_t per_token = 4 * (2 * w.d + w.ple + w.heads + w.d + w.context + w.hidden + moe);
  return tokens * per_token + 4 * (sums_size(w, tokens) + attention_parts_size(plan, sm_count));
}

void CudaBlocks::begin(const DeviceStep& step, float* logits, int lead) {
  step_ = step;
  raw_.lead = lead;
  rows_ = &step_.all;
  now_ = 0;
  logits_ = logits;
}

Split CudaBlocks::split(const SplitArray& array) const {
  constexpr int kFewRows = 64;  // these wait for the weights anyway
  const bool two_passes = !fast_prompts_ || rows() <= kFewRows;
  return {array.hi.data(), two_passes ? array.lo.data() : nullptr};
}

void CudaBlocks::start(const Linear& w, Split input) {
  StartRowsArgs args{};
  args.sums = matmul_partial(queue_, matrix(w), input, rows(), {sums_.data(), sums_.size()});
  args.norm = plan_.first_norm.data();
  args.eps = plan_.norm_eps;
  args.d_model = plan_.d_model;
  args.x = x_[now_].data();
  args.xn = split(xn_);
  start_rows(queue_, args, rows());
}

const float* CudaBlocks::final_residuals(const DeviceStep& step) const {
  if (single_row_ && step.tail.count == 1) return single_row_->final_residual();
  return x_[step.tail.count < step.all.count ? 1 : 0].data();
}

void CudaBlocks::embed(const ModelPlan& m, const Rows&) {
  mark(Phase::embedding);
  EmbedArgs args{};
  args.tokens = step_.tokens;
  args.table = matrix(m.embed);
  args.scale = m.embed_scale;
  args.norm = m.first_norm.data();
  args.eps = m.norm_eps;
  args.d_model = m.d_model;
  args.x = x_[now_].data();
  if (m.ple_dim > 0) args.raw = split(context_);  // free until attend()
  args.normed = split(xn_);
  cuda::embed(queue_, args, rows());
}

/// Rows that stop behind the last layer with K/V of its own need the inputs of the layers before it only;
/// narrow() computes the others of the rows that go on.
void CudaBlocks::per_layer_inputs(const ModelPlan& m, const Rows&) {
  project_per_layer_inputs(0, narrows() ? m.last_kv_layer : static_cast<int>(m.layers.size()), nullptr);
}

/// Of the tokens whose scaled embeddings embed() has left in context_.
void CudaBlocks::project_per_layer_inputs(int first_layer, int layers, const int32_t* token_rows) {
  ple_first_ = first_layer;
  ple_layers_ = layers;
  if (layers == 0) return;
  mark(Phase::per_layer_inputs);
  Matrix project = matrix(plan_.ple_project, int64_t{layers} * plan_.ple_dim);
  project.data += static_cast<std::size_t>(first_layer) * static_cast<std::size_t>(plan_.ple_dim) *
                  static_cast<std::size_t>(packed_row_bytes(project.format, project.cols));
  MatmulOutput output;
  output.out = ple_.data();
  matmul(queue_, project, split(context_), rows(), output);
  PerLayerInputArgs args{};
  args.tokens = step_.tokens;
  args.rows = token_rows;
  args.table = matrix(plan_.ple_table);
  args.first_layer = first_layer;
  args.layers = layers;
  args.ple_dim = plan_.ple_dim;
  args.project_scale = 1.f / std::sqrt(static_cast<float>(plan_.d_model));
  args.table_scale = plan_.ple_embed_scale;
  args.eps = plan_.norm_eps;
  args.gain = plan_.ple_norm.data();
  args.ple = ple_.data();
  cuda::per_layer_inputs(queue_, args, rows());
}

void CudaBlocks::qkv(const LayerPlan& l, const Rows&, const StepRows&) {
  mark(Phase::qkv);
  const AttentionPlan& a = l.attention;
  const int64_t width = a.q.rows + (a.writes_kv ? a.k.rows : 0) + (a.v ? a.v.rows : 0);
  RopeKvArgs& args = raw_;
  args.sums = matmul_partial(queue_, matrix(a.q, width), split(xn_), rows(), {sums_.data(), sums_.size()});
  args.heads = a.heads;
  args.width = static_cast<int>(width);
  args.writes_kv = a.writes_kv;
  args.has_v = static_cast<bool>(a.v);
  args.q_norm = a.q_norm.data();
  args.k_norm = a.k_norm.data();
  args.frequencies = frequencies(a.kv_group);
  args.rotary_pairs = a.rope.rotary_pairs;
  args.eps = plan_.norm_eps;
  args.q = q_[now_].data();
  args.kv = kv_.layer(a);
  args.places = rows_->places;
  args.tables = step_.tables;
  if (attends_raw(a)) return;
  mark(Phase::rope);
  rope_kv(queue_, args, rows());
}

void CudaBlocks::narrow(const ModelPlan& m, const StepRows& step) {
  const int count = static_cast<int>(step.tail_rows.size()), before = rows();
  rows_ = &step_.tail;
  if (count == before) return;
  mark(Phase::narrow);
  const LayerPlan& l = m.layers[static_cast<std::size_t>(m.last_kv_layer)];
  const auto keep = [&](auto& pair, int width) {
    const std::size_t bytes = static_cast<std::size_t>(width) * sizeof(*pair[0].data());
    gather_rows(queue_, pair[now_].data(), pair[now_ ^ 1].data(), bytes, step_.tail_rows, count);
  };
  keep(x_, m.d_model);
  keep(q_, l.attention.heads * l.attention.head_dim);
  now_ ^= 1;
  if (m.ple_dim == 0) return;
  EmbedArgs args{};
  args.tokens = step_.tokens;
  args.rows = step_.tail_rows;
  args.table = matrix(m.embed);
  args.scale = m.embed_scale;
  args.d_model = m.d_model;
  args.raw = split(context_);
  cuda::embed(queue_, args, rows());
  project_per_layer_inputs(m.last_kv_layer, static_cast<int>(m.layers.size()) - m.last_kv_layer,
                           step_.tail_rows);
}

bool CudaBlocks::finish(const ModelPlan& m, const StepRows& step) {
  if (!single_row_ || rows() != 1) return false;
  const float* ple = m.ple_dim > 0 ? ple_.data() : nullptr;
  single_row_->finish(step_, step.tail.segments.front().past, {x_[now_].data(), q_[now_].data(), ple},
                      logits_);
  return true;
}

void CudaBlocks::attend(const LayerPlan& l, const Rows&, const StepRows&) {
  mark(Phase::attention);
  const AttentionPlan& a = l.attention;
  const TileList& list = rows_->tiles[static_cast<std::size_t>(a.kv_group)];
  AttentionArgs args{};
  args.q = q_[now_].data();
  args.context = split(context_);
  args.heads = a.heads;
  args.window = a.window;
  args.kv = kv_.layer(a);
  args.tables = step_.tables;
  args.tiles = list.tiles;
  args.tile_count = list.count;
  args.tile_rows = list.tile_rows;
  args.most_splits = list.most_splits;
  args.most_keys = list.most_keys;
  args.rows = rows();
  args.partial = {attention_parts_.data(), attention_parts_.size()};
  attention(queue_, args, attends_raw(a) ? &raw_ : nullptr);
}

void CudaBlocks::add_branch(PartialSums branch, Vec gain, float scalar, const float* next) {
  mark(Phase::norms);
  AddNormArgs args{};
  args.branch = branch;
  args.gain = gain.data();
  args.scalar = scalar;
  args.next = next;
  args.eps = plan_.norm_eps;
  args.d_model = plan_.d_model;
  args.x = x_[now_].data();
  args.xn = split(xn_);
  add_norm(queue_, args, rows());
}

void CudaBlocks::attention_out(const LayerPlan& l, const Rows&) {
  mark(Phase::output);
  const PartialSums branch =
      matmul_partial(queue_, matrix(l.attention.o), split(context_), rows(), {sums_.data(), sums_.size()});
  add_branch(branch, l.post_attention, 1.f, l.pre_ffn.data());
}

PartialSums CudaBlocks::dense_mlp(const LayerPlan& l) {
  mark(Phase::gate_up);
  MatmulOutput output;
  output.finish = Finish::gated_gelu;
  output.split = split(hidden_);
  matmul(queue_, matrix(l.gate, 2 * l.gate.rows), split(xn_), rows(), output);
  mark(Phase::down);
  return matmul_partial(queue_, matrix(l.down), split(hidden_), rows(), {sums_.data(), sums_.size()});
}

/// Without per-layer inputs the layer ends here; with them their gate reads x itself.
void CudaBlocks::finish_ffn(const LayerPlan& l, PartialSums branch) {
  if (l.per_layer) {
    add_branch(branch, l.post_ffn, 1.f, nullptr);
  } else {
    add_branch(branch, l.post_ffn, l.tail.scalar, l.tail.next_norm.data());
  }
}

void CudaBlocks::ffn(const LayerPlan& l, const Rows&) { finish_ffn(l, dense_mlp(l)); }

void CudaBlocks::moe_ffn(const LayerPlan& l, const Rows&) {
  const MoePlan& moe = *l.moe;
  const PartialSums dense = dense_mlp(l);
  mark(Phase::experts);
  MoeArgs args{};
  args.d_model = plan_.d_model;
  args.experts = moe.experts;
  args.chosen = moe.experts_per_token;
  args.width = moe.intermediate_size;
  args.eps = plan_.norm_eps;
  args.x = x_[now_].data();
  args.router = matrix(moe.router);
  args.router_scale = moe.router_scale.data();
  args.expert_scale = moe.expert_scale.data();
  args.pre = moe.pre_experts.data();
  args.gate_up = matrix(moe.gate_up);
  args.down = matrix(moe.down);
  args.input = moe_input_.data();
  args.scores = moe_scores_.data();
  args.chosen_experts = moe_chosen_.data();
  args.chosen_weights = moe_weights_.data();
  args.hidden = moe_hidden_.data();
  args.out = moe_out_.data();
  experts(queue_, args, rows());
  add_experts(queue_, dense, moe.post_dense.data(), moe_out_.data(), moe.post_experts.data(), plan_.norm_eps,
              plan_.d_model, moe_sum_.data(), rows());
  finish_ffn(l, {moe_sum_.data(), 1, 0});
}

void CudaBlocks::per_layer_mix(const LayerPlan& l, const Rows&) {
  mark(Phase::per_layer_mix);
  MatmulOutput output;
  output.finish = Finish::gelu_times;
  output.split = split(hidden_);
  output.factor = ple_.data() + (l.index - ple_first_) * plan_.ple_dim;
  output.factor_stride = plan_.ple_dim * ple_layers_;
  output.workspace = {sums_.data(), sums_.size()};
  matmul(queue_, matrix(l.per_layer->gate), split(xn_), rows(), output);
  const PartialSums branch =
      matmul_partial(queue_, matrix(l.per_layer->proj), split(hidden_), rows(), {sums_.data(), sums_.size()});
  add_branch(branch, l.per_layer->post, l.tail.scalar, l.tail.next_norm.data());
}

void CudaBlocks::logits(const ModelPlan& m, const Rows&) {
  mark(Phase::head);
  MatmulOutput output;
  output.finish = Finish::cap;
  output.out = logits_;
  output.cap = m.logit_cap;
  matmul(queue_, matrix(m.head), split(xn_), rows(), output);
}

}  // namespace carat::cuda
