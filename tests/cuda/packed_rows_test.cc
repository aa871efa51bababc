// The layouts of weights on the GPU, decoded the way the kernels do.
#include "cuda/packed_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

namespace carat::cuda {
namespace {

template <class T>
T read(const std::vector<std::byte>& bytes, int at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

float packed_value(WeightFormat format, const std::vector<std::byte>& row, int column, int cols) {
  const float scale = to_float(read<f16>(row, scale_offset(format, column, cols)));
  if (format == WeightFormat::int8)
    return scale * static_cast<float>(read<int8_t>(row, value_offset(format, column)));
  const int j = column % 8;
  const auto word = read<uint32_t>(row, value_offset(format, column - j));
  return scale * (static_cast<float>(word >> (j / 2 * 4 + j % 2 * 16) & 15u) - 8.f);
}

class PackedRows : public testing::TestWithParam<WeightFormat> {};

TEST_P(PackedRows, HoldTheValuesOfTheBlocks) {
  const WeightFormat format = GetParam();
  for (const int cols : {8, 24, 64, 96, 504, 512, 520, 1000, 1536, 2568}) {
    SCOPED_TRACE(cols);
    std::vector<float> weights(static_cast<std::size_t>(cols)), expected(weights.size());
    for (int i = 0; i < cols; ++i)
      weights[static_cast<std::size_t>(i)] = std::sin(static_cast<float>(i * i)) * static_cast<float>(1 + i);
    std::vector<std::byte> blocks(row_bytes(format, cols));
    encode_row(format, weights.data(), cols, blocks.data());
    decode_row({format, 1, cols, blocks.data()}, 0, expected.data());
    std::vector<std::byte> packed(static_cast<std::size_t>(packed_row_bytes(format, cols)));
    pack_row(format, blocks.data(), cols, packed.data());
    for (int i = 0; i < cols; ++i)
      ASSERT_EQ(packed_value(format, packed, i, cols), expected[static_cast<std::size_t>(i)]) << i;
  }
}

TEST_P(PackedRows, CanBeCopiedInBulk) {
  for (int cols = 8; cols < 2100; cols += 8) EXPECT_EQ(packed_row_bytes(GetParam(), cols) % 16, 0) << cols;
}

TEST_P(PackedRows, TakeNoMoreThanTheBlocks) {
  const int cols = 3 * kGroupCols;
  EXPECT_EQ(packed_row_bytes(GetParam(), cols), static_cast<int>(row_bytes(GetParam(), cols)));
}

INSTANTIATE_TEST_SUITE_P(Formats, PackedRows, testing::Values(WeightFormat::int8, WeightFormat::int4),
                         [](const auto& format) { return std::string(format_name(format.param)); });

}  // namespace
}  // namespace carat::cuda
