#include <gmock/gmock.h>

#include "cli/program.h"

namespace carat {
namespace {

TEST(Quantize, WritesACheckpointThatRunsLikeTheFormatAtLoad) {
  const TempDirectory directory;
  const std::string output = directory.path() / "int8";
  const Finished written =
      run_program({"quantize", kTestData + "tiny", output, "--format", "int8", "-t", "2"});
  EXPECT_EQ(written.code, 0) << written.err;
  EXPECT_THAT(written.out, testing::HasSubstr(output));
  EXPECT_EQ(written.err, "");
  const Finished inspected = run_program({"inspect", output});
  EXPECT_EQ(inspected.code, 0) << inspected.err;
  EXPECT_THAT(inspected.out, testing::HasSubstr("U8"));
}

TEST(Quantize, RefusesAnExistingDirectory) {
  const TempDirectory directory;
  expect_one_line_error(run_program({"quantize", kTestData + "tiny", directory.path()}), 1, "exists already");
}

TEST(Quantize, RefusesOtherFormats) {
  expect_one_line_error(run_program({"quantize", kTestData + "tiny", "out", "--format", "int2"}), 2, "int2");
}

}  // namespace
}  // namespace carat
