// Weights as the plan sees them: shape, storage format and where the bytes are. Only backends and formats.cc
// look inside the bytes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace carat {

/// int8 and int4 are blocks of neighbouring columns with a common scale; see formats.h.
enum class WeightFormat { f32, f16, bf16, int8, int4 };

/// A matrix [rows, cols], row-major, that maps a vector of `cols` to one of `rows`. A view: it owns nothing.
struct Linear {
  WeightFormat format = WeightFormat::bf16;
  int64_t rows = 0, cols = 0;
  const std::byte* data = nullptr;

  explicit operator bool() const { return data != nullptr; }
};

/// A small float32 vector, such as a norm's gains. A view into storage that the ModelPlan owns.
using Vec = std::span<const float>;

/// Bytes of one row of `cols` weights.
std::size_t row_bytes(WeightFormat format, int64_t cols);
inline std::size_t size_bytes(const Linear& w) {
  return row_bytes(w.format, w.cols) * static_cast<std::size_t>(w.rows);
}
/// Rows [first, first + count) of w.
Linear slice_rows(const Linear& w, int64_t first, int64_t count);
/// Writes row `row` as float32 [cols]: the definition of what a format means.
void decode_row(const Linear& w, int64_t row, float* out);

}  // namespace carat
