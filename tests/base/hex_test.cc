#include "base/hex.h"

#include <gtest/gtest.h>

#include <string_view>

namespace carat {
namespace {

TEST(Hex, OnlyDigitsHaveAValue) {
  constexpr std::string_view kLower = "0123456789abcdef", kUpper = "0123456789ABCDEF";
  for (int i = 0; i < 256; ++i) {
    const char c = static_cast<char>(i);
    const std::size_t digit = kLower.find(c) != kLower.npos ? kLower.find(c) : kUpper.find(c);
    EXPECT_EQ(hex_digit(c), digit == kLower.npos ? -1 : static_cast<int>(digit)) << i;
  }
}

}  // namespace
}  // namespace carat
