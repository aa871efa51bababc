// --kv-memory and what goes with it, through the built program.
#include <gtest/gtest.h>

#include "cli/program.h"

namespace carat {
namespace {

TEST(KvMemoryFlag, ValueThatIsNoMemoryIsAUsageError) {
  for (const char* wrong : {"8 GiB", "1.5", "0", "lots"}) {
    const Finished finished = run_program({"run", "-p", "x", "--kv-memory", wrong});
    expect_one_line_error(finished, 2, "must be a share such as 0.9 or an amount such as 8GiB");
  }
}

TEST(KvMemoryFlag, ContextThatDoesNotFitIsRefusedWithWhatItNeeds) {
  const std::string needs = "MiB, 1 MiB are allowed; shorten the context";
  expect_one_line_error(run_program({"run", "-p", "x", "--kv-memory", "1MiB", "-n", "8000"}), 1, needs);
  expect_one_line_error(
      run_program({"bench", kDemoModel, "--kv-memory", "1MiB", "--prompt", "4000", "-n", "1"}), 1, needs);
  expect_one_line_error(run_program({"eval", kDemoModel, "-", "--kv-memory", "1MiB", "-c", "8000"}, "x"), 1,
                        needs);
}

TEST(KvMemoryFlag, LessThanAMebibyteIsSaidAsItIs) {
  expect_one_line_error(run_program({"run", "-p", "x", "--kv-memory", "1KiB", "-n", "80"}), 1,
                        "KiB, 1 KiB are allowed");
  const TempDirectory directory;
  const std::string in = directory.write("in", R"({"prompt": "x"})"), out = directory.path() / "out";
  expect_one_line_error(run_program({"batch", kDemoModel, in, out, "-q", "--kv-memory", "300KiB"}), 1,
                        "KV memory of 300 KiB can't hold");
}

TEST(KvMemoryFlag, EnoughMemoryChangesNothing) {
  const std::vector<std::string> run{"run", "-p", "The king", "-n", "8", "--temp", "0", "-q"};
  std::vector<std::string> bounded = run;
  bounded.insert(bounded.end(), {"--kv-memory", "0.5"});
  const Finished plain = run_program(run), same = run_program(bounded);
  EXPECT_EQ(plain.code, 0) << plain.err;
  EXPECT_EQ(same.out, plain.out);
  EXPECT_EQ(run_program(run, "", {"CARAT_KV_MEMORY=64MiB"}).out, plain.out);
}

}  // namespace
}  // namespace carat
