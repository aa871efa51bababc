#include "model/formats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/error.h"
#include "base/random.h"

namespace carat {
namespace {

std::vector<float> random_row(int64_t cols, uint64_t seed, float scale) {
  std::vector<float> row(static_cast<size_t>(cols));
  for (size_t i = 0; i < row.size(); ++i) {
    row[i] = scale * (random_uniform(seed, 2 * i) + random_uniform(seed, 2 * i + 1) - 1.f);
  }
  return row;
}

std::vector<float> encoded_and_decoded(WeightFormat format, const std::vector<float>& row) {
  const int64_t cols = static_cast<int64_t>(row.size());
  std::vector<std::byte> bytes(row_bytes(format, cols));
  encode_row(format, row.data(), cols, bytes.data());
  std::vector<float> decoded(row.size());
  decode_row({format, 1, cols, bytes.data()}, 0, decoded.data());
  return decoded;
}

float block_peak(const std::vector<float>& row, size_t at, size_t block) {
  float peak = 0.f;
  for (size_t i = at / block * block; i < std::min(row.size(), (at / block + 1) * block); ++i) {
    peak = std::max(peak, std::abs(row[i]));
  }
  return peak;
}

TEST(Formats, Int8ErrsByHalfAStepOfItsBlock) {
  for (const int64_t cols : {1, 64, 65, 200}) {
    for (const float scale : {1.f, 0.02f, 3e-5f}) {
      const auto row = random_row(cols, 3, scale), decoded = encoded_and_decoded(WeightFormat::int8, row);
      for (size_t i = 0; i < row.size(); ++i) {
        EXPECT_NEAR(decoded[i], row[i], 0.51f * (block_peak(row, i, 64) / 127.f + 6e-8f))
            << cols << " at " << i;
      }
    }
  }
}

TEST(Formats, Int4ErrsByLessThanAStepOfItsBlock) {
  for (const int64_t cols : {1, 32, 33, 100}) {
    const auto row = random_row(cols, 4, 0.05f), decoded = encoded_and_decoded(WeightFormat::int4, row);
    for (size_t i = 0; i < row.size(); ++i) {
      EXPECT_NEAR(decoded[i], row[i], 1.01f * block_peak(row, i, 32) / 7.f) << cols << " at " << i;
    }
  }
}

TEST(Formats, Int4DoesNoWorseThanTheUsualGrid) {
  const auto row = random_row(3200, 5, 0.1f), decoded = encoded_and_decoded(WeightFormat::int4, row);
  double error = 0., usual = 0.;
  for (size_t block = 0; block < row.size(); block += 32) {
    float extreme = 0.f;
    for (size_t i = block; i < block + 32; ++i) {
      if (std::abs(row[i]) > std::abs(extreme)) extreme = row[i];
    }
    const float d = to_float(to_f16(extreme / -8.f));
    for (size_t i = block; i < block + 32; ++i) {
      error += std::pow(decoded[i] - row[i], 2);
      usual += std::pow(d * std::clamp(std::nearbyint(row[i] / d), -8.f, 7.f) - row[i], 2);
    }
  }
  EXPECT_LT(error, usual);
}

// d * m rounded to bf16, with every choice of the largest |m|; m = -peak occurs in every block.
std::vector<float> lattice_row(float d, int peak) {
  std::vector<float> row;
  for (uint64_t i = 0; i < 320; ++i) {
    const int span = peak == 8 ? 16 : 2 * peak + 1;
    const int m =
        i % 32 == 0 ? -peak : static_cast<int>(random_bits(7, i) % static_cast<uint64_t>(span)) - peak;
    row.push_back(to_float(to_bf16(d * static_cast<float>(m))));
  }
  return row;
}

TEST(Formats, WeightsOnALatticeOf16BitScalesAreKeptExactly) {
  for (int peak = 1; peak <= 8; ++peak) {
    for (const float d : {0.0123f, -0.0123f, 0.00071f, -0.00055f, 0.3f}) {
      for (const float scale : {to_float(to_f16(d)), to_float(to_bf16(d))}) {
        const auto row = lattice_row(scale, peak), decoded = encoded_and_decoded(WeightFormat::int4, row);
        for (size_t i = 0; i < row.size(); ++i) {
          ASSERT_EQ(to_float(to_bf16(decoded[i])), row[i])
              << "peak " << peak << " d " << scale << " at " << i;
        }
      }
    }
  }
}

TEST(Formats, WeightsOnAnyLatticeKeepTheirIntegers) {
  for (int peak = 1; peak <= 8; ++peak) {
    for (const float d : {0.0123f, -0.0123f, 0.00071f, -0.00055f, 0.3f}) {
      const auto row = lattice_row(d, peak), decoded = encoded_and_decoded(WeightFormat::int4, row);
      for (size_t i = 0; i < row.size(); ++i) {
        ASSERT_NEAR(decoded[i], row[i], std::abs(row[i]) * 0x1p-7f)
            << "peak " << peak << " d " << d << " at " << i;
      }
    }
  }
}

TEST(Formats, ZerosStayZeros) {
  for (const WeightFormat format : {WeightFormat::int8, WeightFormat::int4}) {
    EXPECT_EQ(encoded_and_decoded(format, std::vector<float>(70, 0.f)), std::vector<float>(70, 0.f));
  }
}

TEST(Formats, RowsAreWholeBlocks) {
  EXPECT_EQ(row_bytes(WeightFormat::int8, 64), 66u);
  EXPECT_EQ(row_bytes(WeightFormat::int8, 65), 132u);
  EXPECT_EQ(row_bytes(WeightFormat::int4, 32), 18u);
  EXPECT_EQ(row_bytes(WeightFormat::int4, 33), 36u);
}

TEST(Formats, UnusableWeightsAreRefused) {
  std::vector<std::byte> bytes(row_bytes(WeightFormat::int8, 64));
  for (const float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(), 1e38f}) {
    std::vector<float> row(64, 0.5f);
    row[40] = bad;
    EXPECT_THROW(encode_row(WeightFormat::int8, row.data(), 64, bytes.data()), Error) << bad;
    EXPECT_THROW(encode_row(WeightFormat::int4, row.data(), 64, bytes.data()), Error) << bad;
  }
}

TEST(Formats, NamesGoBothWays) {
  for (const WeightFormat format :
       {WeightFormat::f32, WeightFormat::f16, WeightFormat::bf16, WeightFormat::int8, WeightFormat::int4}) {
    EXPECT_EQ(parse_format(format_name(format)), format);
  }
  EXPECT_THROW(parse_format("int5"), Error);
}

}  // namespace
}  // namespace carat
