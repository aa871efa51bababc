#include "cuda/single_row.h"

#include <algorithm>
#include <cmath>

namespace carat::cuda {
namespace {

/// From here on full attention reads the high halves of keys and values only; from there on it is split over
/// the whole GPU.
constexpr int kMiddleContext = 256, kLongContext = 2048;
/// The residual stream passes through the shared memory of every CTA.
constexpr int kMostWidth = 4096;

bool supports_columns(const Linear& w) { return matvec_supports(w.format, static_cast<int>(w.cols)); }

int64_t qkv_rows(const AttentionPlan& a) {
  return a.q.rows + (a.writes_kv ? a.k.rows : 0) + (a.v ? a.v.rows : 0);
}

/// Halves of keys and values that attention reads: both, where there are two, while they come for free.
/// Beside int8 and int4 weights, as on the CPU, float16 is enough.
int kv_halves(const AttentionPlan& a, const KvLayer& kv, bool short_context) {
  const bool free = short_context || (a.q.format == WeightFormat::bf16 && a.window > 0);
  return kv.low_offset > 0 && free ? 2 : 1;
}

/// Elements of the buffers.
struct Sizes {
  std::size_t d, ple, heads = 0, qkv = 0, hidden, parts = 0;

  Sizes(const ModelPlan& plan, int sm_count)
      : d(static_cast<std::size_t>(plan.d_model)),
        ple(static_cast<std::size_t>(plan.ple_dim) * plan.layers.size()),
        hidden(static_cast<std::size_t>(plan.ple_dim)) {
    for (const LayerPlan& l : plan.layers) {
      const AttentionPlan& a = l.attention;
      heads = std::max(heads, static_cast<std::size_t>(a.heads * a.head_dim));
      qkv = std::max(qkv, static_cast<std::size_t>(qkv_rows(a)));
      hidden = std::max(hidden, static_cast<std::size_t>(l.intermediate_size));
      const int splits = attention_splits(1, a.kv_heads, sm_count, kMostAttentionSplits);
      parts = std::max(parts, static_cast<std::size_t>(a.heads * splits * (a.head_dim + 2)));
    }
  }
};

}  // namespace

std::size_t SingleRow::bytes(const ModelPlan& plan, int sm_count) {
  const Sizes sizes(plan, sm_count);
  return 4 * (5 * sizes.d + sizes.ple + 2 * sizes.heads + sizes.qkv + sizes.hidden + sizes.parts);
}

bool SingleRow::supports(const ModelPlan& plan, const Queue& queue) {
  if (!queue.overlap || plan.d_model > kMostWidth) return false;
  if (plan.head && !supports_columns(plan.head)) return false;
  return std::ranges::all_of(plan.layers, [](const LayerPlan& l) {
    return !l.moe && l.attention.heads / l.attention.kv_heads <= kRawTileRows &&
           supports_columns(l.attention.q) && supports_columns(l.attention.o) && supports_columns(l.gate) &&
           supports_columns(l.down) &&
           (!l.per_layer || (supports_columns(l.per_layer->gate) && supports_columns(l.per_layer->proj)));
  });
}

SingleRow::SingleRow(const ModelPlan& plan, const KvStorage& kv, const CudaBlocks& blocks, Queue& queue,
                     int lead)
    : plan_(plan), kv_(kv), blocks_(blocks), queue_(queue), lead_(lead), zeros_(plan.d_model) {
  check(cudaMemset(zeros_.data(), 0, zeros_.bytes()), "cudaMemset");
  const Sizes sizes(plan, queue.sm_count);
  x_ = {DeviceArray<float>(sizes.d), DeviceArray<float>(sizes.d)};
  final_x_ = DeviceArray<float>(sizes.d);
  qkv_ = DeviceArray<float>(sizes.qkv);
  context_ = DeviceArray<float>(sizes.heads);
  branch_ = DeviceArray<float>(sizes.d);
  hidden_ = DeviceArray<float>(sizes.hidden);
  ple_ = DeviceArray<float>(sizes.ple);
  parts_ = DeviceArray<float>(sizes.parts);
  q_ = DeviceArray<float16>(sizes.heads);
  if (!plan.head) return;  // a drafter's may be searched otherwise
  const auto candidates = static_cast<std::size_t>(matvec_ctas(queue, matrix(plan.head)));
  candidate_values_ = DeviceArray<float>(candidates);
  candidate_ids_ = DeviceArray<int32_t>(candidates);
}

SingleRow::ContextLength SingleRow::length_of(int position) {
  return position < kMiddleContext ? kShort : position < kLongContext ? kMiddle : kLong;
}

int SingleRow::length_class(int position) { return length_of(position); }

void SingleRow::run(const DeviceStep& step, int position, const StepUpload& upload, int slot, float* logits,
                    int32_t* drawn, int32_t* host_token) {
  if (queue_.status != cudaSuccess) return;
  const ContextLength length = length_of(position);
  const auto launch_all = [&] {
    blocks_.mark(Phase::embedding);
    fetch_step(queue_, upload.host_words(slot), upload.device_words(), step.tokens, drawn,
               blocks_.soft_tokens());
    enqueue_layers(step, length, logits);
    blocks_.mark(Phase::draw);
    draw(drawn, host_token);
  };
  if (blocks_.marks_phases()) return launch_all();
  Captured& captured = graphs_[length][static_cast<std::size_t>(slot)];
  const Key key{step.tokens, step.suppressed, step.tables.pages, step.suppressed_count, logits};
  if (!captured.graph || captured.key != key) {
    captured.graph = Graph::capture(queue_.stream, launch_all);
    captured.key = key;
  }
  if (queue_.status == cudaSuccess) captured.graph.launch(queue_.stream);
}

void SingleRow::draw(int32_t* drawn, int32_t* host_token) {
  pick_candidate(queue_, candidate_values_.data(), candidate_ids_.data(),
                 static_cast<int>(candidate_ids_.size()), drawn, host_token);
}

VectorInput SingleRow::plain(const float* in) {
  VectorInput input;
  input.in = in;
  return input;
}

/// A residual whose branch, any vector, counts for nothing.
VectorInput SingleRow::start(const float* x) {
  x_now_ = x;
  ready_ple_ = nullptr;
  VectorInput input = residual(zeros_.data(), 1.f, plan_.first_norm.data());
  input.branch = x;
  return input;
}

/// x = (x + norm(branch, gain)) * scalar, and its norm with the gains `next`.
VectorInput SingleRow::residual(const float* gain, float scalar, const float* next) {
  VectorInput input;
  input.source = VectorSource::residual;
  input.in = x_now_;
  input.branch = branch_.data();
  input.branch_gain = gain;
  input.norm_gain = next;
  input.scalar = scalar;
  input.eps = plan_.norm_eps;
  input.x_out = x_[x_now_ == x_[0].data()].data();
  x_now_ = input.x_out;
  return input;
}

VectorInput SingleRow::embedding(const DeviceStep& step, const float* norm, float* x_out) const {
  VectorInput input;
  input.source = VectorSource::embedding;
  input.norm_gain = norm;
  input.scalar = plan_.embed_scale;
  input.eps = plan_.norm_eps;
  input.embedding = matrix(plan_.embed);
  input.token = step.tokens;
  input.x_out = x_out;
  return input;
}

void SingleRow::multiply(const Linear& w, int64_t rows, const VectorInput& input, const VectorOutput& output,
                         bool late) {
  MatvecArgs args{};
  args.w = matrix(w, rows);
  args.input = input;
  args.output = output;
  args.late = late || input.source == VectorSource::embedding;
  matvec(queue_, args);
}

PerLayerFactor SingleRow::per_layer_factor(int layer) const {
  PerLayerFactor factor;
  if (ready_ple_) {
    factor.raw = ready_ple_ + (layer - plan_.last_kv_layer) * plan_.ple_dim;
    return factor;
  }
  const std::size_t slice = static_cast<std::size_t>(layer) * static_cast<std::size_t>(plan_.ple_dim);
  factor.raw = ple_.data() + slice;
  factor.gain = plan_.ple_norm.data();
  factor.table = matrix(plan_.ple_table);
  factor.table_column = static_cast<int>(slice);
  factor.project_scale = 1.f / std::sqrt(static_cast<float>(plan_.d_model));
  factor.table_scale = plan_.ple_embed_scale;
  return factor;
}

/// The keys split over the whole GPU.
void SingleRow::attend_widely(const LayerPlan& l, const DeviceStep& step, const float16* q,
                              const RopeKvArgs* raw) {
  const AttentionPlan& a = l.attention;
  const TileList& list = step.tail.tiles[static_cast<std::size_t>(a.kv_group)];
  AttentionArgs args{};
  args.q = q;
  args.context32 = context_.data();
  args.heads = a.heads;
  args.window = a.window;
  args.kv = kv_.layer(a);
  args.tables = step.tables;
  args.tiles = list.tiles;
  args.tile_count = 1;
  args.tile_rows = list.tile_rows;
  args.most_splits = kMostAttentionSplits;
  args.rows = 1;
  args.partial = {parts_.data(), parts_.size()};
  attention(queue_, args, raw);
}

void SingleRow::attend(const LayerPlan& l, const DeviceStep& step, ContextLength length) {
  const AttentionPlan& a = l.attention;
  blocks_.mark(Phase::attention);
  if (length == kLong && a.window == 0) {
    RopeKvArgs rope{};
    rope.sums = {qkv_.data(), 1, 0};
    rope.heads = a.heads;
    rope.width = static_cast<int>(qkv_rows(a));
    rope.writes_kv = a.writes_kv;
    rope.has_v = static_cast<bool>(a.v);
    rope.q_norm = a.q_norm.data();
    rope.k_norm = a.k_norm.data();
    rope.frequencies = blocks_.frequencies(a.kv_group);
    rope.rotary_pairs = a.rope.rotary_pairs;
    rope.lead = lead_;
    rope.eps = plan_.norm_eps;
    rope.kv = kv_.layer(a);
    if (raw_attention_fits(queue_, rope.kv, a.heads / a.kv_heads))
      return attend_widely(l, step, nullptr, &rope);
    rope.q = q_.data();
    rope.places = step.tail.places;
    rope.tables = step.tables;
    rope_kv(queue_, rope, 1);
    return attend_widely(l, step, q_.data(), nullptr);
  }
  DecodeAttentionArgs args{};
  args.qkv = qkv_.data();
  args.heads = a.heads;
  args.window = a.window;
  args.writes_kv = a.writes_kv;
  args.has_v = static_cast<bool>(a.v);
  args.q_norm = a.q_norm.data();
  args.k_norm = a.k_norm.data();
  args.frequencies = blocks_.frequencies(a.kv_group);
  args.rotary_pairs = a.rope.rotary_pairs;
  args.eps = plan_.norm_eps;
  args.kv = kv_.layer(a);
  args.position = step.tail.places.positions;
  args.lead = lead_;
  args.tables = step.tables;
  args.context = context_.data();
  args.halves = kv_halves(a, args.kv, length == kShort);
  decode_attention(queue_, args);
}

/// What follows attention; returns the input of the next layer.
VectorInput SingleRow::finish_layer(const LayerPlan& l, const DeviceStep& step, bool late) {
  const auto store = [](float* out) {
    VectorOutput output;
    output.out = out;
    return output;
  };
  blocks_.mark(Phase::output);
  multiply(l.attention.o, l.attention.o.rows, plain(context_.data()), store(branch_.data()), late);
  VectorOutput hidden = store(hidden_.data());
  hidden.finish = VectorFinish::gated_gelu;
  blocks_.mark(Phase::gate_up);
  multiply(l.gate, 2 * l.gate.rows, residual(l.post_attention.data(), 1.f, l.pre_ffn.data()), hidden);
  blocks_.mark(Phase::down);
  multiply(l.down, l.down.rows, plain(hidden_.data()), store(branch_.data()), /*late=*/true);
  if (!l.per_layer) return residual(l.post_ffn.data(), l.tail.scalar, l.tail.next_norm.data());
  blocks_.mark(Phase::per_layer_mix);
  VectorInput gate = residual(l.post_ffn.data(), 1.f, nullptr);
  gate.token = step.tokens;
  VectorOutput mixed = store(hidden_.data());
  mixed.finish = VectorFinish::per_layer;
  mixed.factor = per_layer_factor(l.index);
  multiply(l.per_layer->gate, l.per_layer->gate.rows, gate, mixed);
  multiply(l.per_layer->proj, l.per_layer->proj.rows, plain(hidden_.data()), store(branch_.data()));
  return residual(l.per_layer->post.data(), l.tail.scalar, l.tail.next_norm.data());
}

VectorInput SingleRow::layer(const LayerPlan& l, const DeviceStep& step, ContextLength length,
                             const VectorInput& input) {
  VectorOutput qkv;
  qkv.out = qkv_.data();
  blocks_.mark(Phase::qkv);
  multiply(l.attention.q, qkv_rows(l.attention), input, qkv);
  attend(l, step, length);
  return finish_layer(l, step, /*late=*/false);
}

void SingleRow::head(const DeviceStep& step, VectorInput input, float* logits) {
  input.x_out = final_x_.data();
  VectorOutput head;
  head.out = logits;
  head.finish = VectorFinish::logits;
  head.cap = plan_.logit_cap;
  head.suppressed = step.suppressed;
  head.suppressed_count = step.suppressed_count;
  head.candidate_values = candidate_values_.data();
  head.candidate_ids = candidate_ids_.data();
  blocks_.mark(Phase::head);
  multiply(plan_.head, plan_.head.rows, input, head);
}

void SingleRow::enqueue_layers(const DeviceStep& step, ContextLength length, float* logits) {
  VectorOutput projected;
  projected.out = ple_.data();
  ready_ple_ = nullptr;
  if (plan_.ple_dim > 0) {
    blocks_.mark(Phase::per_layer_inputs);
    multiply(plan_.ple_project, plan_.ple_project.rows, embedding(step, nullptr, nullptr), projected);
  }
  VectorInput next = embedding(step, plan_.first_norm.data(), x_[0].data());
  x_now_ = next.x_out;
  for (const LayerPlan& l : plan_.layers) next = layer(l, step, length, next);
  head(step, next, logits);
}

/// The first product here is late: only then have all keys and per-layer inputs been written when a later
/// kernel reads them before its wait.
void SingleRow::finish(const DeviceStep& step, int position, const TailRow& row, float* logits) {
  const auto first = plan_.layers.begin() + plan_.last_kv_layer;
  ready_ple_ = row.ple;
  x_now_ = row.x;
  blocks_.mark(Phase::attention);
  attend_widely(*first, step, row.q, nullptr);
  VectorInput next = finish_layer(*first, step, /*late=*/true);
  for (auto l = first + 1; l != plan_.layers.end(); ++l) next = layer(*l, step, length_of(position), next);
  head(step, next, logits);
}

}  // namespace carat::cuda
