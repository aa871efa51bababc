#include "io/part_directory.h"

#include "support/expect_error.h"
#include "support/temp_directory.h"

namespace carat {
namespace {

namespace fs = std::filesystem;

TEST(PartDirectory, HasItsNameOnlyAfterCommit) {
  const TempDirectory directory;
  const fs::path target = directory.path() / "out";
  {
    PartDirectory part(target);
    directory.write("out.part/file", "text");
    EXPECT_FALSE(fs::exists(target));
    part.commit();
  }
  EXPECT_TRUE(fs::exists(target / "file"));
  EXPECT_FALSE(fs::exists(target / ".writing"));
  EXPECT_FALSE(fs::exists(directory.path() / "out.part"));
}

TEST(PartDirectory, IsGoneWithoutCommit) {
  const TempDirectory directory;
  {
    const PartDirectory part(directory.path() / "out" / "");
  }
  EXPECT_TRUE(fs::is_empty(directory.path()));
}

TEST(PartDirectory, ReplacesALeftoverButNothingElse) {
  const TempDirectory directory;
  const fs::path target = directory.path() / "out";
  directory.write("out.part/file", "somebody's");
  expect_error(ErrorKind::invalid_argument, {"out.part", "move it away"}, [&] { PartDirectory{target}; });
  directory.write("out.part/.writing", "");
  const PartDirectory part(target);
  EXPECT_FALSE(fs::exists(part.path() / "file"));
  expect_error(ErrorKind::invalid_argument, {"another program is writing it"},
               [&] { PartDirectory{target}; });
  EXPECT_TRUE(fs::exists(part.path() / ".writing"));
}

TEST(PartDirectory, RefusesAnExistingTargetAndAnImpossiblePlace) {
  const TempDirectory directory;
  expect_error(ErrorKind::invalid_argument, {"exists already"}, [&] { PartDirectory{directory.path()}; });
  const fs::path below_file = directory.write("file", "") / "out";
  expect_error(ErrorKind::unavailable, {"can't be created"}, [&] { PartDirectory{below_file}; });
}

}  // namespace
}  // namespace carat
