// Plans whose matrices are encoded as backends encode them, for comparisons: the reference backend decodes
// such rows.
#pragma once
#include <string_view>
#include <vector>

#include "model/formats.h"
#include "model/gemma4_plan.h"
#include "model/quantized_checkpoint.h"

namespace carat {

using EncodedMatrices = std::vector<std::vector<std::byte>>;

/// w in `format`, the bytes in `storage`.
inline Linear encoded(const Linear& w, WeightFormat format, EncodedMatrices& storage) {
  const std::size_t bytes = row_bytes(format, w.cols);
  auto& to = storage.emplace_back(bytes * static_cast<std::size_t>(w.rows));
  std::vector<float> row(static_cast<std::size_t>(w.cols));
  for (int64_t r = 0; r < w.rows; ++r) {
    decode_row(w, r, row.data());
    encode_row(format, row.data(), w.cols, to.data() + static_cast<std::size_t>(r) * bytes);
  }
  return {format, w.rows, w.cols, to.data()};
}

/// The plan as a backend that quantises at load has it: everything but the embedding tables in `format`, or
/// more bits where format_of_role() says so.
inline ModelPlan quantized_plan(ModelPlan plan, WeightFormat format, EncodedMatrices& storage) {
  const bool tied = plan.head.data == plan.embed.data;
  const Linear embed = plan.embed;
  for_each_linear(plan, [&](const char* role, Linear& w) {
    const WeightFormat to = format_of_role(role, w.format, format);
    if (to == w.format || std::string_view(role) == "embed" || std::string_view(role) == "ple_table") return;
    w = encoded(w, to, storage);
  });
  if (tied) plan.embed = embed;
  return plan;
}

}  // namespace carat
