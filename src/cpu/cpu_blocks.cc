#include "cpu/cpu_blocks.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "base/error.h"
#include "base/mapped_file.h"
#include "model/formats.h"

namespace carat {
namespace {

/// Floats of `up` that are computed before they are multiplied with the gate. For a prompt they stay in the
/// L2 cache; in a decode step each thread reads its share of gate and of up in one piece, which is a tenth
/// faster.
constexpr int64_t kTileFloats = int64_t{1} << 18;
/// Room for the partial results of split attention, in floats.
constexpr int64_t kPartialFloats = int64_t{1} << 25;

int64_t quantized_stride(int64_t cols) {
  const int64_t stride = quantized_cols(cols);
  return stride % 4096 == 0 ? stride + 64 : stride;
}

/// Blocks of a row, for the format that has most.
int64_t blocks_stride(int64_t cols) { return block_count(cols, kInt4Block); }

/// The widest rows of each kind over all layers. A visit is one token's visit to one expert.
struct Widths {
  int64_t query = 0, kv = 0, intermediate = 0, ple = 0;
  int64_t experts = 0, visits_per_token = 0, expert_intermediate = 0;
};

Widths widths_of(const ModelPlan& plan) {
  Widths w{.intermediate = plan.ple_dim, .ple = plan.ple_dim * static_cast<int64_t>(plan.layers.size())};
  for (const LayerPlan& l : plan.layers) {
    const AttentionPlan& a = l.attention;
    w.query = std::max(w.query, int64_t{a.heads} * a.head_dim);
    w.kv = std::max(w.kv, int64_t{a.kv_heads} * a.head_dim);
    w.intermediate = std::max(w.intermediate, int64_t{l.intermediate_size});
    if (!l.moe) continue;
    w.experts = std::max(w.experts, int64_t{l.moe->experts});
    w.visits_per_token = std::max(w.visits_per_token, int64_t{l.moe->experts_per_token});
    w.expert_intermediate = std::max(w.expert_intermediate, int64_t{l.moe->intermediate_size});
  }
  return w;
}

/// Room for the quantised input of the largest matmul: what `stride` says of its rows' width, times the rows.
int64_t quantized_size(const Widths& w, int64_t d_model, int64_t rows, int64_t (*stride)(int64_t cols)) {
  const int64_t token = std::max({d_model, w.query, w.intermediate}),
                visit = std::max(d_model, w.expert_intermediate);
  return rows * std::max(stride(token), w.visits_per_token * stride(visit));
}

Activations from_row(const Activations& x, int64_t row) {
  Activations part = x;
  part.values += row * x.stride;
  if (x.quantized) part.quantized += row * x.quantized_stride;
  if (x.blocks) part.blocks += row * x.blocks_stride;
  return part;
}

}  // namespace

CpuBlocks::CpuBlocks(const ModelPlan& plan, const PackedWeights& weights, const RunnerOptions& limits,
                     CpuKv& kv, const Kernels& kernels, ThreadPool& pool)
    : plan_(plan), weights_(weights), kv_(kv), kernels_(kernels), pool_(pool), shares_(pool.size()) {
  const int64_t rows = limits.max_step_tokens, d = plan.d_model;
  const Widths w = widths_of(plan);
  const int64_t visits = rows * w.visits_per_token;
  set_up_attention(limits);
  x_ = Matrix<float>(rows, d);
  xn_ = Matrix<float>(rows, d);
  branch_ = Matrix<float>(rows, d);
  q_ = Matrix<float>(rows, w.query);
  context_ = Matrix<float>(rows, w.query);
  k_ = Matrix<float>(rows, w.kv);
  v_ = Matrix<float>(rows, w.kv);
  hidden_ = Matrix<float>(rows, w.intermediate);
  ple_ = Matrix<float>(rows, w.ple);
  if (w.experts > 0) {
    routing_ = ExpertRouting(static_cast<int>(w.experts), static_cast<int>(w.visits_per_token),
                             limits.max_step_tokens);
    router_ = Matrix<float>(rows, w.experts);
    expert_in_ = Matrix<float>(visits, d);
    expert_hidden_ = Matrix<float>(visits, w.expert_intermediate);
    expert_out_ = Matrix<float>(visits, d);
  }
  logits_ = Matrix<float>(1, rows * plan.vocab);
  quantized_ = Matrix<int8_t>(1, quantized_size(w, d, rows, quantized_stride));
  blocks_ = Matrix<ActivationBlock>(1, quantized_size(w, d, rows, blocks_stride));
  for (int thread = 0; thread < pool.size(); ++thread) {
    scratch_.push_back({Matrix<float>(1, attention_scratch_floats()),
                        Matrix<float>(1, std::max(kTileFloats, rows * (kPanelRows + 16))),
                        Matrix<float>(1, w.ple)});
  }
}

/// Layers of a KV group share heads, window and rotation, so each group is described once.
void CpuBlocks::set_up_attention(const RunnerOptions& limits) {
  std::array<AttentionShape, kKvGroups> shapes;
  for (const LayerPlan& l : plan_.layers) {
    const AttentionPlan& a = l.attention;
    const auto group = static_cast<std::size_t>(a.kv_group);
    const AttentionShape shape{a.heads, a.kv_heads, a.head_dim, a.window};
    CHECK(shapes[group].heads == 0 || shapes[group] == shape);
    shapes[group] = shape;
    rotations_[group].rope = a.rope;
  }
  for (std::size_t g = 0; g < kKvGroups; ++g) {
    if (shapes[g].heads == 0) continue;
    if (shapes[g].head_dim > kMaxHeadDim || shapes[g].head_dim % 2 != 0) {
      fail(ErrorKind::unsupported, "heads of size ", shapes[g].head_dim,
           "; the CPU backend takes even sizes up to ", kMaxHeadDim);
    }
    schedules_[g] = AttentionSchedule(shapes[g], pool_.size(), kPartialFloats);
    Rotation& rotation = rotations_[g];
    for (int j = 0; j < rotation.rope.rotary_pairs; ++j) {
      const double exponent = -2.0 * j / shapes[g].head_dim;
      rotation.frequencies.push_back(static_cast<float>(std::pow(double{rotation.rope.theta}, exponent)));
    }
    rotation.cosines = Matrix<float>(limits.max_step_tokens, rotation.rope.rotary_pairs);
    rotation.sines = Matrix<float>(limits.max_step_tokens, rotation.rope.rotary_pairs);
  }
  partials_ = Matrix<float>(1, kPartialFloats);
  std::memset(partials_.row(0), 0,
              HugePages::kPageBytes);  // not in the step whose context is the first to need it
  positions_.resize(static_cast<std::size_t>(limits.max_step_tokens));
  sequences_.resize(positions_.size());
}

/// The first columns of x as the right-hand side of a matmul with `w`.
Activations CpuBlocks::activations(const Matrix<float>& x, const MatmulWeights& w, int count) {
  Activations result{x.row(0), x.stride()};
  if (!w.quantized()) return result;
  const int64_t cols = w.linear.cols;
  result.quantized = quantized_.row(0);
  result.quantized_stride = quantized_stride(cols);
  result.blocks = blocks_.row(0);
  result.blocks_stride = blocks_stride(cols);
  for_rows(count, [&](int row, int) {
    kernels_.quantize(w.linear.format, x.row(row), cols, quantized_.row(0) + row * result.quantized_stride,
                      blocks_.row(0) + row * result.blocks_stride);
  });
  return result;
}

/// Into how many parts the rows of a product are divided because it has too few panels for all threads.
int CpuBlocks::row_blocks(int64_t panels, int count) const {
  constexpr int kLeastRows = 24;  // per part: two tiles
  const int64_t wanted = (pool_.size() + panels - 1) / panels;
  return static_cast<int>(std::clamp<int64_t>(count / kLeastRows, 1, wanted));
}

/// Products of one input, in one region: all their panels, laid end to end, are divided.
void CpuBlocks::multiply(std::initializer_list<Product> products, const Matrix<float>& x, int count) {
  int64_t total = 0;
  const MatmulWeights* first = nullptr;
  for (const Product& product : products) {
    if (!product.weights->linear) continue;
    if (first && product.weights->linear.format != first->linear.format) {  // inputs in different blocks
      for (const Product& one : products) multiply({one}, x, count);
      return;
    }
    if (!first) first = product.weights;
    total += product.weights->panels();
  }
  if (!first) return;
  const Activations input = activations(x, *first, count);
  const int blocks = row_blocks(total, count);
  run_shares(total * blocks, count, first->linear.cols, [&](IndexRange share, int) {
    for (int64_t block = share.first / total; block * total < share.last; ++block) {
      const IndexRange panels{std::max(share.first - block * total, int64_t{0}),
                              std::min(share.last - block * total, total)};
      multiply_panels(products, panels, input, share_of(count, static_cast<int>(block), blocks));
    }
  });
}

/// Panels of the products, counted from the first one's on, for some of the rows.
void CpuBlocks::multiply_panels(std::initializer_list<Product> products, IndexRange share,
                                const Activations& input, IndexRange rows) {
  const Activations part = from_row(input, rows.first);
  int64_t before = 0;
  for (const Product& product : products) {
    if (!product.weights->linear) continue;
    const int64_t panels = product.weights->panels();
    const int64_t begin = std::clamp<int64_t>(share.first - before, 0, panels);
    const int64_t end = std::clamp<int64_t>(share.last - before, 0, panels);
    if (begin < end) {
      kernels_.matmul(*product.weights, begin, end - begin, part, static_cast<int>(rows.count()),
                      product.out->row(rows.first), product.out->stride());
    }
    before += panels;
  }
}

void CpuBlocks::begin(const StepRows& step) {
  logit_count_ = 0;
  set_positions(step.all.segments);
  divide_attention(step.all.segments);
}

void CpuBlocks::begin_draft(std::span<const Segment> at, std::span<const Segment> seen) {
  logit_count_ = 0;
  set_positions(at);
  divide_attention(seen);
}

void CpuBlocks::start(const MatmulWeights& w, const Matrix<float>& input, int count) {
  multiply({{&w, &x_}}, input, count);
  for_rows(count, [&](int row, int) {
    kernels_.rms_norm(x_.row(row), plan_.first_norm.data(), plan_.norm_eps, plan_.d_model, xn_.row(row));
  });
}

void CpuBlocks::set_positions(std::span<const Segment> segments) {
  int count = 0;
  for (const Segment& segment : segments) {
    count += segment.count;
    for (int i = 0; i < segment.count; ++i) {
      positions_[static_cast<std::size_t>(segment.first + i)] = segment.past + i;
      sequences_[static_cast<std::size_t>(segment.first + i)] = segment.sequence;
    }
  }
  for_rows(count, [&](int row, int) {
    const auto position = static_cast<float>(positions_[static_cast<std::size_t>(row)]);
    for (Rotation& rotation : rotations_) {
      for (std::size_t j = 0; j < rotation.frequencies.size(); ++j) {
        const double angle = position * rotation.frequencies[j];  // rounded to float32, as in transformers
        rotation.cosines.row(row)[j] = static_cast<float>(std::cos(angle));
        rotation.sines.row(row)[j] = static_cast<float>(std::sin(angle));
      }
    }
  });
}

void CpuBlocks::divide_attention(std::span<const Segment> segments) {
  for (AttentionSchedule& schedule : schedules_) {
    if (schedule.shape().heads > 0) schedule.build(segments, partials_.row(0));
  }
}

void CpuBlocks::embed(const ModelPlan& m, const Rows& rows) {
  for_rows(rows.count(), [&](int row, int) {
    float* x = x_.row(row);
    const int32_t token = rows.tokens[static_cast<std::size_t>(row)];
    kernels_.decode_row(m.embed, m.embedding_row(token, m.embed), m.embed_scale, x);
    kernels_.rms_norm(x, m.first_norm.data(), m.norm_eps, m.d_model, xn_.row(row));
  });
}

void CpuBlocks::per_layer_inputs(const ModelPlan& m, const Rows& rows) {
  // The table stays in its file: on a cold start, let the disk work while the projection is computed.
  const auto table_row_of = [&](int row) {
    return m.embedding_row(rows.tokens[static_cast<std::size_t>(row)], m.ple_table);
  };
  for (int row = 0; row < rows.count(); ++row) {
    const Linear bytes = slice_rows(m.ple_table, table_row_of(row), 1);
    prefetch_pages({bytes.data, size_bytes(bytes)});
  }
  multiply({{&weights_.ple_project, &ple_}}, x_, rows.count());
  const int64_t width = m.ple_dim * static_cast<int64_t>(m.layers.size());
  // norm(p / sqrt(d_model)) with eps is norm(p) with eps * d_model
  const float eps = m.norm_eps * static_cast<float>(m.d_model), half = 1.f / std::numbers::sqrt2_v<float>;
  for_rows(rows.count(), [&](int row, int thread) {
    float* ple = ple_.row(row);
    float* table_row = scratch_[static_cast<std::size_t>(thread)].row.row(0);
    for (int64_t at = 0; at < width; at += m.ple_dim) {
      kernels_.rms_norm(ple + at, m.ple_norm.data(), eps, m.ple_dim, ple + at);
    }
    kernels_.decode_row(m.ple_table, table_row_of(row), m.ple_embed_scale, table_row);
    kernels_.weighted_sum(half, ple, half, table_row, width, ple);
  });
}

void CpuBlocks::qkv(const LayerPlan& l, const Rows& rows, const StepRows& step) {
  const PackedLayer& w = weights_.layers[static_cast<std::size_t>(l.index)];
  multiply({{&w.q, &q_}, {&w.k, &k_}, {&w.v, &v_}}, xn_, rows.count());
  const PageTable& table = step.page_tables[static_cast<std::size_t>(l.attention.kv_group)];
  for_rows(rows.count(), [&](int row, int) { rotate_and_store(l, table, row); });
}

void CpuBlocks::rotate_and_store(const LayerPlan& l, const PageTable& table, int row) {
  const AttentionPlan& a = l.attention;
  const int d = a.head_dim;
  const Rotation& rotation = rotations_[static_cast<std::size_t>(a.kv_group)];
  const auto norm_and_rotate = [&](float* head, Vec gain) {
    kernels_.rms_norm(head, gain.data(), plan_.norm_eps, d, head);
    kernels_.rope(head, rotation.cosines.row(row), rotation.sines.row(row), d, a.rope.rotary_pairs);
  };
  for (int h = 0; h < a.heads; ++h) norm_and_rotate(q_.row(row) + h * d, a.q_norm);
  if (!a.writes_kv) return;
  for (int h = 0; h < a.kv_heads; ++h) {
    float* k = k_.row(row) + h * d;
    float* v = v_.row(row) + h * d;
    // "K = V" layers: V is K before its norm and rotation, so it is taken first.
    kernels_.rms_norm(a.v ? v : k, nullptr, plan_.norm_eps, d, v);
    norm_and_rotate(k, a.k_norm);
    const KvView view = kv_.view(a, table, sequences_[static_cast<std::size_t>(row)], h);
    kernels_.store_kv(view, positions_[static_cast<std::size_t>(row)], k, v);
  }
}

void CpuBlocks::narrow(const ModelPlan&, const StepRows& step) {
  const int kept = step.tail.count();
  if (kept == step.all.count()) return;
  for (Matrix<float>* matrix : {&x_, &q_, &ple_}) {
    const std::size_t bytes = static_cast<std::size_t>(matrix->stride()) * sizeof(float);
    for (int row = 0; row < kept; ++row) {  // ascending, so no row is overwritten before it is moved
      const int32_t from = step.tail_rows[static_cast<std::size_t>(row)];
      if (from != row) std::memcpy(matrix->row(row), matrix->row(from), bytes);
    }
  }
  set_positions(step.tail.segments);
  divide_attention(step.tail.segments);
}

void CpuBlocks::attend(const LayerPlan& l, const Rows&, const StepRows& step) {
  const AttentionPlan& a = l.attention;
  const auto group = static_cast<std::size_t>(a.kv_group);
  const AttentionSchedule& schedule = schedules_[group];
  const auto out_of = [&](const AttentionBlock& block) {
    return context_.row(block.first_row) +
           int64_t{block.kv_head} * schedule.shape().heads_per_kv() * a.head_dim;
  };
  const auto view_of = [&](const AttentionBlock& block) {
    return kv_.view(a, step.page_tables[group], block.sequence, block.kv_head);
  };
  const auto first_page_of = [&](const AttentionItem& item) {
    const KvView kv = view_of(schedule.block(item.block));
    return kv.keys + kv.pages[item.oldest / kv.page_tokens] * kv.page_stride;
  };
  pool_.run([&](int thread) {
    float* scratch = scratch_[static_cast<std::size_t>(thread)].attention.row(0);
    const std::span<const AttentionItem> items = schedule.items_of(thread);
    for (std::size_t i = 0; i < items.size(); ++i) {
      const AttentionItem& item = items[i];
      const AttentionBlock& block = schedule.block(item.block);
      const KvView kv = view_of(block);
      AttentionQueries queries = schedule.queries(block, q_.row(0), q_.stride());
      if (i + 1 < items.size()) queries.after = first_page_of(items[i + 1]);
      if (item.chunk < 0) {
        kernels_.attend(kv, queries, out_of(block), context_.stride(), scratch);
      } else {
        const int partial = item.chunk - visible_chunks(queries).first;
        kernels_.attend_chunk(kv, queries, item.chunk,
                              schedule.partials_of(block)[static_cast<std::size_t>(partial)], scratch);
      }
    }
  });
  const auto merges = schedule.merges();
  for_rows(static_cast<int>(merges.size()), [&](int index, int) {
    const AttentionMerge& merge = merges[static_cast<std::size_t>(index)];
    const AttentionBlock& block = schedule.block(merge.block);
    const auto partials = schedule.partials_of(block);
    const int heads = schedule.shape().heads_per_kv(), token = merge.query / heads,
              head = merge.query % heads;
    kernels_.merge_attention(partials.data(), static_cast<int>(partials.size()), merge.query, 1, a.head_dim,
                             out_of(block) + token * context_.stride() + int64_t{head} * a.head_dim);
  });
}

void CpuBlocks::attention_out(const LayerPlan& l, const Rows& rows) {
  const PackedLayer& w = weights_.layers[static_cast<std::size_t>(l.index)];
  multiply({{&w.o, &branch_}}, context_, rows.count());
  for_rows(rows.count(), [&](int row, int) {
    kernels_.residual_norm(x_.row(row), branch_.row(row), l.post_attention.data(), 1.f, l.pre_ffn.data(),
                           plan_.norm_eps, plan_.d_model, xn_.row(row));
  });
}

/// hidden = gelu(gate x) * up x for panels [first, last) of gate and up.
void CpuBlocks::gated_panels(const MatmulWeights& gate, const MatmulWeights& up, IndexRange panels,
                             const Activations& x, int count, Matrix<float>& hidden, int64_t first_row,
                             Matrix<float>& tile) {
  const int64_t most = std::max<int64_t>(1, kTileFloats / (count * kPanelRows) - 1);
  for (int64_t first = panels.first; first < panels.last; first += most) {
    const int64_t tile_panels = std::min(most, panels.last - first);
    const int64_t stride = tile_panels * kPanelRows + 16;  // never a multiple of 4096 bytes
    const MatmulWeights up_tile = slice_panels(up, first, tile_panels);
    kernels_.matmul(gate, first, tile_panels, x, count, hidden.row(first_row), hidden.stride());
    kernels_.matmul(up_tile, 0, tile_panels, x, count, tile.row(0), stride);
    for (int row = 0; row < count; ++row) {
      float* out = hidden.row(first_row + row) + first * kPanelRows;
      kernels_.gelu_mul(out, tile.row(0) + row * stride, up_tile.linear.rows, out);
    }
  }
}

/// branch = down(gelu(gate xn) * up xn)
void CpuBlocks::dense_mlp(const LayerPlan& l, int count) {
  const PackedLayer& w = weights_.layers[static_cast<std::size_t>(l.index)];
  const Activations x = activations(xn_, w.gate, count);
  run_shares(w.gate.panels(), count, plan_.d_model, [&](IndexRange panels, int thread) {
    gated_panels(w.gate, w.up, panels, x, count, hidden_, 0, scratch_[static_cast<std::size_t>(thread)].tile);
  });
  multiply({{&w.down, &branch_}}, hidden_, count);
}

void CpuBlocks::ffn(const LayerPlan& l, const Rows& rows) {
  dense_mlp(l, rows.count());
  add_ffn_branch(l, rows.count());
}

/// x += norm(branch, post_ffn), and the layer's tail where no per-layer embedding follows.
void CpuBlocks::add_ffn_branch(const LayerPlan& l, int count) {
  if (!l.per_layer) return finish_layer(l, l.post_ffn, count);
  for_rows(count, [&](int row, int) {
    kernels_.residual_norm(x_.row(row), branch_.row(row), l.post_ffn.data(), 1.f, nullptr, plan_.norm_eps,
                           plan_.d_model, nullptr);
  });
}

/// x = (x + norm(branch, gain)) * scalar;  xn = norm(x, next_norm)
void CpuBlocks::finish_layer(const LayerPlan& l, Vec gain, int count) {
  for_rows(count, [&](int row, int) {
    kernels_.residual_norm(x_.row(row), branch_.row(row), gain.data(), l.tail.scalar, l.tail.next_norm.data(),
                           plan_.norm_eps, plan_.d_model, xn_.row(row));
  });
}

void CpuBlocks::per_layer_mix(const LayerPlan& l, const Rows& rows) {
  const PackedLayer& w = weights_.layers[static_cast<std::size_t>(l.index)];
  multiply({{&w.ple_gate, &hidden_}}, x_, rows.count());
  for_rows(rows.count(), [&](int row, int) {
    float* gate = hidden_.row(row);
    kernels_.gelu_mul(gate, ple_.row(row) + int64_t{l.index} * plan_.ple_dim, plan_.ple_dim, gate);
  });
  multiply({{&w.ple_proj, &branch_}}, hidden_, rows.count());
  finish_layer(l, l.per_layer->post, rows.count());
}

void CpuBlocks::logits(const ModelPlan& m, const Rows& rows) {
  const int count = rows.count();
  const Activations x = activations(xn_, weights_.head, count);
  float* out = logits_.row(0);
  run_shares(weights_.head.panels(), count, m.d_model, [&](IndexRange panels, int) {
    kernels_.matmul(weights_.head, panels.first, panels.count(), x, count, out, m.vocab);
    if (m.logit_cap == 0.f) return;
    const int64_t first = panels.first * kPanelRows,
                  last = std::min<int64_t>(panels.last * kPanelRows, m.vocab);
    for (int row = 0; row < count; ++row)
      kernels_.softcap(out + int64_t{row} * m.vocab + first, m.logit_cap, last - first);
  });
  logit_count_ = static_cast<std::size_t>(count) * static_cast<std::size_t>(m.vocab);
}

}  // namespace carat
