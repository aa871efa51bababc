#include "cli/program.h"

namespace carat {
namespace {

const std::string kTiny = kTestData + "tiny";

TEST(CommandLine, VersionAndHelpGoToStandardOutput) {
  const Finished version = run_program({"--version"});
  EXPECT_EQ(version.code, 0);
  EXPECT_EQ(version.out, "carat " CARAT_VERSION "\n");
  for (const char* command : {"run", "tokenize", "inspect", "check", "bench"}) {
    const Finished help = run_program({command, "--help"});
    EXPECT_EQ(help.code, 0) << command;
    EXPECT_NE(help.out.find("Example"), std::string::npos) << help.out;
    EXPECT_EQ(help.err, "");
  }
}

TEST(CommandLine, WrongUseIsOneLineAndCodeTwo) {
  const std::vector<std::vector<std::string>> wrong{
      {},
      {"juggle"},
      {"run", "--juggle"},
      {"run", "-n", "0"},
      {"run", "-n", "many"},
      {"run", "-p"},
      {"run", "--device", "tpu", "-p", "x"},
      {"run", "--device", "cuda:x", "-p", "x"},
      {"run", "--top-p", "2", "-p", "x"},
      {"run", "--temp", "-1", "-p", "x"},
      {"run", "--format", "int3", "-p", "x"},
      {"run", "-p", "x", "-f", "y"},
      {"run", kDemoModel, "-p", "x", "-"},
      {"run", kDemoModel, "a text without -p"},
      {"tokenize"},
      {"tokenize", kDemoModel, "text", "--jsonl"},
      {"tokenize", kDemoModel, "--pieces", "--jsonl"},
      {"inspect"},
      {"inspect", kTiny, "more"},
      {"check", kTiny},
      {"check", kTiny, "reference.json", "--tolerance", "0"},
      {"bench", kTiny, "--batch", "0"},
  };
  for (const auto& args : wrong) {
    SCOPED_TRACE(::testing::PrintToString(args));
    expect_one_line_error(run_program(args), 2, "--help");
  }
}

TEST(CommandLine, MissingModelIsOneLineThatNamesIt) {
  const std::string missing = "no/such-model";
  for (const auto& args : std::vector<std::vector<std::string>>{{"run", missing, "-p", "x"},
                                                                {"tokenize", missing, "x"},
                                                                {"inspect", missing},
                                                                {"check", missing, "reference.json"},
                                                                {"bench", missing}}) {
    SCOPED_TRACE(args[0]);
    expect_one_line_error(run_program(args), 1, missing);
  }
}

TEST(CommandLine, BrokenCheckpointIsOneLineForEveryCommandThatLoadsIt) {
  const TempDirectory copy;
  copy_checkpoint(kTiny, copy);
  const std::string model = copy.path();
  const auto expect_refused = [&](std::string_view part) {
    for (const auto& args :
         std::vector<std::vector<std::string>>{{"run", model, "-p", "x"},
                                               {"inspect", model},
                                               {"inspect", model, "--json"},
                                               {"check", model, kTestData + "ref_tiny_f32.json", "--json"},
                                               {"bench", model, "--json"}}) {
      SCOPED_TRACE(args[0]);
      expect_one_line_error(run_program(args), 1, part);
    }
  };
  const auto weights = copy.path() / "model.safetensors";
  std::filesystem::resize_file(weights, std::filesystem::file_size(weights) - 1);
  expect_refused("model.safetensors");
  std::filesystem::remove(weights);
  expect_refused("model.safetensors");
  copy.write("config.json", "{\"model_type\": ");
  expect_refused("config.json");
}

TEST(CommandLine, OptionsThatTheDeviceLacksAreRefused) {
  expect_one_line_error(run_program({"bench", kTiny, "--device", "ref", "--format", "int8"}), 1, "--format");
  expect_one_line_error(run_program({"run", "--device", "ref", "-t", "2", "-p", "x"}), 1, "--threads");
}

TEST(CommandLine, ReaderThatLeavesEndsACommandQuietly) {
  for (const auto& args : std::vector<std::vector<std::string>>{{"run", "-p", "Once upon a time", "-n", "50"},
                                                                {"tokenize", kDemoModel, "some text"},
                                                                {"inspect", kTiny, "--json"}}) {
    SCOPED_TRACE(args[0]);
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    ::close(ends[0]);
    const Finished finished = Program(args, ends[1]).wait();
    EXPECT_EQ(finished.code, 0);
    EXPECT_EQ(finished.err, "");
  }
}

TEST(CommandLine, FullDiskIsAnError) {
  const int full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  if (full < 0) GTEST_SKIP() << "no /dev/full here";
  expect_one_line_error(Program({"inspect", kTiny}, full).wait(), 1, "standard output");
}

TEST(CommandLine, EnvironmentGivesDefaultsThatFlagsOverride) {
  const std::vector<std::string> args{"run", "-p", "Once upon a time"};
  const Finished one = run_program(args, "", {"CARAT_MAX_TOKENS=1", "CARAT_TEMP=0"});
  EXPECT_NE(one.err.find(", 1 generated"), std::string::npos) << one.err;
  std::vector<std::string> with_flag = args;
  with_flag.insert(with_flag.end(), {"-n", "3"});
  const Finished three = run_program(with_flag, "", {"CARAT_MAX_TOKENS=1"});
  EXPECT_NE(three.err.find(", 3 generated"), std::string::npos) << three.err;
  expect_one_line_error(run_program(args, "", {"CARAT_DEVICE=tpu"}), 2, "tpu");
  expect_one_line_error(run_program({"bench", kTiny}, "", {"CARAT_DEVICE=tpu"}), 2, "tpu");
}

}  // namespace
}  // namespace carat
