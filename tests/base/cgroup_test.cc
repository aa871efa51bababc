#include "base/cgroup.h"

#include <gtest/gtest.h>

#include "support/temp_directory.h"

namespace carat {
namespace {

namespace fs = std::filesystem;

TEST(Cgroup, ListsAGroupAndItsAncestors) {
  EXPECT_EQ(cgroup_directories("/mount", "/a/b"),
            (std::vector<fs::path>{"/mount/a/b", "/mount/a", "/mount"}));
  EXPECT_EQ(cgroup_directories("/mount", "/"), std::vector<fs::path>{"/mount"});
  EXPECT_EQ(cgroup_directories("/mount", ""), std::vector<fs::path>{"/mount"});
}

TEST(Cgroup, OwnGroupIsAnAbsolutePath) { EXPECT_TRUE(own_cgroup().starts_with('/')); }

TEST(Cgroup, FreeMemoryIsTheLimitWithoutWhatIsInUse) {
  const TempDirectory root;
  EXPECT_EQ(cgroup_free_bytes(root.path(), "/a"), std::nullopt);
  root.write("a/memory.max", "max\n");
  EXPECT_EQ(cgroup_free_bytes(root.path(), "/a"), std::nullopt);
  root.write("a/memory.max", "1000\n");
  EXPECT_EQ(cgroup_free_bytes(root.path(), "/a"), 1000u);
  root.write("a/memory.current", "700\n");
  EXPECT_EQ(cgroup_free_bytes(root.path(), "/a"), 300u);
  root.write("a/memory.stat", "anon 400\nfile 300\ninactive_file 200\nactive_file 50\n");
  EXPECT_EQ(cgroup_free_bytes(root.path(), "/a"), 550u);  // the page cache can be given back
  root.write("a/memory.max", "100\n");                    // lowered below what is in use
  EXPECT_EQ(cgroup_free_bytes(root.path(), "/a"), 0u);
}

TEST(Cgroup, TheTightestAncestorCounts) {
  const TempDirectory root;
  root.write("memory.max", "900\n");
  root.write("memory.current", "500\n");
  root.write("a/memory.max", "800\n");
  root.write("a/memory.current", "100\n");
  EXPECT_EQ(cgroup_free_bytes(root.path(), "/a"), 400u);
}

}  // namespace
}  // namespace carat
