// What the kernel tests share: every instruction set this machine has, random data, weights in every format.
#pragma once
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "base/float16.h"
#include "base/random.h"
#include "cpu/kernels.h"
#include "model/formats.h"

namespace carat {

inline std::vector<Isa> available_isas() {
  std::vector<Isa> isas;
  for (const Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512, Isa::neon}) {
    if (isa_available(isa)) isas.push_back(isa);
  }
  return isas;
}

/// Roughly normal values; the same for the same seed.
inline std::vector<float> random_floats(int64_t count, uint64_t seed, float scale = 1.f) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    float sum = 0.f;
    for (uint64_t j = 0; j < 6; ++j) sum += random_uniform(seed, 6 * i + j) - 0.5f;
    values[i] = sum * 1.414f * scale;
  }
  return values;
}

/// A random matrix stored row-major in `format`, one byte past alignment as in a checkpoint.
struct StoredMatrix {
  StoredMatrix(WeightFormat format, int64_t rows, int64_t cols, uint64_t seed) {
    const std::size_t row_size = row_bytes(format, cols);
    bytes.resize(row_size * static_cast<std::size_t>(rows) + 1);
    linear = {format, rows, cols, bytes.data() + 1};
    for (int64_t r = 0; r < rows; ++r) {
      const std::vector<float> row = random_floats(cols, seed + static_cast<uint64_t>(r) * 7919, 0.1f);
      std::byte* at = bytes.data() + 1 + row_size * static_cast<std::size_t>(r);
      if (format == WeightFormat::int8 || format == WeightFormat::int4) {
        encode_row(format, row.data(), cols, at);
        continue;
      }
      for (int64_t c = 0; c < cols; ++c) {
        const float w = row[static_cast<size_t>(c)];
        const f16 half = to_f16(w);
        const bf16 brain = to_bf16(w);
        if (format == WeightFormat::f32) std::memcpy(at + 4 * c, &w, 4);
        if (format == WeightFormat::f16) std::memcpy(at + 2 * c, &half, 2);
        if (format == WeightFormat::bf16) std::memcpy(at + 2 * c, &brain, 2);
      }
    }
  }
  std::vector<std::byte> bytes;
  Linear linear;
};

/// Test suites that run once per instruction set.
class KernelTest : public testing::TestWithParam<Isa> {
 protected:
  const Kernels& kernels = kernels_for(GetParam());
};

inline std::string isa_test_name(const testing::TestParamInfo<Isa>& info) { return isa_name(info.param); }

}  // namespace carat
