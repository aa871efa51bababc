#include "base/touch_ahead.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <vector>

#include "base/huge_pages.h"
#include "support/comes_true.h"

namespace carat {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20, kPiece = 4096;

/// Megabytes from the beginning on that are resident.
std::size_t resident_mib(const HugePages& pages) {
  std::vector<unsigned char> pieces(pages.size() / kPiece);
  EXPECT_EQ(::mincore(pages.data(), pages.size(), pieces.data()), 0);
  const auto absent = std::ranges::find_if(pieces, [](unsigned char piece) { return (piece & 1) == 0; });
  return static_cast<std::size_t>(absent - pieces.begin()) * kPiece / kMiB;
}

bool becomes_resident(const HugePages& pages, std::size_t mib) {
  return comes_true([&] { return resident_mib(pages) >= mib; });
}

bool supported() {
#ifdef MADV_POPULATE_WRITE
  const HugePages page(1, "a test");
  return ::madvise(page.data(), page.size(), MADV_POPULATE_WRITE) == 0;
#else
  return false;
#endif
}

TEST(TouchAhead, KeepsAheadOfWhatIsUsed) {
  if (!supported())
    GTEST_SKIP() << "this system can't make memory resident (MADV_POPULATE_WRITE, Linux 5.14)";
  const std::size_t ahead = TouchAhead::kAheadBytes / kMiB;
  const HugePages large((ahead + 40) * kMiB, "a test"), small(4 * kMiB, "a test");
  TouchAhead touching({{large.data(), large.size()}, {small.data(), small.size()}});
  EXPECT_TRUE(becomes_resident(large, ahead));
  EXPECT_TRUE(becomes_resident(small, 4));
  EXPECT_EQ(resident_mib(large), ahead);
  touching.use(0, 10 * kMiB);
  touching.use(1, 4 * kMiB);
  EXPECT_TRUE(becomes_resident(large, ahead + 10));
  EXPECT_EQ(resident_mib(large), ahead + 10);
  touching.use(0, 2 * kMiB);
  touching.use(0, (ahead + 40) * kMiB);
  EXPECT_TRUE(becomes_resident(large, ahead + 40));
}

TEST(TouchAhead, LeavesWhatIsThereAlone) {
  const HugePages pages(2 * kMiB, "a test");
  pages.data()[12345] = std::byte{7};
  {
    const TouchAhead touching({{pages.data(), pages.size()}});
    EXPECT_TRUE(!supported() || becomes_resident(pages, 2));
  }
  EXPECT_EQ(pages.data()[12345], std::byte{7});
}

}  // namespace
}  // namespace carat
