#include "cpu/packed_weights.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/float16.h"
#include "base/memory_text.h"
#include "model/formats.h"
#include "model/quantized_checkpoint.h"

namespace carat {
namespace {

/// One matrix on its way from the checkpoint into the arena.
struct Packing {
  Linear source;
  WeightFormat format;  // of the rows handed to pack_panels
  MatmulWeights* packed;
  bool expert;
};

/// Lists every matrix of the plan in the order in which a decode step reads them, and gives `weights` its
/// shape.
std::vector<Packing> list_matrices(const ModelPlan& plan, std::optional<WeightFormat> wanted,
                                   PackedWeights& weights) {
  std::vector<Packing> list;
  bool expert = false;
  const auto add = [&](const char* role, const Linear& source, MatmulWeights& packed) {
    if (!source) return;
    const WeightFormat format = wanted ? format_of_role(role, source.format, *wanted) : source.format;
    list.push_back({source, format, &packed, expert});
  };
  add("ple_project", plan.ple_project, weights.ple_project);
  for (std::size_t i = 0; i < plan.layers.size(); ++i) {
    const LayerPlan& l = plan.layers[i];
    PackedLayer& packed = weights.layers[i];
    add("q", l.attention.q, packed.q);
    add("k", l.attention.k, packed.k);
    add("v", l.attention.v, packed.v);
    add("o", l.attention.o, packed.o);
    add("gate", l.gate, packed.gate);
    add("up", l.up, packed.up);
    add("down", l.down, packed.down);
    if (l.moe) {
      const MoePlan& moe = *l.moe;
      const int64_t width = moe.intermediate_size;
      add("router", moe.router, packed.router);
      packed.experts.resize(static_cast<std::size_t>(moe.experts));
      expert = true;
      for (int64_t e = 0; e < moe.experts; ++e) {
        PackedExpert& to = packed.experts[static_cast<std::size_t>(e)];
        add("experts_gate_up", slice_rows(moe.gate_up, 2 * e * width, width), to.gate);
        add("experts_gate_up", slice_rows(moe.gate_up, (2 * e + 1) * width, width), to.up);
        add("experts_down", slice_rows(moe.down, e * plan.d_model, plan.d_model), to.down);
      }
      expert = false;
    }
    if (l.per_layer) {
      add("ple_gate", l.per_layer->gate, packed.ple_gate);
      add("ple_proj", l.per_layer->proj, packed.ple_proj);
    }
  }
  add("head", plan.head, weights.head);
  return list;
}

bool is_quantized(WeightFormat format) {
  return format == WeightFormat::int8 || format == WeightFormat::int4;
}

void check_options(const std::vector<Packing>& list, const PackOptions& options) {
  for (const Packing& matrix : list) {
    const WeightFormat stored = matrix.source.format;
    if (is_quantized(stored) && options.format) {
      fail(ErrorKind::invalid_argument, "the checkpoint's weights are already quantised (",
           format_name(stored), "); load it without a format");
    }
    if (is_quantized(stored) && options.in_place) {
      fail(ErrorKind::invalid_argument, format_name(stored),
           " weights can't be read in place; load the checkpoint without mmap");
    }
    if (options.in_place && matrix.format != stored) {
      fail(ErrorKind::invalid_argument, "weights read in place stay ", format_name(stored),
           "; drop mmap or the format ", format_name(*options.format));
    }
  }
}

std::size_t packed_bytes(const MatmulWeights& w) {
  return static_cast<std::size_t>(w.panels()) * panel_bytes(w.linear.format, w.linear.cols);
}

void round_row(const float* row, int64_t cols, std::byte* out) {
  auto* rounded = reinterpret_cast<bf16*>(out);
  for (int64_t i = 0; i < cols; ++i) rounded[i] = to_bf16(row[i]);
}

/// Packs panels [range.first, range.last) of one matrix, converting one panel's rows at a time where needed.
class PanelPacker {
 public:
  PanelPacker(const ModelPlan& plan, const Kernels& kernels, const Packing& matrix)
      : plan_(plan), kernels_(kernels), matrix_(matrix) {}

  void pack(IndexRange panels, std::byte* out) {
    if (matrix_.format == matrix_.source.format) {
      kernels_.pack_panels(matrix_.source, panels.first, panels.count(), out);
      return;
    }
    const Linear& source = matrix_.source;
    const std::size_t row_size = row_bytes(matrix_.format, source.cols);
    row_.resize(static_cast<std::size_t>(source.cols));
    converted_.resize(row_size * kPanelRows);
    for (int64_t panel = panels.first; panel < panels.last; ++panel) {
      const int64_t first = panel * kPanelRows, count = std::min<int64_t>(kPanelRows, source.rows - first);
      for (int64_t r = 0; r < count; ++r) {
        kernels_.decode_row(source, first + r, 1.f, row_.data());
        convert_row(first + r, converted_.data() + row_size * static_cast<std::size_t>(r));
      }
      const Linear rows{matrix_.format, count, source.cols, converted_.data()};
      kernels_.pack_panels(rows, 0, 1, out);
      out += panel_bytes(matrix_.packed->linear.format, source.cols);
    }
  }

 private:
  void convert_row(int64_t row, std::byte* out) const {
    if (is_quantized(matrix_.format)) {
      return encode_row_of(plan_, matrix_.source, row, matrix_.format, row_.data(), out);
    }
    CHECK(matrix_.format == WeightFormat::bf16);
    round_row(row_.data(), matrix_.source.cols, out);
  }

  const ModelPlan& plan_;
  const Kernels& kernels_;
  const Packing& matrix_;
  std::vector<float> row_;
  std::vector<std::byte> converted_;
};

/// Each thread packs, and so touches first, about what it will read.
void pack_matrix(const ModelPlan& plan, const Packing& matrix, std::byte* out, const Kernels& kernels,
                 ThreadPool& pool) {
  const std::size_t bytes = panel_bytes(matrix.packed->linear.format, matrix.source.cols);
  pool.run_throwing([&](int thread) {
    const IndexRange panels = share_of(matrix.packed->panels(), thread, pool.size());
    PanelPacker(plan, kernels, matrix).pack(panels, out + bytes * static_cast<std::size_t>(panels.first));
  });
}

std::size_t read_per_token(const ModelPlan& plan, const std::vector<Packing>& list) {
  std::size_t bytes = 0, expert_bytes = 0;
  for (const Packing& matrix : list) {
    const MatmulWeights& w = *matrix.packed;
    (matrix.expert ? expert_bytes : bytes) +=
        w.layout == WeightLayout::panels ? packed_bytes(w) : size_bytes(w.linear);
  }
  for (const LayerPlan& l : plan.layers) {
    if (!l.moe) continue;  // all expert layers have the same number of experts
    return bytes + expert_bytes * static_cast<std::size_t>(l.moe->experts_per_token) /
                       static_cast<std::size_t>(l.moe->experts);
  }
  return bytes;
}

}  // namespace

PackedWeights::PackedWeights(const ModelPlan& plan, const PackOptions& options, const Kernels& kernels,
                             ThreadPool& pool)
    : layers(plan.layers.size()) {
  const std::vector<Packing> list = list_matrices(plan, options.format, *this);
  check_options(list, options);
  std::size_t total = 0;
  for (const Packing& matrix : list) {
    *matrix.packed = {WeightLayout::rows, matrix.source};
    quantized_ |= is_quantized(matrix.format);
    if (options.in_place) continue;
    matrix.packed->layout = WeightLayout::panels;
    matrix.packed->linear.format = packed_format(matrix.format);
    total += packed_bytes(*matrix.packed);
  }
  bytes_per_token_ = read_per_token(plan, list);
  if (options.in_place) return;

  const std::size_t available = available_memory_bytes();
  if (available > 0 && total > available) {
    fail(ErrorKind::out_of_memory, "the weights need ", memory_text_up(total), " of memory, ",
         memory_text(available), " are free; a smaller format (int8, int4) or mmap needs less");
  }
  memory_ = HugePages(total, "the weights");
  std::size_t done = 0;
  for (const Packing& matrix : list) {
    matrix.packed->linear.data = memory_.data() + done;
    pack_matrix(plan, matrix, memory_.data() + done, kernels, pool);
    done += packed_bytes(*matrix.packed);
    if (options.progress) options.progress(static_cast<double>(done) / static_cast<double>(total));
  }
}

MatmulWeights slice_panels(const MatmulWeights& w, int64_t first, int64_t count) {
  const int64_t first_row = first * kPanelRows,
                rows = std::min(count * kPanelRows, w.linear.rows - first_row);
  if (w.layout == WeightLayout::rows) return {w.layout, slice_rows(w.linear, first_row, rows)};
  MatmulWeights part = w;
  part.linear.rows = rows;
  part.linear.data += static_cast<std::size_t>(first) * panel_bytes(w.linear.format, w.linear.cols);
  return part;
}

}  // namespace carat
