#include <sstream>

#include "cli/program.h"

namespace carat {
namespace {

const std::string kTiny = kTestData + "tiny";

TEST(CommandLine, VersionAndHelpGoToStandardOutput) {
  const Finished version = run_program({"--version"});
  EXPECT_EQ(version.code, 0);
  EXPECT_EQ(version.out, "carat " CARAT_VERSION "\n");
  for (const char* command : {"run", "tokenize", "inspect", "check", "bench", "quantize", "eval"}) {
    const Finished help = run_program({command, "--help"});
    EXPECT_EQ(help.code, 0) << command;
    EXPECT_NE(help.out.find("Example"), std::string::npos) << help.out;
    EXPECT_EQ(help.err, "");
  }
}

TEST(CommandLine, HelpHasShortLines) {
  for (const char* command : {"run", "tokenize", "inspect", "check", "bench", "quantize", "eval"}) {
    std::istringstream help(run_program({command, "--help"}).out);
    for (std::string line; std::getline(help, line);) EXPECT_LE(line.size(), 110u) << line;
    EXPECT_EQ(help.str().find("Excludes"), std::string::npos);
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
      {"run", "-q=x", "-p", "x"},
      {"run", "-", "-"},
      {"run", kDemoModel, "-p", "x", "-"},
      {"run", kDemoModel, "a text without -p"},
      {"tokenize", kDemoModel, "text", "--jsonl"},
      {"tokenize", kDemoModel, "--pieces", "--jsonl"},
      {"inspect", kTiny, "more"},
      {"check", kTiny},
      {"check", kTiny, "reference.json", "--tolerance", "0"},
      {"check"},
      {"batch", kTiny, "requests.jsonl", "replies.jsonl", "more"},
      {"batch", "requests.jsonl"},
      {"quantize", kTiny},
      {"bench", kTiny, "--batch", "0"},
  };
  for (const auto& args : wrong) {
    SCOPED_TRACE(::testing::PrintToString(args));
    expect_one_line_error(run_program(args), 2, "--help");
  }
}

TEST(CommandLine, ValuesOutsideTheirRangeNameFlagAndLimits) {
  const struct {
    std::vector<std::string> args;
    const char* message;
  } cases[] = {
      {{"run", "-n", "0"}, "--max-tokens: must be 1 or more, not 0"},
      {{"run", "-n", "99999999999999999999"}, "--max-tokens: must be from 1 to 1073741824, not 9999"},
      {{"run", "-t", "x"}, "--threads: must be a whole number from 0 to 1024, not \"x\""},
      {{"run", "-t", "100000"}, "--threads: must be at most 1024, not 100000"},
      {{"run", "--temp", "-1"}, "--temp: must be from 0 to 10000, not -1"},
      {{"run", "--temp", "1e300"}, "--temp: must be from 0 to 10000, not 1e300"},
      {{"run", "--temp", "nan"}, "--temp: must be from 0 to 10000, not nan"},
      {{"run", "--repeat-penalty", "inf"}, "--repeat-penalty: must be from 0.001 to 1000, not inf"},
      {{"run", "--seed", "-1"}, "--seed: must be a whole number from 0 to 18446744073709551615, not \"-1\""},
      {{"bench", kTiny, "--seed", "18446744073709551616"}, "--seed: must be a whole number from 0 to"},
      {{"eval", kTiny, "-", "-c", "1"}, "--context: must be 2 or more, not 1"},
      {{"check", kTiny, "r", "--tolerance", "0"}, "--tolerance: must be from 1e-12 to 1e+06, not 0"},
      {{"run", "--format", "int3"}, "--format: must be bf16, int8 or int4, not \"int3\""},
      {{"run", "--device", "tpu"}, "--device: must be cpu, ref or cuda:N, not \"tpu\""},
      {{"run", "--stop", ""}, "--stop: is empty"},
  };
  for (const auto& c : cases) {
    const Finished finished = run_program(c.args);
    expect_one_line_error(finished, 2, c.message);
    EXPECT_LT(finished.err.size(), 160u) << finished.err;
  }
}

TEST(CommandLine, UnknownWordsAreNamedWithWhatIsNear) {
  const std::string commands = "commands: run, batch, serve, tokenize, inspect, check, bench, quantize, eval";
  expect_one_line_error(run_program({}), 2, commands);
  expect_one_line_error(run_program({"juggle"}), 2, "unknown command \"juggle\"; " + commands);
  expect_one_line_error(run_program({"inspct"}), 2,
                        "unknown command \"inspct\" (did you mean inspect?); commands");
  expect_one_line_error(run_program({"--juggle"}), 2, "unknown option \"--juggle\"; " + commands);
  expect_one_line_error(run_program({"run", "--tem", "1", "-p", "x"}), 2,
                        "unknown option \"--tem\" (did you mean --temp?); see carat run --help");
  expect_one_line_error(run_program({"run", kDemoModel, "more", "-p", "x"}), 2,
                        "unexpected argument \"more\"");
  expect_one_line_error(run_program({"run", kDemoModel, "-", "-p", "x"}), 2, "drop the argument \"-\"");
  expect_one_line_error(run_program({"inspect", kTiny, "more"}), 2, "unexpected argument \"more\"");
  expect_one_line_error(run_program({"run", "-p"}), 2, "--prompt needs a value");
  expect_one_line_error(run_program({"run", "-q=x"}), 2,
                        "unexpected \"=x\" after an option that takes no value");
  expect_one_line_error(run_program({"run", "-", "-", "-"}), 2, "unexpected argument \"-\"");
}

TEST(CommandLine, TheLastOfARepeatedOptionCounts) {
  const Finished twice = run_program({"run", "-p", "x", "-n", "5", "-p", "Once upon a time", "-n", "2"});
  EXPECT_EQ(twice.code, 0) << twice.err;
  EXPECT_NE(twice.err.find(", 2 generated"), std::string::npos) << twice.err;
}

TEST(CommandLine, HelpIsAlsoACommand) {
  EXPECT_EQ(run_program({"help"}).out, run_program({"--help"}).out);
  EXPECT_EQ(run_program({"help", "run"}).out, run_program({"run", "--help"}).out);
  expect_one_line_error(run_program({"help", "rum"}), 2, "unknown command \"rum\"");
}

TEST(CommandLine, PromptOrShortNameInPlaceOfAModelIsExplained) {
  expect_one_line_error(run_program({"run", "Tell me a story"}), 2, "a prompt is given with -p");
  expect_one_line_error(
      run_program({"run", "gemma-4-E2B-it", "-p", "x"}), 1,
      "did you mean google/gemma-4-E2B-it? Download it with: hf download google/gemma-4-E2B-it");
}

TEST(CommandLine, EmptyNamesAreRefused) {
  for (const auto& args : std::vector<std::vector<std::string>>{{"run", "", "-p", "x"},
                                                                {"tokenize", "", "x"},
                                                                {"inspect", ""},
                                                                {"check", "", "r"},
                                                                {"bench", ""},
                                                                {"quantize", "", "out"},
                                                                {"eval", "", "-"}}) {
    SCOPED_TRACE(args[0]);
    expect_one_line_error(run_program(args), 2, "MODEL: is empty");
  }
  expect_one_line_error(run_program({"run", "-f", ""}), 2, "--file: is empty");
  expect_one_line_error(run_program({"check", kTiny, ""}), 2, "REFERENCE: is empty");
  expect_one_line_error(run_program({"quantize", kTiny, ""}), 2, "OUT: is empty");
}

TEST(CommandLine, NamesCannotDriveATerminal) {
  const TempDirectory files;
  const std::string reference =
      files.write("r.json", R"({"prompts": {"a\u001b[31m\nb": {"ids": [1], "argmax": [1]}}})");
  for (const auto& args : std::vector<std::vector<std::string>>{{"inspect", "no\x1b[31m\nmodel"},
                                                                {"run", "-f", "no\x1b[31m\nfile"},
                                                                {"run", "--no\x1b[31m\nflag"},
                                                                {"check", kTiny, reference}}) {
    const Finished finished = run_program(args);
    expect_one_line_error(finished, finished.code, "\\x1b[31m");
    EXPECT_EQ(finished.err.find('\x1b'), std::string::npos);
  }
}

TEST(CommandLine, ContextBeyondTheModelIsRefusedWithTheNumbers) {
  expect_one_line_error(run_program({"run", "-p", "x", "-c", "9000"}), 1,
                        "a context of 9000: the model has only 8192 positions");
  expect_one_line_error(run_program({"eval", kDemoModel, "-", "-c", "9000"}, "text"), 1,
                        "--context 9000: the model has only 8192 positions");
  expect_one_line_error(run_program({"bench", kDemoModel, "--context", "8190", "-n", "9"}), 1,
                        "--context 8190 and --tokens 9 need 8199 positions; the model has only 8192");
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
  expect_one_line_error(run_program({"run", "--format", "int4", "--mmap", "-p", "x"}), 1,
                        "drop --mmap or --format int4");
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
  for (const char* flag : {"--help", "--version"})
    expect_one_line_error(Program({flag}, ::open("/dev/full", O_WRONLY | O_CLOEXEC)).wait(), 1,
                          "standard output");
}

TEST(CommandLine, EnvironmentGivesDefaultsThatFlagsOverride) {
  const std::vector<std::string> args{"run", "-p", "Once upon a time"};
  const Finished one = run_program(args, "", {"CARAT_MAX_TOKENS=1", "CARAT_TEMP=0"});
  EXPECT_NE(one.err.find(", 1 generated"), std::string::npos) << one.err;
  std::vector<std::string> with_flag = args;
  with_flag.insert(with_flag.end(), {"-n", "3"});
  const Finished three = run_program(with_flag, "", {"CARAT_MAX_TOKENS=1"});
  EXPECT_NE(three.err.find(", 3 generated"), std::string::npos) << three.err;
  expect_one_line_error(run_program(args, "", {"CARAT_DEVICE=tpu"}), 2, "carat: CARAT_DEVICE: ");
  expect_one_line_error(run_program({"bench", kTiny}, "", {"CARAT_DEVICE=tpu"}), 2, "carat: CARAT_DEVICE: ");
  expect_one_line_error(run_program(args, "", {"CARAT_MMAP=banana"}), 2,
                        "carat: CARAT_MMAP: must be true or false, not \"banana\"");
  expect_one_line_error(run_program({"run"}, "", {"CARAT_PROMPT=x", "CARAT_FILE=y"}), 2,
                        "CARAT_FILE can't be used together with CARAT_PROMPT");
}

TEST(CommandLine, PromptThatIsTypedWinsOverOneFromTheEnvironment) {
  expect_one_line_error(run_program({"run", "-f", "no-such-file"}, "", {"CARAT_PROMPT=x"}), 1,
                        "no-such-file");
  EXPECT_EQ(run_program({"run", "-p", "x", "-n", "1"}, "", {"CARAT_FILE=no-such-file"}).code, 0);
  const Finished piped = run_program({"run", "-", "-n", "1"}, "", {"CARAT_PROMPT=many words here"});
  EXPECT_EQ(piped.err.rfind("1 prompt tokens", 0), 0u) << piped.err;
}

TEST(CommandLine, EnvironmentOfOtherCommandsIsIgnored) {
  const Finished finished = run_program({"inspect", kTiny}, "", {"CARAT_FORMAT=x", "CARAT_MAX_TOKENS=0"});
  EXPECT_EQ(finished.code, 0) << finished.err;
}

/// All commands without their MODEL, with what else they need.
std::vector<std::vector<std::string>> commands_without_model(const TempDirectory& files) {
  const std::string in = files.write("in.jsonl", R"({"prompt": "x", "max_tokens": 1})");
  const std::string text = files.write("text", "Once upon a time there was a king");
  return {{"run", "-p", "x", "-n", "1"},
          {"batch", in, files.path() / "out.jsonl"},
          {"tokenize"},
          {"inspect"},
          {"check", kTestData + "ref_demo_f32.json", "--prompts", "once", "--greedy", "1"},
          {"eval", text}};
}

TEST(CommandLine, AModelThatIsNotTypedComesFromTheEnvironment) {
  const TempDirectory files;
  std::vector<std::vector<std::string>> commands = commands_without_model(files);
  commands.push_back({"bench"});
  commands.push_back({"serve", "--port", "0"});
  for (const auto& words : commands) {
    SCOPED_TRACE(::testing::PrintToString(words));
    const Finished finished = run_program(words, "x", {"CARAT_MODEL=/no/such/model"});
    EXPECT_EQ(finished.code, 1);
    EXPECT_NE(finished.err.find("/no/such/model"), std::string::npos) << finished.err;
  }
}

TEST(CommandLine, AModelThatNobodyNamesIsTheDemo) {
  const TempDirectory files;
  for (const auto& words : commands_without_model(files)) {
    SCOPED_TRACE(::testing::PrintToString(words));
    EXPECT_EQ(run_program(words, "x", {"CARAT_MODEL="}).code, 0);
  }
}

TEST(CommandLine, AModelWithoutTheFilesBehindItIsNotTakenForOne) {
  const TempDirectory files;
  const std::string requests = files.write("requests.jsonl", "");
  for (const std::string& model : {kTiny, std::string("google/gemma-4-E2B-it")}) {
    const std::string taken = " is required; \"" + model + "\" is no file and so taken for MODEL";
    expect_one_line_error(run_program({"check", model}), 2, "REFERENCE" + taken);
    expect_one_line_error(run_program({"eval", model}), 2, "TEXT" + taken);
    expect_one_line_error(run_program({"batch", model}), 2, "IN" + taken);
    expect_one_line_error(run_program({"batch", model, requests}), 2, "OUT" + taken);
  }
  expect_one_line_error(run_program({"batch", requests}), 2, "OUT is required;");
}

TEST(CommandLine, QuantizeNeedsItsModel) {
  const TempDirectory files;
  expect_one_line_error(run_program({"quantize", files.path() / "gemma"}), 2,
                        "OUT is required; see carat quantize --help");
  EXPECT_TRUE(std::filesystem::is_empty(files.path()));
  expect_one_line_error(run_program({"quantize"}), 2, "MODEL is required");
}

}  // namespace
}  // namespace carat
