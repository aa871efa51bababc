// The quantised weight formats: blocks of neighbouring columns of one row that share a scale. Rows are
// independent, so callers quantise them in parallel. decode_row() of weights.h is the definition of what the
// blocks mean.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/float16.h"
#include "model/weights.h"

namespace carat {

/// Columns per block. The last block of a row is padded with zero weights.
inline constexpr int kInt8Block = 64, kInt4Block = 32;

/// w = scale * q, q in -127..127.
struct Int8Block {
  f16 scale;
  int8_t q[kInt8Block];
};
static_assert(sizeof(Int8Block) == 66);

/// w = scale * (nibble - 8). Column j < 16 is the low nibble of byte j, column j >= 16 the high one of byte j
/// - 16: the block that GGUF calls Q4_0.
struct Int4Block {
  f16 scale;
  uint8_t nibbles[kInt4Block / 2];
};
static_assert(sizeof(Int4Block) == 18);

constexpr int64_t block_count(int64_t cols, int block) { return (cols + block - 1) / block; }

/// "f32", "bf16", "int8", ...
const char* format_name(WeightFormat format);
/// The inverse. Throws Error{invalid_argument} that lists the formats.
WeightFormat parse_format(std::string_view name);

/// Writes row_bytes(format, cols) bytes for one row of float32 weights; format is int8 or int4. Weights that
/// lie on a 4-bit lattice (every one of a block is the bf16 rounding of d * m, m in -8..7) keep exactly these
/// m in int4. Throws Error{corrupt}, naming the column, when a weight isn't
/// finite or too large for the format.
void encode_row(WeightFormat format, const float* weights, int64_t cols, std::byte* out);

void decode_int8(const std::byte* row, int64_t cols, float* out);
void decode_int4(const std::byte* row, int64_t cols, float* out);

}  // namespace carat
