#include "base/huge_pages.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <utility>

#include "base/error.h"

namespace carat {
namespace {

TEST(HugePages, AreAlignedZeroedAndAtLeastAsLargeAsAsked) {
  const HugePages pages(3'000'000, "a test");
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pages.data()) % HugePages::kPageBytes, 0u);
  ASSERT_GE(pages.size(), 3'000'000u);
  for (std::size_t i = 0; i < pages.size(); i += 4096) ASSERT_EQ(pages.data()[i], std::byte{0});
  pages.data()[pages.size() - 1] = std::byte{7};
}

TEST(HugePages, MoveWithoutCopying) {
  HugePages pages(1, "a test");
  std::byte* data = pages.data();
  HugePages moved = std::move(pages);
  EXPECT_EQ(moved.data(), data);
  EXPECT_EQ(pages.data(), nullptr);
}

TEST(HugePages, RefuseWhatNoMachineHas) {
  for (const std::size_t bytes : {std::size_t{1} << 60, std::numeric_limits<std::size_t>::max()}) {
    try {
      HugePages pages(bytes, "the weights");
      FAIL() << bytes << " bytes granted";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::out_of_memory);
      EXPECT_NE(std::string(error.what()).find("the weights: Cannot allocate memory"), std::string::npos);
    }
  }
}

TEST(AvailableMemory, IsKnownHere) { EXPECT_GT(available_memory_bytes(), std::size_t{1} << 20); }

}  // namespace
}  // namespace carat
