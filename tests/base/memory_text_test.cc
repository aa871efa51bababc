#include "base/memory_text.h"

#include <gtest/gtest.h>

namespace carat {
namespace {

TEST(MemoryText, NamesTheLargestUnitOfWhichThereIsOne) {
  EXPECT_EQ(memory_text(0), "0 B");
  EXPECT_EQ(memory_text(1023), "1023 B");
  EXPECT_EQ(memory_text(1024), "1 KiB");
  EXPECT_EQ(memory_text((1 << 20) - 1), "1023 KiB");
  EXPECT_EQ(memory_text(1 << 20), "1 MiB");
  EXPECT_EQ(memory_text(std::size_t{5} << 30), "5120 MiB");
}

TEST(MemoryText, IsRoundedDownOrUp) {
  EXPECT_EQ(memory_text(2047), "1 KiB");
  EXPECT_EQ(memory_text_up(2047), "2 KiB");
  EXPECT_EQ(memory_text_up(2048), "2 KiB");
  EXPECT_EQ(memory_text_up((3 << 20) + 1), "4 MiB");
}

}  // namespace
}  // namespace carat
