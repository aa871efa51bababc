#include "cpu/kernels.h"

#include "base/error.h"
#include "model/formats.h"

namespace carat {

WeightFormat packed_format(WeightFormat stored) {
  return stored == WeightFormat::f16 ? WeightFormat::f32 : stored;
}

std::size_t panel_bytes(WeightFormat packed, int64_t cols) {
  const auto blocks = [&](int block) { return static_cast<std::size_t>(block_count(cols, block)); };
  switch (packed) {
    case WeightFormat::f32:
      return static_cast<std::size_t>(cols) * kPanelRows * 4;
    case WeightFormat::bf16:
      return static_cast<std::size_t>(cols) * kPanelRows * 2;
    case WeightFormat::int8:
      return blocks(kInt8Block) * kPanelRows * sizeof(Int8Block);
    case WeightFormat::int4:
      return blocks(kInt4Block) * kPanelRows * sizeof(Int4Block);
    case WeightFormat::f16:
      break;
  }
  CHECK(false);
}

}  // namespace carat
