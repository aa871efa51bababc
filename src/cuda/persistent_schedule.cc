#include "cuda/persistent_schedule.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

#include "cuda/cuda_blocks.h"
#include "cuda/packed_rows.h"

namespace carat::cuda {
namespace {

constexpr int kWarps = 8, kMostSliceColumns = 1536, kMostSliceGroups = kMostSliceColumns / kGroupCols,
              kSliceColumnsStep = 256;
constexpr int kMostContextColumns = 4096;  // attention's context passes through shared memory

/// Tiles that a CTA has in flight: enough for nearly the full bandwidth. More lengthens the queue in front of
/// the small reads and writes that everybody waits for; the head has few of those.
constexpr uint32_t kTiles = 2, kTilesOfHead = 4;
/// The same for int8 and int4, where one large tile is enough: layers don't need the full bandwidth.
constexpr uint32_t kBytesInFlight = 50000;
// The loading thread waits for the tile so many places back: its stage must not have another one yet.
static_assert(kTilesOfHead <= kFewestRingStages);
/// CTAs that are not waited for where words have tags: those are read while the last ones are being written.
constexpr unsigned kMissing = 32;

bool can_slice(int64_t cols, int slices) { return cols % (8 * slices) == 0; }

/// Slices of a row: at least so many that a slice fits a lane's registers, more where a CTA has few rows.
/// Groups of int8 and int4 stay whole: their last slices may have fewer columns or none. 0 when there is no
/// such number.
int slices_of(WeightFormat format, int64_t cols, int rows_of_cta) {
  int slices = 1;
  if (format == WeightFormat::bf16) {
    while (cols / slices > kMostSliceColumns) slices *= 2;
    if (slices > kWarps || !can_slice(cols, slices)) return 0;
    while (2 * slices * rows_of_cta <= kWarps && cols / (2 * slices) % kSliceColumnsStep == 0) slices *= 2;
    return slices;
  }
  const int64_t groups = (cols + kGroupCols - 1) / kGroupCols;
  while (groups > kMostSliceGroups * slices) slices *= 2;
  while (2 * slices * rows_of_cta <= kWarps && slices < groups) slices *= 2;
  return slices > kWarps || cols % 8 != 0 ? 0 : slices;
}

/// Columns of all slices but the last ones.
int slice_columns(WeightFormat format, int cols, int slices) {
  if (slices == 1 || format == WeightFormat::bf16) return cols / slices;
  return (round_up(cols, kGroupCols) / kGroupCols + slices - 1) / slices * kGroupCols;
}

/// Rows of a tile: as many as fit; of int8 and int4, such that a CTA's `rows` take the warps the fewest
/// rounds of `together` rows.
int tile_rows_of(WeightFormat format, int row_bytes, int rows, int together) {
  const int most = ring_stage_bytes(format) / row_bytes;
  if (format == WeightFormat::bf16) return most;
  const auto rounds = [&](int tile) {
    const int rest = rows % tile;
    return rows / tile * ((tile + together - 1) / together) + (rest + together - 1) / together;
  };
  int best = std::min(most, rows);
  for (int tile = best - 1; tile > 0; --tile)
    if (rounds(tile) < rounds(best)) best = tile;
  return best;
}

/// The formats that the kernel for `format` multiplies.
bool takes(WeightFormat format, const Linear& w) {
  return w.format == format || (format == WeightFormat::int4 && w.format == WeightFormat::int8);
}

bool supports(WeightFormat format, const Linear& w) {
  return takes(format, w) &&
         packed_row_bytes(w.format, static_cast<int>(w.cols)) <= ring_stage_bytes(format) &&
         slices_of(w.format, w.cols, kWarps) > 0;
}

int64_t qkv_rows(const AttentionPlan& a) {
  return a.q.rows + (a.writes_kv ? a.k.rows : 0) + (a.v ? a.v.rows : 0);
}

class Builder {
 public:
  Builder(const ModelPlan& plan, const KvLayers& kv, const PersistentBuffers& buffers, int ctas)
      : plan_(plan), kv_(kv), buffers_(buffers), tapes_(static_cast<std::size_t>(ctas)), ctas_(ctas) {}

  PersistentSchedule build();

 private:
  void add(Phase name, const TokenPhase& phase) {
    out_.phases.push_back(phase);
    out_.names.push_back(name);
  }
  int last_phase() const { return static_cast<int>(out_.phases.size()) - 1; }
  VectorInput residual(const float* gain, float scalar, const float* next) const;
  void add_layer(const LayerPlan& l, const VectorInput& input, bool waits);
  void add_product(Phase name, const Linear& w, int64_t rows, TokenPhase phase);
  void add_attention(const LayerPlan& l, int qkv);
  void add_per_layer_inputs();
  const TokenPhase& awaited(const TokenPhase& phase) const {
    return out_.phases[static_cast<std::size_t>(phase.wait_for)];
  }
  MarkedFloat* context(const AttentionPlan& a) const {
    return buffers_.context[static_cast<std::size_t>(a.kv_group)];
  }
  unsigned missing(const TokenPhase& phase) const;
  void count_marks();
  void join_tapes();

  const ModelPlan& plan_;
  const KvLayers& kv_;
  const PersistentBuffers& buffers_;
  PersistentSchedule out_;
  std::vector<std::vector<TapeEntry>> tapes_;
  const WeightFormat format_ = persistent_format(plan_);
  int ctas_, rest_first_ = 0;
};

VectorInput plain(const float* in) {
  VectorInput input;
  input.in = in;
  return input;
}

/// Such words travel where a float would: readers and writers of such phases know.
const float* as_floats(const MarkedFloat* words) { return reinterpret_cast<const float*>(words); }

TokenPhase product(const VectorInput& input, float* out, int wait_for) {
  TokenPhase phase{};
  phase.kind = PhaseKind::product;
  phase.input = input;
  phase.output.out = out;
  phase.wait_for = wait_for;
  return phase;
}

TokenPhase product(const VectorInput& input, TaggedFloat* out, int wait_for) {
  TokenPhase phase = product(input, reinterpret_cast<float*>(out), wait_for);
  phase.writes_tagged = true;
  return phase;
}

TokenPhase product(const VectorInput& input, MarkedFloat* out, int wait_for) {
  TokenPhase phase = product(input, reinterpret_cast<float*>(out), wait_for);
  phase.writes_tagged = phase.writes_marked = true;
  return phase;
}

void set_attention(TokenPhase& phase, const AttentionPlan& a, const KvLayer& kv) {
  phase.heads = a.heads;
  phase.window = a.window;
  phase.writes_kv = a.writes_kv;
  phase.has_v = static_cast<bool>(a.v);
  phase.kv = kv;
  phase.q_norm = a.q_norm.data();
  phase.k_norm = a.k_norm.data();
}

/// Without a gain: x as it is.
VectorInput Builder::residual(const float* gain, float scalar, const float* next) const {
  VectorInput input;
  input.source = VectorSource::residual;
  input.branch = gain ? as_floats(buffers_.branch) : nullptr;
  input.branch_gain = gain;
  input.norm_gain = next;
  input.scalar = scalar;
  input.eps = plan_.norm_eps;
  return input;
}

void Builder::add_per_layer_inputs() {
  TokenPhase phase{};
  phase.kind = PhaseKind::per_layer_inputs;
  phase.wait_for = 0;  // the projection
  phase.layers = static_cast<int>(plan_.layers.size());
  PerLayerFactor& factor = phase.output.factor;
  factor.raw = buffers_.projected;
  factor.gain = plan_.ple_norm.data();
  factor.table = matrix(plan_.ple_table);
  factor.project_scale = 1.f / std::sqrt(static_cast<float>(plan_.d_model));
  factor.table_scale = plan_.ple_embed_scale;
  phase.output.out = buffers_.per_layer;
  add(Phase::per_layer_inputs, phase);
}

/// q, k and v follow a product so short that all CTAs end it at about the same time: they look for its words
/// at once, without a counter in front.
/// None where a CTA may have nothing to write: it could still read what a later phase writes there.
unsigned Builder::missing(const TokenPhase& phase) const {
  if (!phase.reads_marked) return 0;
  const TokenPhase& before = awaited(phase);
  const int each = before.kind == PhaseKind::attention ? phase.outputs_each : before.outputs_each;
  const bool at_once =
      before.input.in == as_floats(buffers_.mixed) && phase.writes_tagged && !phase.writes_marked;
  if (at_once && each > 0 && phase.outputs_each > 0) return static_cast<unsigned>(ctas_);
  return each > 0 ? std::min(kMissing, static_cast<unsigned>(ctas_) / 4) : 0;
}

/// Shares out the rows, neighbouring ones to each CTA; the CTAs with one row more are others each time.
void Builder::add_product(Phase name, const Linear& w, int64_t rows, TokenPhase phase) {
  const bool gated = phase.output.finish == VectorFinish::gated_gelu;
  const int outputs = static_cast<int>(rows) >> (gated ? 1 : 0), most = (outputs + ctas_ - 1) / ctas_;
  const int slices = slices_of(w.format, w.cols, most);
  phase.format = w.format;
  phase.rows_shift = gated ? 1 : 0;
  phase.outputs_each = outputs / ctas_;
  phase.outputs_rest = outputs % ctas_;
  phase.rest_first = rest_first_;
  phase.reads_marked = phase.wait_for >= 0 && awaited(phase).writes_marked;
  rest_first_ = (rest_first_ + phase.outputs_rest) % ctas_;
  phase.cols = static_cast<int>(w.cols);
  phase.row_bytes = packed_row_bytes(w.format, phase.cols);
  phase.slices_shift = std::countr_zero(static_cast<unsigned>(slices));
  phase.slice_cols = slice_columns(w.format, phase.cols, slices);
  phase.slice_bytes = packed_row_bytes(w.format, phase.slice_cols);
  const int together = (w.format == WeightFormat::int8 ? 2 : 4) * kWarps / slices;
  phase.tile_rows = tile_rows_of(format_, phase.row_bytes, most, together);
  out_.sums_floats = std::max(out_.sums_floats, (most << phase.rows_shift) * slices);
  const uint32_t in_flight = phase.output.finish == VectorFinish::logits ? kTilesOfHead : kTiles;
  phase.missing = missing(phase);
  for (int place = 0; place < ctas_; ++place) {
    const int first = place * phase.outputs_each + std::min(place, phase.outputs_rest);
    const int count = phase.outputs_each + (place < phase.outputs_rest ? 1 : 0);
    auto& tape = tapes_[static_cast<std::size_t>((place + phase.rest_first) % ctas_)];
    for (int half = 0; half <= phase.rows_shift; ++half) {
      for (int row = 0; row < count; row += phase.tile_rows) {
        const std::size_t from = static_cast<std::size_t>(half * outputs + first + row);
        tape.push_back({w.data + from * static_cast<std::size_t>(phase.row_bytes),
                        static_cast<uint32_t>(std::min(phase.tile_rows, count - row) * phase.row_bytes),
                        in_flight});
      }
    }
  }
  add(name, phase);
}

void Builder::add_attention(const LayerPlan& l, int qkv) {
  TokenPhase phase{};
  phase.kind = PhaseKind::attention;
  phase.wait_for = qkv;
  phase.writes_tagged = phase.writes_marked = true;
  phase.output.out = reinterpret_cast<float*>(context(l.attention));
  set_attention(phase, l.attention, kv_[static_cast<std::size_t>(l.index)]);
  out_.vector_floats = std::max({out_.vector_floats, attention_scratch_floats(l.attention.head_dim),
                                 group_scratch_floats(l.attention.head_dim)});
  add(Phase::attention, phase);
}

/// What follows the input of a layer. `waits`: for the phase in front of it.
void Builder::add_layer(const LayerPlan& l, const VectorInput& input, bool waits) {
  const AttentionPlan& a = l.attention;
  add_product(Phase::qkv, a.q, qkv_rows(a), product(input, buffers_.qkv, waits ? last_phase() : -1));
  const int qkv = last_phase();
  // By now the projection is there without waiting, and long before the first gate everybody waits in full.
  if (l.index == 0 && plan_.ple_dim > 0) add_per_layer_inputs();
  add_attention(l, qkv);
  out_.vector_floats = std::max(out_.vector_floats, static_cast<int>(a.o.cols));
  add_product(Phase::output, a.o, a.o.rows,
              product(plain(as_floats(context(a))), buffers_.branch, last_phase()));
  TokenPhase hidden =
      product(residual(l.post_attention.data(), 1.f, l.pre_ffn.data()), buffers_.hidden, last_phase());
  hidden.output.finish = VectorFinish::gated_gelu;
  add_product(Phase::gate_up, l.gate, 2 * l.gate.rows, hidden);
  add_product(Phase::down, l.down, l.down.rows,
              product(plain(buffers_.hidden), buffers_.branch, last_phase()));
  if (!l.per_layer) return;
  TokenPhase mixed = product(residual(l.post_ffn.data(), 1.f, nullptr), buffers_.mixed, last_phase());
  mixed.output.finish = VectorFinish::per_layer;
  mixed.output.factor.raw = buffers_.per_layer + l.index * plan_.ple_dim;
  add_product(Phase::per_layer_mix, l.per_layer->gate, l.per_layer->gate.rows, mixed);
  add_product(Phase::per_layer_mix, l.per_layer->proj, l.per_layer->proj.rows,
              product(plain(as_floats(buffers_.mixed)), buffers_.branch, last_phase()));
}

/// Tiles of int8 and int4 differ much in size: a short phase is one small tile. Small ones may be more.
void limit_bytes(std::vector<TapeEntry>& tape) {
  for (std::size_t i = 0; i < tape.size(); ++i) {
    if (tape[i].tiles_in_flight == kTilesOfHead) continue;
    uint32_t tiles = 1, bytes = tape[i].bytes;
    while (tiles < kFewestRingStages && tiles <= i && bytes + tape[i - tiles].bytes <= kBytesInFlight)
      bytes += tape[i - tiles++].bytes;
    tape[i].tiles_in_flight = tiles;
  }
}

/// How often, and the how many-th time in a launch, words are written, for those who write and those who
/// read.
void Builder::count_marks() {
  std::map<const float*, uint32_t> times;
  for (TokenPhase& phase : out_.phases)
    if (phase.writes_marked) phase.output_mark.index = ++times[phase.output.out];
  for (TokenPhase& phase : out_.phases)
    if (phase.writes_marked) phase.output_mark.per_launch = times[phase.output.out];
  for (TokenPhase& phase : out_.phases)
    if (phase.reads_marked) phase.input_mark = awaited(phase).output_mark;
}

/// One tape behind the other.
void Builder::join_tapes() {
  for (std::vector<TapeEntry>& tape : tapes_) {
    if (format_ != WeightFormat::bf16) limit_bytes(tape);
    out_.ranges.push_back({static_cast<uint32_t>(out_.tape.size()), static_cast<uint32_t>(tape.size())});
    out_.tape.insert(out_.tape.end(), tape.begin(), tape.end());
  }
}

PersistentSchedule Builder::build() {
  out_.vector_floats = plan_.d_model;
  if (plan_.ple_dim > 0)
    add_product(Phase::per_layer_inputs, plan_.ple_project, plan_.ple_project.rows,
                product(residual(nullptr, 1.f, nullptr), buffers_.projected, -1));
  VectorInput input = residual(nullptr, 1.f, plan_.first_norm.data());
  for (const LayerPlan& l : plan_.layers) {
    add_layer(l, input, /*waits=*/l.index > 0);
    const Vec gain = l.per_layer ? l.per_layer->post : l.post_ffn;
    input = residual(gain.data(), l.tail.scalar, l.tail.next_norm.data());
  }
  TokenPhase head = product(input, static_cast<float*>(nullptr), last_phase());
  head.output.finish = VectorFinish::logits;
  add_product(Phase::head, plan_.head, plan_.head.rows, head);
  count_marks();
  join_tapes();
  return std::move(out_);
}

}  // namespace

WeightFormat persistent_format(const ModelPlan& plan) { return plan.layers.front().attention.q.format; }

bool persistent_supports(const ModelPlan& plan, int ctas) {
  const WeightFormat format = persistent_format(plan);
  const auto takes = [&](const Linear& w) { return supports(format, w); };
  if (!has_persistent_kernel(format, plan.d_model, plan.kv_groups[kFullGroup].head_dim,
                             plan.kv_groups[kSlidingGroup].head_dim) ||
      !takes(plan.head) || plan.head.rows < ctas)  // every CTA has something on its tape
    return false;
  if (plan.ple_dim > 0 && (!takes(plan.ple_project) || plan.ple_dim > 32 * ctas)) return false;
  return std::ranges::all_of(plan.layers, [&](const LayerPlan& l) {
    return !l.moe && l.attention.heads <= ctas && l.attention.o.cols <= kMostContextColumns &&
           takes(l.attention.q) && takes(l.attention.o) && takes(l.gate) && takes(l.down) &&
           (!l.per_layer || (takes(l.per_layer->gate) && takes(l.per_layer->proj)));
  });
}

PersistentSchedule persistent_schedule(const ModelPlan& plan, const KvLayers& kv,
                                       const PersistentBuffers& buffers, int ctas) {
  return Builder(plan, kv, buffers, ctas).build();
}

}  // namespace carat::cuda
