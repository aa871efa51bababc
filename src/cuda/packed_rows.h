// How rows of weights lie in device memory. bf16 rows are plain. int8 and int4 rows are groups of 512
// columns: first the values of all columns of the group, then the scales of its blocks. A group, also a
// shorter last one, is a multiple of 16 bytes, so one bulk copy brings values and scales; all strides are
// powers of two apart from the group's own. Host and device share these functions.
#pragma once
#include <cstddef>
#include <cstdint>

#include "model/formats.h"
#include "model/weights.h"

namespace carat::cuda {

inline constexpr int kGroupShift = 9, kGroupCols = 1 << kGroupShift;

/// Columns that share a scale.
constexpr int block_cols(WeightFormat format) {
  return format == WeightFormat::int8 ? kInt8Block : kInt4Block;
}

/// Bytes of the values of `cols` columns.
constexpr int value_bytes(WeightFormat format, int cols) {
  return format == WeightFormat::bf16 ? 2 * cols : format == WeightFormat::int8 ? cols : cols / 2;
}

constexpr int round_up(int x, int multiple) { return (x + multiple - 1) / multiple * multiple; }

/// Bytes of a group of up to kGroupCols columns.
constexpr int group_bytes(WeightFormat format, int cols) {
  const int padded = round_up(cols, block_cols(format));
  return value_bytes(format, padded) + round_up(padded / block_cols(format) * 2, 16);
}

constexpr int packed_row_bytes(WeightFormat format, int cols) {
  if (format == WeightFormat::bf16) return 2 * cols;
  const int rest = cols % kGroupCols;
  return cols / kGroupCols * group_bytes(format, kGroupCols) + (rest > 0 ? group_bytes(format, rest) : 0);
}

/// Where in its row the value of a column begins: of an even column in bf16 and int8, of a multiple of 8 in
/// int4.
constexpr int value_offset(WeightFormat format, int column) {
  if (format == WeightFormat::bf16) return 2 * column;
  return (column >> kGroupShift) * group_bytes(format, kGroupCols) + value_bytes(format, column % kGroupCols);
}

/// Where in its row of `cols` columns the float16 scale of an int8 or int4 column is.
constexpr int scale_offset(WeightFormat format, int column, int cols) {
  const int group = column >> kGroupShift, rest = round_up(cols - group * kGroupCols, block_cols(format));
  return group * group_bytes(format, kGroupCols) +
         value_bytes(format, rest < kGroupCols ? rest : kGroupCols) +
         column % kGroupCols / block_cols(format) * 2;
}

/// Writes a row of blocks as model/formats.h has them, packed_row_bytes() long. Eight int4 columns are one
/// 32-bit word in which column 2 k is the nibble at bit 4 k and column 2 k + 1 the one at bit 16 + 4 k: a
/// mask takes out two neighbours as the halves of a word.
void pack_row(WeightFormat format, const std::byte* blocks, int cols, std::byte* out);

}  // namespace carat::cuda
