// Conversions of 16-bit floats against plain references: every bit pattern, and every rounding boundary
// between them.
#include "base/float16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace carat {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// The value of sign, exponent and mantissa as the format defines it, in double: exact for both formats.
double decode(uint32_t bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = static_cast<int>(bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int mantissa = static_cast<int>(bits) & ((1 << mantissa_bits) - 1);
  const double sign = bits >> 15 ? -1. : 1.;
  if (exponent == (1 << exponent_bits) - 1) return mantissa ? std::nan("") : sign * kInfinity;
  const double significand = exponent == 0 ? mantissa : mantissa + (1 << mantissa_bits);
  return sign * std::ldexp(significand, std::max(exponent, 1) - bias - mantissa_bits);
}

template <class Half>
struct Format;
template <>
struct Format<f16> {
  static constexpr int kExponentBits = 5, kMantissaBits = 10;
  static f16 round(float x) { return to_f16(x); }
};
template <>
struct Format<bf16> {
  static constexpr int kExponentBits = 8, kMantissaBits = 7;
  static bf16 round(float x) { return to_bf16(x); }
};

template <class Half>
class Float16 : public ::testing::Test {
 protected:
  using F = Format<Half>;
  static constexpr uint32_t kInfinityBits = ((1u << F::kExponentBits) - 1) << F::kMantissaBits;
  static double value(uint32_t bits) { return decode(bits, F::kExponentBits, F::kMantissaBits); }
  static uint32_t rounded(double x) { return F::round(static_cast<float>(x)).bits; }
};

using Formats = ::testing::Types<f16, bf16>;
TYPED_TEST_SUITE(Float16, Formats);

TYPED_TEST(Float16, EveryPatternDecodesToItsValue) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float x = to_float(TypeParam{static_cast<uint16_t>(bits)});
    const double expected = TestFixture::value(bits);
    ASSERT_TRUE(std::isnan(expected) ? std::isnan(x) : x == expected) << bits;
    ASSERT_EQ(std::signbit(x), bits >> 15 != 0) << bits;
  }
}

TYPED_TEST(Float16, EveryPatternSurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const TypeParam half{static_cast<uint16_t>(bits)};
    const TypeParam again = Format<TypeParam>::round(to_float(half));
    if (std::isnan(to_float(half))) {
      ASSERT_TRUE(std::isnan(to_float(again))) << bits;
      ASSERT_EQ(again.bits >> 15, half.bits >> 15) << bits;
    } else {
      ASSERT_EQ(again.bits, half.bits);
    }
  }
}

TYPED_TEST(Float16, RoundsToNearestAndTiesToEven) {
  for (uint32_t bits = 0; bits + 1 < TestFixture::kInfinityBits; ++bits) {
    const double low = TestFixture::value(bits), high = TestFixture::value(bits + 1),
                 middle = (low + high) / 2;
    const auto tie = static_cast<float>(middle);
    ASSERT_EQ(tie, middle) << "the middle is exact in float32";
    for (const uint32_t sign : {0u, 0x8000u}) {
      const float s = sign ? -1.f : 1.f;
      ASSERT_EQ(TestFixture::rounded(s * tie), sign | (bits + (bits & 1))) << bits;
      ASSERT_EQ(TestFixture::rounded(s * std::nextafter(tie, 0.f)), sign | bits) << bits;
      ASSERT_EQ(TestFixture::rounded(s * std::nextafter(tie, kInfinity)), sign | (bits + 1)) << bits;
    }
  }
}

TYPED_TEST(Float16, OverflowBecomesInfinity) {
  const uint32_t largest = TestFixture::kInfinityBits - 1;
  const double step = TestFixture::value(largest) - TestFixture::value(largest - 1);
  const auto tie = static_cast<float>(TestFixture::value(largest) + step / 2);
  EXPECT_EQ(TestFixture::rounded(std::nextafter(tie, 0.f)), largest);
  EXPECT_EQ(TestFixture::rounded(tie), TestFixture::kInfinityBits);
  EXPECT_EQ(TestFixture::rounded(std::numeric_limits<float>::max()), TestFixture::kInfinityBits);
  EXPECT_EQ(TestFixture::rounded(-kInfinity), TestFixture::kInfinityBits | 0x8000u);
}

TYPED_TEST(Float16, EveryNanStaysANan) {
  // Payload bits that a plain truncation would lose, turning the NaN into an infinity.
  for (const uint32_t bits : {0x7f800001u, 0x7fffffffu, 0xff800001u, 0x7fc00000u}) {
    const TypeParam half = Format<TypeParam>::round(std::bit_cast<float>(bits));
    EXPECT_TRUE(std::isnan(to_float(half))) << std::hex << bits;
    EXPECT_EQ(half.bits >> 15, bits >> 31);
  }
}

TYPED_TEST(Float16, TinyValuesBecomeSignedZeros) {
  EXPECT_EQ(TestFixture::rounded(std::numeric_limits<float>::denorm_min()), 0u);
  EXPECT_EQ(TestFixture::rounded(-std::numeric_limits<float>::denorm_min()), 0x8000u);
}

#ifdef __FLT16_MANT_DIG__
TEST(F16, AgreesWithTheCompilersType) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = std::bit_cast<_Float16>(static_cast<uint16_t>(bits));
    const float x = to_float(f16{static_cast<uint16_t>(bits)});
    if (std::isnan(x)) continue;
    ASSERT_EQ(static_cast<float>(half), x) << bits;
  }
  // A coarse walk over all float32 patterns; the stride is odd, so that low bits vary too.
  for (uint64_t u = 0; u < 0x100000000u; u += 65521) {
    const auto x = std::bit_cast<float>(static_cast<uint32_t>(u));
    if (std::isnan(x)) continue;
    ASSERT_EQ(to_f16(x).bits, std::bit_cast<uint16_t>(static_cast<_Float16>(x))) << std::hex << u;
  }
}
#endif

}  // namespace
}  // namespace carat
