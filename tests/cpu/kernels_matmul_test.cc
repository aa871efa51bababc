// matmul against float64 sums over decode_row, for every format, layout, odd shape and instruction set.
#include <cmath>
#include <limits>
#include <string>

#include "kernels_support.h"

namespace carat {
namespace {

struct PackedMatrix {
  PackedMatrix(const Kernels& kernels, const Linear& stored) {
    weights.linear = stored;
    weights.linear.format = packed_format(stored.format);
    const std::size_t panel = panel_bytes(weights.linear.format, stored.cols);
    const std::size_t panels = static_cast<std::size_t>(weights.panels());
    bytes.resize(panel * panels + 64);
    const std::size_t misaligned = reinterpret_cast<uintptr_t>(bytes.data()) % 64;
    std::byte* at = bytes.data() + (64 - misaligned) % 64;
    weights.linear.data = at;
    // Panels are independent: pack them in two calls.
    const int64_t first = weights.panels() / 2;
    kernels.pack_panels(stored, 0, first, at);
    kernels.pack_panels(stored, first, weights.panels() - first,
                        at + panel * static_cast<std::size_t>(first));
  }
  std::vector<std::byte> bytes;
  MatmulWeights weights;
};

// Activation rows with gaps between them, as floats and as 8-bit integers for weights of `format`.
struct Inputs {
  Inputs(const Kernels& kernels, WeightFormat format, int tokens, int64_t cols, uint64_t seed)
      : stride(cols + 3),
        quantized_stride(quantized_cols(cols) + 2),
        blocks_stride(block_count(cols, kInt4Block) + 1),
        floats(random_floats(tokens * stride, seed)),
        quantized(static_cast<size_t>(tokens * quantized_stride)),
        blocks(static_cast<size_t>(tokens * blocks_stride)) {
    if (format != WeightFormat::int8 && format != WeightFormat::int4) return;
    const int64_t block = format == WeightFormat::int8 ? kInt8Block : kInt4Block;
    for (int t = 0; t < tokens; ++t) {
      float* x = floats.data() + t * stride;
      int8_t* q = quantized.data() + t * quantized_stride;
      ActivationBlock* own = blocks.data() + t * blocks_stride;
      kernels.quantize(format, x, cols, q, own);
      // The products are exact for activations that are what their integers say.
      for (int64_t c = 0; c < cols; ++c) x[c] = own[c / block].scale * static_cast<float>(q[c]);
    }
  }
  Activations from(int token) const {
    return {floats.data() + token * stride,
            stride,
            quantized.data() + token * quantized_stride,
            quantized_stride,
            blocks.data() + token * blocks_stride,
            blocks_stride};
  }
  int64_t stride, quantized_stride, blocks_stride;
  std::vector<float> floats;
  std::vector<int8_t> quantized;
  std::vector<ActivationBlock> blocks;
};

struct Shape {
  int64_t rows, cols;
  int tokens;
};

constexpr Shape kShapes[] = {{1, 1, 1},      {32, 64, 1},   {33, 63, 2},   {17, 512, 3},
                             {70, 513, 4},   {16, 130, 5},  {48, 1025, 7}, {96, 96, 12},
                             {31, 1100, 13}, {64, 640, 16}, {5, 34, 25},   {80, 257, 37}};

std::vector<float> multiply(const Kernels& kernels, const MatmulWeights& w, const Activations& x,
                            int tokens) {
  const int64_t y_stride = w.linear.rows + 5;
  std::vector<float> y(static_cast<size_t>(tokens * y_stride), -7.f);
  const int64_t first = w.panels() / 3;
  kernels.matmul(w, 0, first, x, tokens, y.data(), y_stride);
  kernels.matmul(w, first, w.panels() - first, x, tokens, y.data(), y_stride);
  std::vector<float> dense;
  for (int t = 0; t < tokens; ++t) {
    const float* row = y.data() + t * y_stride;
    dense.insert(dense.end(), row, row + w.linear.rows);
    for (int64_t i = w.linear.rows; i < y_stride; ++i) EXPECT_EQ(row[i], -7.f) << "wrote past the last row";
  }
  return dense;
}

// The largest error, relative to the sum of the products' magnitudes.
double worst_error(const Linear& stored, const Inputs& inputs, int tokens, const std::vector<float>& y) {
  std::vector<float> row(static_cast<size_t>(stored.cols));
  double worst = 0.;
  for (int64_t r = 0; r < stored.rows; ++r) {
    decode_row(stored, r, row.data());
    for (int t = 0; t < tokens; ++t) {
      double sum = 0., magnitude = 1e-30;
      for (int64_t c = 0; c < stored.cols; ++c) {
        const double product =
            double{row[static_cast<size_t>(c)]} * inputs.floats[static_cast<size_t>(t * inputs.stride + c)];
        sum += product;
        magnitude += std::abs(product);
      }
      const double got = y[static_cast<size_t>(t * stored.rows + r)];
      worst = std::max(worst, std::isfinite(got) ? std::abs(got - sum) / magnitude : 1.);
    }
  }
  return worst;
}

class MatmulTest : public KernelTest {};

TEST_P(MatmulTest, AgreesWithDecodedRowsForEveryFormatLayoutAndShape) {
  for (const WeightFormat format :
       {WeightFormat::f32, WeightFormat::f16, WeightFormat::bf16, WeightFormat::int8, WeightFormat::int4}) {
    for (const Shape& shape : kShapes) {
      const StoredMatrix stored(format, shape.rows, shape.cols, 11);
      const Inputs inputs(kernels, format, shape.tokens, shape.cols, 5);
      const PackedMatrix packed(kernels, stored.linear);
      const std::string what = std::string(format_name(format)) + " " + std::to_string(shape.rows) + "x" +
                               std::to_string(shape.cols) + " tokens " + std::to_string(shape.tokens);
      const auto y = multiply(kernels, packed.weights, inputs.from(0), shape.tokens);
      EXPECT_LT(worst_error(stored.linear, inputs, shape.tokens, y), 1e-6) << what;
      if (packed.weights.quantized()) continue;
      const MatmulWeights in_place{WeightLayout::rows, stored.linear};
      EXPECT_EQ(multiply(kernels, in_place, inputs.from(0), shape.tokens), y) << what << " as stored";
    }
  }
}

TEST_P(MatmulTest, ResultsDoNotDependOnTheBatch) {
  constexpr int kTokens = 40;
  for (const WeightFormat format :
       {WeightFormat::f32, WeightFormat::bf16, WeightFormat::int8, WeightFormat::int4}) {
    const StoredMatrix stored(format, 50, 1090, 3);
    const PackedMatrix packed(kernels, stored.linear);
    const Inputs inputs(kernels, format, kTokens, 1090, 8);
    const auto together = multiply(kernels, packed.weights, inputs.from(0), kTokens);
    for (int first = 0, count = 1; first < kTokens; first += count, count = count % 13 + 1) {
      count = std::min(count, kTokens - first);
      const auto alone = multiply(kernels, packed.weights, inputs.from(first), count);
      const auto begin = together.begin() + first * stored.linear.rows;
      EXPECT_TRUE(std::equal(alone.begin(), alone.end(), begin))
          << format_name(format) << " tokens from " << first;
    }
  }
}

TEST_P(MatmulTest, QuantizedActivationsAreWithinHalfAStep) {
  for (const WeightFormat format : {WeightFormat::int8, WeightFormat::int4}) {
    const int64_t block = format == WeightFormat::int8 ? kInt8Block : kInt4Block;
    for (const int64_t cols : {1, 16, 33, 64, 200}) {
      const auto x = random_floats(cols, 21, 3.f);
      std::vector<int8_t> q(static_cast<size_t>(quantized_cols(cols)), 99);
      std::vector<ActivationBlock> blocks(static_cast<size_t>(block_count(cols, kInt4Block)));
      kernels.quantize(format, x.data(), cols, q.data(), blocks.data());
      for (int64_t i = 0; i < cols; ++i) {
        const float scale = blocks[static_cast<size_t>(i / block)].scale;
        EXPECT_NEAR(scale * q[static_cast<size_t>(i)], x[static_cast<size_t>(i)], scale * 0.505f);
      }
      for (int64_t i = cols; i < quantized_cols(cols); ++i) EXPECT_EQ(q[static_cast<size_t>(i)], 0);
    }
  }
}

TEST_P(MatmulTest, BlocksOfZerosQuantizeToZeros) {
  std::vector<float> x(100, 0.f);
  x[70] = 5.f;
  std::vector<int8_t> q(128, 99), expected(128, 0);
  expected[70] = 127;
  ActivationBlock blocks[2];
  kernels.quantize(WeightFormat::int8, x.data(), 100, q.data(), blocks);
  EXPECT_EQ(blocks[0].scale, 0.f);
  EXPECT_EQ(blocks[0].start, 0);
  EXPECT_EQ(q, expected);
}

TEST_P(MatmulTest, ABlockWithAValueThatIsNotFiniteHasNoScale) {
  for (const float broken :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    for (const size_t at : {size_t{0}, size_t{31}, size_t{99}}) {
      std::vector<float> x(100, 1.f);
      x[at] = broken;
      std::vector<int8_t> q(128);
      ActivationBlock blocks[2];
      kernels.quantize(WeightFormat::int8, x.data(), 100, q.data(), blocks);
      EXPECT_TRUE(std::isnan(blocks[at / 64].scale)) << at;
      EXPECT_FALSE(std::isnan(blocks[1 - at / 64].scale)) << at;
    }
  }
}

// Integer sums have no rounding: the extreme values must not overflow.
TEST_P(MatmulTest, LargestWeightsAndActivationsDoNotOverflow) {
  constexpr int64_t kCols = 2048;
  for (const WeightFormat format : {WeightFormat::int8, WeightFormat::int4}) {
    for (const float sign : {1.f, -1.f}) {
      std::vector<std::byte> bytes(row_bytes(format, kCols));
      const std::vector<float> ones(kCols, -1.f), x(kCols, 1000.f * sign);
      encode_row(format, ones.data(), kCols, bytes.data());
      const Linear stored{format, 1, kCols, bytes.data()};
      const PackedMatrix packed(kernels, stored);
      std::vector<int8_t> q(kCols);
      std::vector<ActivationBlock> blocks(kCols / kInt4Block);
      std::vector<float> decoded(kCols);
      float y = 0.f, weight = 0.f;
      kernels.quantize(format, x.data(), kCols, q.data(), blocks.data());
      kernels.matmul(packed.weights, 0, 1, {nullptr, 0, q.data(), kCols, blocks.data(), kCols / kInt4Block},
                     1, &y, 1);
      decode_row(stored, 0, decoded.data());
      for (const float w : decoded) weight += w;
      EXPECT_NEAR(y, sign * 1000.f * weight, 100.f) << format_name(format);
    }
  }
}

// All sets but the scalar one fuse multiply and add, and all add up in the same order.
TEST(MatmulAcrossInstructionSets, VectorSetsGiveTheSameBits) {
  if (!isa_available(Isa::avx2) || !isa_available(Isa::avx512)) GTEST_SKIP() << "needs AVX2 and AVX-512";
  const Kernels &narrow = kernels_for(Isa::avx2), &wide = kernels_for(Isa::avx512);
  for (const WeightFormat format :
       {WeightFormat::f16, WeightFormat::bf16, WeightFormat::int8, WeightFormat::int4}) {
    for (const int tokens : {1, 7, 30}) {
      const StoredMatrix stored(format, 45, 700, 6);
      const PackedMatrix packed_narrow(narrow, stored.linear), packed_wide(wide, stored.linear);
      const Inputs inputs_narrow(narrow, format, tokens, 700, 2), inputs_wide(wide, format, tokens, 700, 2);
      EXPECT_EQ(multiply(narrow, packed_narrow.weights, inputs_narrow.from(0), tokens),
                multiply(wide, packed_wide.weights, inputs_wide.from(0), tokens))
          << format_name(format) << " tokens " << tokens;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, MatmulTest, testing::ValuesIn(available_isas()), isa_test_name);

}  // namespace
}  // namespace carat
