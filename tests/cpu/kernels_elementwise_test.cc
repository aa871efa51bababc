// Norms, rope and activation functions against float64 formulas.
#include <cmath>
#include <limits>

#include "kernels_support.h"

namespace carat {
namespace {

constexpr int64_t kLengths[] = {1, 15, 16, 17, 63, 64, 130, 1536};

class ElementwiseTest : public KernelTest {};

std::vector<double> norm_of(const std::vector<float>& x, const float* gain, double eps) {
  double squares = 0.;
  for (const float value : x) squares += double{value} * value;
  const double scale = 1. / std::sqrt(squares / static_cast<double>(x.size()) + eps);
  std::vector<double> out;
  for (size_t i = 0; i < x.size(); ++i) out.push_back(x[i] * scale * (gain ? gain[i] : 1.f));
  return out;
}

void expect_close(const std::vector<float>& got, const std::vector<double>& wanted, double relative) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], wanted[i], relative * (std::abs(wanted[i]) + 0.1))
        << "at " << i << " of " << got.size();
  }
}

TEST_P(ElementwiseTest, RmsNormWithAndWithoutGains) {
  for (const int64_t n : kLengths) {
    const auto x = random_floats(n, 1, 5.f), gain = random_floats(n, 2);
    std::vector<float> out(x.size());
    kernels.rms_norm(x.data(), gain.data(), 1e-6f, n, out.data());
    expect_close(out, norm_of(x, gain.data(), 1e-6), 2e-6);
    out = x;
    kernels.rms_norm(out.data(), nullptr, 1e-6f, n, out.data());
    expect_close(out, norm_of(x, nullptr, 1e-6), 2e-6);
  }
}

TEST_P(ElementwiseTest, ResidualNormAddsScalesAndNormalises) {
  for (const int64_t n : kLengths) {
    const auto before = random_floats(n, 1, 4.f), y = random_floats(n, 2, 9.f);
    const auto post = random_floats(n, 3), next = random_floats(n, 4);
    auto x = before;
    auto out = y;  // y may be out
    kernels.residual_norm(x.data(), out.data(), post.data(), 0.75f, next.data(), 1e-6f, n, out.data());
    auto sum = norm_of(y, post.data(), 1e-6);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] = (sum[i] + before[i]) * 0.75;
    expect_close(x, sum, 5e-6);
    expect_close(out, norm_of(x, next.data(), 1e-6), 2e-6);
    auto only_x = before;
    kernels.residual_norm(only_x.data(), y.data(), post.data(), 0.75f, nullptr, 1e-6f, n, nullptr);
    EXPECT_EQ(only_x, x);
  }
}

TEST_P(ElementwiseTest, WeightedSum) {
  for (const int64_t n : kLengths) {
    auto x = random_floats(n, 1);
    const auto y = random_floats(n, 2);
    std::vector<double> wanted;
    for (size_t i = 0; i < x.size(); ++i) wanted.push_back(0.25 * x[i] - 3. * y[i]);
    kernels.weighted_sum(0.25f, x.data(), -3.f, y.data(), n, x.data());
    expect_close(x, wanted, 1e-5);
  }
}

TEST_P(ElementwiseTest, RopeRotatesPairsHalfAHeadApartAndLeavesTheRest) {
  for (const auto& [head_dim, pairs] : {std::pair{8, 4}, {64, 32}, {256, 128}, {512, 64}, {62, 13}}) {
    const auto before = random_floats(head_dim, 3);
    std::vector<float> cosines, sines;
    std::vector<double> wanted(before.begin(), before.end());
    for (int j = 0; j < pairs; ++j) {
      const double angle = 0.37 * j + 0.1;
      cosines.push_back(static_cast<float>(std::cos(angle)));
      sines.push_back(static_cast<float>(std::sin(angle)));
      const double a = before[static_cast<size_t>(j)], b = before[static_cast<size_t>(j + head_dim / 2)];
      wanted[static_cast<size_t>(j)] = a * std::cos(angle) - b * std::sin(angle);
      wanted[static_cast<size_t>(j + head_dim / 2)] = b * std::cos(angle) + a * std::sin(angle);
    }
    auto x = before;
    kernels.rope(x.data(), cosines.data(), sines.data(), head_dim, pairs);
    expect_close(x, wanted, 1e-4);
  }
}

// exp is reached through gelu: the whole range must come within a few units in the last place of float32.
TEST_P(ElementwiseTest, GeluIsAccurateOverItsWholeRange) {
  std::vector<float> gate, ones;
  for (float x = -30.f; x <= 30.f; x += 0.0037f) gate.push_back(x);
  for (const float x : {0.f, -0.f, 1e-30f, -1e-20f, 1e4f, -1e4f, 1e18f, -1e18f}) gate.push_back(x);
  ones.assign(gate.size(), 1.f);
  std::vector<float> out(gate.size());
  kernels.gelu_mul(gate.data(), ones.data(), static_cast<int64_t>(gate.size()), out.data());
  for (size_t i = 0; i < gate.size(); ++i) {
    const double x = gate[i], u = 0.7978845608028654 * (x + 0.044715 * x * x * x);
    const double wanted = x / (1. + std::exp(-2. * u));
    // The exponent's rounding counts relative to its size: e^(2u) is known to about |2u| units in the last
    // place.
    EXPECT_NEAR(out[i], wanted,
                std::abs(wanted) * 6e-7 * (1. + std::min(std::abs(u), 50.)) + 1e-36 + std::abs(x) * 1e-38)
        << "gelu " << x;
  }
}

TEST_P(ElementwiseTest, GeluMultipliesInPlace) {
  for (const int64_t n : kLengths) {
    auto gate = random_floats(n, 1, 2.f);
    const auto up = random_floats(n, 2, 2.f);
    std::vector<double> wanted;
    for (size_t i = 0; i < gate.size(); ++i) {
      const double x = gate[i];
      wanted.push_back(0.5 * x * (1. + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))) * up[i]);
    }
    kernels.gelu_mul(gate.data(), up.data(), n, gate.data());
    expect_close(gate, wanted, 3e-6);
  }
}

TEST_P(ElementwiseTest, SoftcapIsOddAndBounded) {
  std::vector<float> x;
  for (float v = -400.f; v <= 400.f; v += 0.37f) x.push_back(v);
  for (const float v : {0.f, 1e-8f, 1e30f, -1e30f}) x.push_back(v);
  auto capped = x;
  kernels.softcap(capped.data(), 30.f, static_cast<int64_t>(x.size()));
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(capped[i], 30. * std::tanh(x[i] / 30.), 1e-5) << x[i];
    EXPECT_LE(std::abs(capped[i]), 30.f);
  }
}

TEST_P(ElementwiseTest, WhatIsNotANumberStaysOne) {
  const float nan = std::numeric_limits<float>::quiet_NaN(),
              infinity = std::numeric_limits<float>::infinity();
  for (const float broken : {nan, infinity, -infinity}) {
    std::vector<float> x(40, 1.f);
    x[3] = x[35] = broken;  // in a whole vector and in the last, shorter one
    kernels.softcap(x.data(), 30.f, static_cast<int64_t>(x.size()));
    EXPECT_TRUE(std::isnan(x[3]) && std::isnan(x[35]) && std::isfinite(x[4])) << broken;
  }
  const std::vector<float> gate{1.f, nan}, up{1.f, 1.f};
  std::vector<float> out(2);
  kernels.gelu_mul(gate.data(), up.data(), 2, out.data());
  EXPECT_TRUE(std::isfinite(out[0]) && std::isnan(out[1]));
}

TEST_P(ElementwiseTest, ArgmaxTakesTheFirstOfEqualsAndIgnoresNans) {
  for (const int64_t n : kLengths) {
    auto x = random_floats(n, 9);
    const int64_t at = n * 2 / 3;
    x[static_cast<size_t>(at)] = 50.f;
    x.back() = 50.f;
    EXPECT_EQ(kernels.argmax(x.data(), n), at);
    if (at > 0) {
      x[0] = std::numeric_limits<float>::quiet_NaN();
      EXPECT_EQ(kernels.argmax(x.data(), n), at);
    }
  }
  const std::vector<float> lowest(20, -std::numeric_limits<float>::infinity());
  EXPECT_EQ(kernels.argmax(lowest.data(), 20), 0);
}

TEST_P(ElementwiseTest, DecodeRowScalesTheStoredRow) {
  for (const WeightFormat format :
       {WeightFormat::f32, WeightFormat::bf16, WeightFormat::int8, WeightFormat::int4}) {
    const StoredMatrix stored(format, 3, 77, 4);
    std::vector<float> plain(77), scaled(77);
    decode_row(stored.linear, 2, plain.data());
    kernels.decode_row(stored.linear, 2, 39.25f, scaled.data());
    for (size_t i = 0; i < plain.size(); ++i) EXPECT_EQ(scaled[i], plain[i] * 39.25f);
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, ElementwiseTest, testing::ValuesIn(available_isas()), isa_test_name);

}  // namespace
}  // namespace carat
