#include "ref/ref_math.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>

namespace carat {
namespace {

TEST(RefMath, DotCoversEveryElementOfOddSizes) {
  std::vector<float> a, b;
  for (int size = 0; size < 40; ++size) {
    EXPECT_FLOAT_EQ(dot(a.data(), b.data(), size), static_cast<float>(size * (size + 1) / 2));
    a.push_back(static_cast<float>(size + 1));
    b.push_back(1.f);
  }
}

TEST(RefMath, MatmulMapsEachRowOfTheInput) {
  const std::array<float, 6> weights{1, 2, 3, 4, 5, 6};
  std::array<std::byte, sizeof weights> bytes;
  std::memcpy(bytes.data(), weights.data(), sizeof weights);
  const Linear w{WeightFormat::f32, 2, 3, bytes.data()};
  const std::array<float, 6> x{1, 0, 0, 1, 1, 1};
  std::vector<float> y;
  matmul(w, x.data(), 2, y);
  EXPECT_EQ(y, (std::vector<float>{1, 4, 6, 15}));
}

TEST(RefMath, RmsNormUsesTheGainAsStored) {
  const std::array<float, 4> x{2, -2, 2, -2}, gain{1, 2, 0.5f, 0};
  std::array<float, 4> y;
  rms_norm(x.data(), gain, 0.f, 4, y.data());
  EXPECT_EQ(y, (std::array<float, 4>{1, -2, 0.5f, 0}));
  rms_norm(x.data(), {}, 12.f, 4, y.data());  // eps is added to the mean square: 4 + 12 = 16
  EXPECT_EQ(y, (std::array<float, 4>{0.5f, -0.5f, 0.5f, -0.5f}));
}

TEST(RefMath, GeluTanhValues) {
  EXPECT_EQ(gelu_tanh(0.f), 0.f);
  EXPECT_NEAR(gelu_tanh(1.f), 0.8411920f, 1e-6f);
  EXPECT_NEAR(gelu_tanh(-1.f), -0.1588080f, 1e-6f);
  EXPECT_EQ(gelu_tanh(60.f), 60.f);
}

TEST(RefMath, RotateTurnsPairsHalfAHeadApartAndLeavesTheRest) {
  std::array<float, 8> head{1, 1, 1, 1, 0, 0, 0, 0};
  rotate(head.data(), 8, {10000.f, 2}, 3);
  EXPECT_NEAR(head[0], std::cos(3.f), 1e-6f);
  EXPECT_NEAR(head[4], std::sin(3.f), 1e-6f);
  EXPECT_NEAR(head[1], std::cos(0.3f), 1e-6f);  // 10000^(-2/8) = 0.1: the exponent runs over the whole head
  EXPECT_NEAR(head[5], std::sin(0.3f), 1e-6f);
  EXPECT_EQ(head[2], 1.f);
  EXPECT_EQ(head[6], 0.f);
}

TEST(RefMath, SoftmaxOfLargeScoresStaysFinite) {
  std::array<float, 3> scores{1000.f, 1000.f, -1000.f};
  softmax(scores);
  EXPECT_EQ(scores, (std::array<float, 3>{0.5f, 0.5f, 0.f}));
}

}  // namespace
}  // namespace carat
