#include "base/cpu_count.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace carat {
namespace {

class CgroupTree : public testing::Test {
 protected:
  void SetUp() override {
    root_ = std::filesystem::path(testing::TempDir()) /
            (std::string("cgroup_") + testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(root_);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << "\n";
  }

  std::filesystem::path root_;
};

TEST(CpuCount, IsAtLeastOne) { EXPECT_GE(usable_cpu_count(), 1); }

TEST(CpuCount, UnderstandsCpuMax) {
  EXPECT_EQ(parse_cpu_max("150000 100000"), 1.5);
  EXPECT_EQ(parse_cpu_max("max 100000"), std::nullopt);
  EXPECT_EQ(parse_cpu_max(""), std::nullopt);
  EXPECT_EQ(parse_cpu_max("0 100000"), std::nullopt);
  EXPECT_EQ(parse_cpu_max("100000 0"), std::nullopt);
}

TEST_F(CgroupTree, TakesTheSmallestQuotaOfAllAncestors) {
  write("cpu.max", "max 100000");
  write("a/cpu.max", "200000 100000");
  write("a/b/cpu.max", "350000 100000");
  EXPECT_EQ(cgroup_cpu_quota(root_, "/a/b"), 2.0);
  EXPECT_EQ(cgroup_cpu_quota(root_, "/"), std::nullopt);
}

TEST_F(CgroupTree, FallsBackToTheOldHierarchy) {
  write("cpu/cpu.cfs_quota_us", "50000");
  write("cpu/cpu.cfs_period_us", "100000");
  EXPECT_EQ(cgroup_cpu_quota(root_, "/"), 0.5);
  write("cpu/cpu.cfs_quota_us", "-1");
  EXPECT_EQ(cgroup_cpu_quota(root_, "/"), std::nullopt);
}

}  // namespace
}  // namespace carat
