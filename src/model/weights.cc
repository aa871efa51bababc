#include "model/weights.h"

#include <cstring>

#include "base/error.h"
#include "base/float16.h"
#include "model/formats.h"

namespace carat {
namespace {

// Checkpoint data need not be aligned, so elements are copied out one by one.
template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

}  // namespace

std::size_t row_bytes(WeightFormat format, int64_t cols) {
  switch (format) {
    case WeightFormat::f32:
      return static_cast<std::size_t>(cols) * 4;
    case WeightFormat::f16:
    case WeightFormat::bf16:
      return static_cast<std::size_t>(cols) * 2;
    case WeightFormat::int8:
      return static_cast<std::size_t>(block_count(cols, kInt8Block)) * sizeof(Int8Block);
    case WeightFormat::int4:
      return static_cast<std::size_t>(block_count(cols, kInt4Block)) * sizeof(Int4Block);
  }
  CHECK(false);
}

Linear slice_rows(const Linear& w, int64_t first, int64_t count) {
  CHECK(first >= 0 && count >= 0 && first + count <= w.rows);
  Linear part = w;
  part.rows = count;
  part.data = w.data + row_bytes(w.format, w.cols) * static_cast<std::size_t>(first);
  return part;
}

void decode_row(const Linear& w, int64_t row, float* out) {
  const std::byte* at = w.data + row_bytes(w.format, w.cols) * static_cast<std::size_t>(row);
  switch (w.format) {
    case WeightFormat::f32:
      std::memcpy(out, at, row_bytes(w.format, w.cols));
      return;
    case WeightFormat::f16:
      for (int64_t i = 0; i < w.cols; ++i) out[i] = to_float(load<f16>(at + 2 * i));
      return;
    case WeightFormat::bf16:
      for (int64_t i = 0; i < w.cols; ++i) out[i] = to_float(load<bf16>(at + 2 * i));
      return;
    case WeightFormat::int8:
      decode_int8(at, w.cols, out);
      return;
    case WeightFormat::int4:
      decode_int4(at, w.cols, out);
      return;
  }
}

}  // namespace carat
