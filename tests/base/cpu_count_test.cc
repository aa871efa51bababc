#include "base/cpu_count.h"

#include <gtest/gtest.h>

#include "support/temp_directory.h"

namespace carat {
namespace {

TEST(CpuCount, IsAtLeastOne) { EXPECT_GE(usable_cpu_count(), 1); }

TEST(CpuCount, UnderstandsCpuMax) {
  EXPECT_EQ(parse_cpu_max("150000 100000"), 1.5);
  EXPECT_EQ(parse_cpu_max("max 100000"), std::nullopt);
  EXPECT_EQ(parse_cpu_max(""), std::nullopt);
  EXPECT_EQ(parse_cpu_max("0 100000"), std::nullopt);
  EXPECT_EQ(parse_cpu_max("100000 0"), std::nullopt);
}

TEST(CpuCount, TakesTheSmallestQuotaOfAllAncestors) {
  const TempDirectory root;
  root.write("cpu.max", "max 100000\n");
  root.write("a/cpu.max", "200000 100000\n");
  root.write("a/b/cpu.max", "350000 100000\n");
  EXPECT_EQ(cgroup_cpu_quota(root.path(), "/a/b"), 2.0);
  EXPECT_EQ(cgroup_cpu_quota(root.path(), "/"), std::nullopt);
}

TEST(CpuCount, FallsBackToTheOldHierarchy) {
  const TempDirectory root;
  root.write("cpu/cpu.cfs_quota_us", "50000");
  root.write("cpu/cpu.cfs_period_us", "100000");
  EXPECT_EQ(cgroup_cpu_quota(root.path(), "/"), 0.5);
  root.write("cpu/cpu.cfs_quota_us", "-1");
  EXPECT_EQ(cgroup_cpu_quota(root.path(), "/"), std::nullopt);
}

}  // namespace
}  // namespace carat
