#include "cuda/packed_rows.h"

#include <cstring>

#include "base/error.h"

namespace carat::cuda {
namespace {

uint32_t nibble(const Int4Block& block, int column) {
  return column < 16 ? block.nibbles[column] & 15u : block.nibbles[column - 16] >> 4;
}

void pack_values(const Int8Block& block, std::byte* out) { std::memcpy(out, block.q, sizeof block.q); }

void pack_values(const Int4Block& block, std::byte* out) {
  for (int first = 0; first < kInt4Block; first += 8) {
    uint32_t word = 0;
    for (int j = 0; j < 8; ++j) word |= nibble(block, first + j) << (j / 2 * 4 + j % 2 * 16);
    std::memcpy(out + first / 2, &word, sizeof word);
  }
}

template <class Block>
void pack_blocks(WeightFormat format, const std::byte* blocks, int cols, std::byte* out) {
  for (int column = 0; column < cols; column += block_cols(format)) {
    Block block;
    std::memcpy(&block, blocks, sizeof block);
    blocks += sizeof block;
    pack_values(block, out + value_offset(format, column));
    std::memcpy(out + scale_offset(format, column, cols), &block.scale, sizeof block.scale);
  }
}

}  // namespace

void pack_row(WeightFormat format, const std::byte* blocks, int cols, std::byte* out) {
  CHECK(format == WeightFormat::int8 || format == WeightFormat::int4);
  std::memset(out, 0, static_cast<std::size_t>(packed_row_bytes(format, cols)));  // also between the groups
  if (format == WeightFormat::int8)
    pack_blocks<Int8Block>(format, blocks, cols, out);
  else
    pack_blocks<Int4Block>(format, blocks, cols, out);
}

}  // namespace carat::cuda
