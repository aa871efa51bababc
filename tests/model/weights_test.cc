#include "model/weights.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "base/float16.h"

namespace carat {
namespace {

TEST(Weights, RowsDecodeFromUnalignedBytes) {
  std::array<std::byte, 1 + 6 * 2> bytes{};
  for (int i = 0; i < 6; ++i) {
    const bf16 value = to_bf16(static_cast<float>(i) - 2.5f);
    std::memcpy(bytes.data() + 1 + 2 * i, &value, 2);
  }
  const Linear w{.format = WeightFormat::bf16, .rows = 2, .cols = 3, .data = bytes.data() + 1};
  std::array<float, 3> row;
  decode_row(w, 1, row.data());
  EXPECT_EQ(row, (std::array<float, 3>{0.5f, 1.5f, 2.5f}));
}

TEST(Weights, SliceIsAViewOfItsRows) {
  const std::array<float, 6> values{0, 1, 2, 3, 4, 5};
  const Linear w{.format = WeightFormat::f32,
                 .rows = 3,
                 .cols = 2,
                 .data = reinterpret_cast<const std::byte*>(values.data())};
  const Linear last = slice_rows(w, 2, 1);
  std::array<float, 2> row;
  decode_row(last, 0, row.data());
  EXPECT_EQ(row, (std::array<float, 2>{4, 5}));
  EXPECT_EQ(size_bytes(last), 8u);
}

}  // namespace
}  // namespace carat
