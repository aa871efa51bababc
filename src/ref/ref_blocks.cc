#include "ref/ref_blocks.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

#include "ref/ref_math.h"

namespace carat {

// x = embed[token] * sqrt(d_model);  xn = norm(x)
void RefBlocks::embed(const ModelPlan& m, const Rows& rows) {
  const int d = m.d_model;
  x_.resize(rows.count() * d);
  xn_.resize(x_.size());
  for (int r = 0; r < rows.count(); ++r) {
    float* x = x_.data() + r * d;
    decode_row(m.embed, m.embedding_row(rows.tokens[r], m.embed), x);
    for (int i = 0; i < d; ++i) x[i] *= m.embed_scale;
    rms_norm(x, m.first_norm, m.norm_eps, d, xn_.data() + r * d);
  }
}

void RefBlocks::start(Vec first_norm, std::vector<float> x) {
  const std::size_t d = plan_.d_model;
  x_ = std::move(x);
  xn_.resize(x_.size());
  for (std::size_t at = 0; at < x_.size(); at += d)
    rms_norm(x_.data() + at, first_norm, plan_.norm_eps, plan_.d_model, xn_.data() + at);
}

// ple = (norm(P x / sqrt(d_model)) + table[token] * sqrt(ple_dim)) / sqrt(2), one norm per layer's slice
void RefBlocks::per_layer_inputs(const ModelPlan& m, const Rows& rows) {
  const int p = m.ple_dim, width = p * static_cast<int>(m.layers.size());
  matmul(m.ple_project, x_.data(), rows.count(), ple_);
  const float project_scale = 1.f / std::sqrt(static_cast<float>(m.d_model));
  const float mix_scale = 1.f / std::numbers::sqrt2_v<float>;
  std::vector<float> table_row(width);
  for (int r = 0; r < rows.count(); ++r) {
    const int32_t token = rows.tokens[r];
    decode_row(m.ple_table, m.embedding_row(token, m.ple_table), table_row.data());
    float* ple = ple_.data() + r * width;
    for (int i = 0; i < width; ++i) ple[i] *= project_scale;
    for (int slice = 0; slice < width; slice += p)
      rms_norm(ple + slice, m.ple_norm, m.norm_eps, p, ple + slice);
    for (int i = 0; i < width; ++i) {
      ple[i] = (ple[i] + table_row[i] * m.ple_embed_scale) * mix_scale;
    }
  }
}

// q = rope(norm(Q xn));  K = rope(norm(K xn)), V = norm(V xn) without gain, into the pages of layers that own
// them
void RefBlocks::qkv(const LayerPlan& l, const Rows& rows, const StepRows& step) {
  const AttentionPlan& a = l.attention;
  const PageTable& table = step.page_tables[a.kv_group];
  const int d = a.head_dim;
  matmul(a.q, xn_.data(), rows.count(), q_);
  Matrix k, v;
  if (a.writes_kv) {
    matmul(a.k, xn_.data(), rows.count(), k);
    if (a.v)
      matmul(a.v, xn_.data(), rows.count(), v);
    else
      v = k;  // "K = V": V is K before its norm and its rotation
  }
  for (const Segment& segment : rows.segments) {
    for (int i = 0; i < segment.count; ++i) {
      const int row = segment.first + i, position = segment.past + i;
      for (int h = 0; h < a.heads; ++h) {
        float* q = q_.data() + (row * a.heads + h) * d;
        rms_norm(q, a.q_norm, plan_.norm_eps, d, q);
        rotate(q, d, a.rope, position);
      }
      if (!a.writes_kv) continue;
      float* key = kv_.key(a, table, segment.sequence, position);
      float* value = kv_.value(a, table, segment.sequence, position);
      for (int h = 0; h < a.kv_heads; ++h) {
        rms_norm(k.data() + (row * a.kv_heads + h) * d, a.k_norm, plan_.norm_eps, d, key + h * d);
        rotate(key + h * d, d, a.rope, position);
        rms_norm(v.data() + (row * a.kv_heads + h) * d, {}, plan_.norm_eps, d, value + h * d);
      }
      kv_.round_stored(a, table, segment.sequence, position);
    }
  }
}

void RefBlocks::narrow(const ModelPlan& m, const StepRows& step) {
  const auto keep_rows = [&](Matrix& matrix) {
    const std::size_t width = matrix.size() / step.all.count();
    // The rows ascend, so that each is read before it is overwritten.
    for (std::size_t r = 0; r < step.tail_rows.size(); ++r) {
      std::copy_n(matrix.data() + step.tail_rows[r] * width, width, matrix.data() + r * width);
    }
    matrix.resize(step.tail_rows.size() * width);
  };
  keep_rows(x_);
  keep_rows(q_);
  if (m.ple_dim > 0) keep_rows(ple_);
  xn_.resize(x_.size());
}

// context = softmax(q K^T) V over the positions that the row sees: its own and, within the window, all before
void RefBlocks::attend(const LayerPlan& l, const Rows& rows, const StepRows& step) {
  const AttentionPlan& a = l.attention;
  const PageTable& table = step.page_tables[a.kv_group];
  const int d = a.head_dim, heads_per_kv = a.heads / a.kv_heads;
  context_.assign(q_.size(), 0.f);
  std::vector<float> scores;
  for (const Segment& segment : rows.segments) {
    for (int i = 0; i < segment.count * a.heads; ++i) {
      const int head = i % a.heads, position = segment.past + i / a.heads;
      const int row_head = segment.first * a.heads + i, kv_offset = head / heads_per_kv * d;
      const int oldest = a.window > 0 ? std::max(0, position - a.window + 1) : 0;
      scores.clear();
      for (int p = oldest; p <= position; ++p) {
        scores.push_back(
            dot(q_.data() + row_head * d, kv_.key(a, table, segment.sequence, p) + kv_offset, d));
      }
      softmax(scores);
      float* context = context_.data() + row_head * d;
      for (int p = oldest; p <= position; ++p) {
        const float* value = kv_.value(a, table, segment.sequence, p) + kv_offset;
        const float probability = scores[p - oldest];
        for (int j = 0; j < d; ++j) context[j] += probability * value[j];
      }
    }
  }
}

// x += norm(O context, post_attention);  xn = norm(x, pre_ffn)
void RefBlocks::attention_out(const LayerPlan& l, const Rows& rows) {
  matmul(l.attention.o, context_.data(), rows.count(), branch_);
  add_normed(branch_, l.post_attention, rows.count());
  for (int r = 0; r < rows.count(); ++r) {
    const int d = plan_.d_model;
    rms_norm(x_.data() + r * d, l.pre_ffn, plan_.norm_eps, d, xn_.data() + r * d);
  }
}

// branch = down(gelu(gate xn) * up xn)
void RefBlocks::dense_mlp(const LayerPlan& l, int count) {
  matmul(l.gate, xn_.data(), count, gate_);
  matmul(l.up, xn_.data(), count, up_);
  for (std::size_t i = 0; i < gate_.size(); ++i) gate_[i] = gelu_tanh(gate_[i]) * up_[i];
  matmul(l.down, gate_.data(), count, branch_);
}

// x += norm(mlp(xn), post_ffn)
void RefBlocks::ffn(const LayerPlan& l, const Rows& rows) {
  dense_mlp(l, rows.count());
  add_normed(branch_, l.post_ffn, rows.count());
  if (!l.per_layer) finish_layer(l, rows.count());
}

// x += norm(norm(mlp(xn), post_dense) + norm(experts(norm(x, pre_experts)), post_experts), post_ffn)
void RefBlocks::moe_ffn(const LayerPlan& l, const Rows& rows) {
  const int d = plan_.d_model;
  const MoePlan& moe = *l.moe;
  dense_mlp(l, rows.count());
  std::vector<float> input(d), sum(input.size());
  for (int r = 0; r < rows.count(); ++r) {
    const float* x = x_.data() + r * d;
    float* branch = branch_.data() + r * d;
    rms_norm(branch, moe.post_dense, plan_.norm_eps, d, branch);
    rms_norm(x, moe.pre_experts, plan_.norm_eps, d, input.data());
    std::fill(sum.begin(), sum.end(), 0.f);
    add_experts(moe, input.data(), expert_weights(moe, x), sum.data());
    rms_norm(sum.data(), moe.post_experts, plan_.norm_eps, d, sum.data());
    for (int i = 0; i < d; ++i) branch[i] += sum[i];
  }
  add_normed(branch_, l.post_ffn, rows.count());
  if (!l.per_layer) finish_layer(l, rows.count());
}

// The weight of every expert, 0 where not chosen: softmax over router(norm(x) * scale / sqrt(d_model)), the
// top k renormalised to 1, then times the expert's own scale. Equal scores go to the lower expert.
std::vector<float> RefBlocks::expert_weights(const MoePlan& moe, const float* x) const {
  const int d = plan_.d_model;
  std::vector<float> u(d), p;
  rms_norm(x, moe.router_scale, plan_.norm_eps, d, u.data());
  for (float& value : u) value /= std::sqrt(static_cast<float>(d));
  matmul(moe.router, u.data(), 1, p);
  softmax(p);
  std::vector<std::size_t> order(p.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return p[a] > p[b]; });
  order.resize(moe.experts_per_token);
  float total = 0.f;
  for (std::size_t e : order) total += p[e];
  std::vector<float> weights(p.size(), 0.f);
  for (std::size_t e : order) weights[e] = p[e] / total * moe.expert_scale[e];
  return weights;
}

// out += sum over experts of weight * down(gelu(gate input) * up input)
void RefBlocks::add_experts(const MoePlan& moe, const float* input, std::span<const float> weights,
                            float* out) const {
  const int width = moe.intermediate_size, d = plan_.d_model;
  std::vector<float> gate_up, result;
  for (int e = 0; e < moe.experts; ++e) {
    const float weight = weights[e];
    if (weight == 0.f) continue;
    matmul(slice_rows(moe.gate_up, int64_t{2} * e * width, 2 * width), input, 1, gate_up);
    for (int i = 0; i < width; ++i) {
      gate_up[i] = gelu_tanh(gate_up[i]) * gate_up[i + width];
    }
    matmul(slice_rows(moe.down, int64_t{d} * e, d), gate_up.data(), 1, result);
    for (int i = 0; i < d; ++i) out[i] += weight * result[i];
  }
}

// x += norm(proj(gelu(gate x) * ple[layer]), post)
void RefBlocks::per_layer_mix(const LayerPlan& l, const Rows& rows) {
  const int p = plan_.ple_dim, width = p * static_cast<int>(plan_.layers.size());
  matmul(l.per_layer->gate, x_.data(), rows.count(), gate_);
  for (int r = 0; r < rows.count(); ++r) {
    const float* ple = ple_.data() + r * width + l.index * p;
    float* gate = gate_.data() + r * p;
    for (int i = 0; i < p; ++i) gate[i] = gelu_tanh(gate[i]) * ple[i];
  }
  matmul(l.per_layer->proj, gate_.data(), rows.count(), branch_);
  add_normed(branch_, l.per_layer->post, rows.count());
  finish_layer(l, rows.count());
}

// logits = cap * tanh(head xn / cap)
void RefBlocks::logits(const ModelPlan& m, const Rows& rows) {
  matmul(m.head, xn_.data(), rows.count(), logits_);
  if (m.logit_cap == 0.f) return;
  for (float& logit : logits_) logit = m.logit_cap * std::tanh(logit / m.logit_cap);
}

// x += norm(branch, gain)
void RefBlocks::add_normed(const Matrix& branch, Vec gain, int count) {
  const int d = plan_.d_model;
  std::vector<float> normed(d);
  for (int r = 0; r < count; ++r) {
    rms_norm(branch.data() + r * d, gain, plan_.norm_eps, d, normed.data());
    for (int i = 0; i < d; ++i) x_[r * d + i] += normed[i];
  }
}

// The layer's scalar multiplies the whole residual stream, last of all; then the next layer's norm.
void RefBlocks::finish_layer(const LayerPlan& l, int count) {
  const int d = plan_.d_model;
  for (int r = 0; r < count; ++r) {
    float* x = x_.data() + r * d;
    for (int i = 0; i < d; ++i) x[i] *= l.tail.scalar;
    rms_norm(x, l.tail.next_norm, plan_.norm_eps, d, xn_.data() + r * d);
  }
}

}  // namespace carat
