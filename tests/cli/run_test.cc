// The demo model has turn tokens but no chat template, so it continues text.
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "text/tokenizer.h"

namespace carat {
namespace {

const std::vector<std::string> kGreedy{"run", "-p", "Once upon a time", "--temp", "0", "-n", "20"};

std::vector<std::string> with(std::vector<std::string> args, std::initializer_list<std::string> more) {
  args.insert(args.end(), more);
  return args;
}

TEST(Run, ContinuesTextWithTheTokensOfTheReference) {
  const auto golden = nlohmann::json::parse(read_text(kTestData + "ref_demo_f32.json"))["prompts"]["once"];
  auto ids = golden["greedy"].get<std::vector<int32_t>>();
  ids.resize(20);
  const auto tokenizer = Tokenizer::load(kDemoModel + "/tokenizer.json");
  const auto prompt = golden["ids"].get<std::vector<int32_t>>();

  const Finished finished = run_program(
      {"run", kDemoModel, "-p", tokenizer->decode(prompt, true), "--temp", "0", "-n", "20", "--ignore-eos"});
  EXPECT_EQ(finished.code, 0);
  EXPECT_EQ(finished.out, tokenizer->decode(ids, true) + "\n");
  EXPECT_EQ(finished.err.rfind(std::to_string(prompt.size()) + " prompt tokens, 20 generated", 0), 0u)
      << finished.err;
  EXPECT_NE(finished.err.find("greedy"), std::string::npos) << finished.err;
}

TEST(Run, TakesThePromptFromAFlagAFileOrStandardInput) {
  const TempDirectory files;
  const std::string file = files.write("prompt.txt", "Once upon a time\n"), text = "Once upon a time\n";
  const std::string expected = run_program(kGreedy).out;
  EXPECT_GT(expected.size(), 20u);
  EXPECT_EQ(run_program({"run", "-f", file, "--temp", "0", "-n", "20"}).out, expected);
  EXPECT_EQ(run_program({"run", "--temp", "0", "-n", "20"}, text).out, expected);
  EXPECT_EQ(run_program({"run", "-", "--temp", "0", "-n", "20"}, text).out, expected);
  EXPECT_EQ(run_program({"run", "-f", "-", "--temp", "0", "-n", "20"}, text).out, expected);
  EXPECT_EQ(run_program({"run", kDemoModel, "-", "--temp", "0", "-n", "20"}, text).out, expected);
  expect_one_line_error(run_program({"run", "-f", "no-such-file"}), 1, "no-such-file");
}

TEST(Run, EmptyPromptStartsFromBos) {
  const Finished finished = run_program({"run", "-p", "", "-n", "5", "--temp", "0"});
  EXPECT_EQ(finished.code, 0);
  EXPECT_EQ(finished.err.rfind("1 prompt tokens", 0), 0u) << finished.err;
  const Finished joined = run_program({"run", "--prompt=", "-n", "5", "--temp", "0"});
  EXPECT_EQ(joined.out, finished.out);
  EXPECT_EQ(joined.err.rfind("1 prompt tokens, 5 generated", 0), 0u) << joined.err;
}

TEST(Run, DraftsChangeTheSpeedAlone) {
  for (const char* temperature : {"0", "1"}) {
    const std::vector<std::string> args{
        "run", "-p", "The fox ran. The fox ran. The fox", "-n", "60", "--seed", "4", "--temp", temperature};
    const Finished plain = run_program(args);
    for (const char* method : {"ngram", "suffix"}) {
      const Finished drafted = run_program(with(args, {"--draft", method, "--draft-tokens", "5"}));
      EXPECT_EQ(drafted.out, plain.out);
      EXPECT_NE(drafted.err.find(" drafts accepted"), std::string::npos) << drafted.err;
    }
    EXPECT_EQ(plain.err.find("drafts"), std::string::npos) << plain.err;
  }
}

TEST(Run, SeedDecidesTheText) {
  const std::vector<std::string> args{"run", "-p", "The king", "-n", "30", "--seed"};
  const Finished first = run_program(with(args, {"1"})), again = run_program(with(args, {"1"}));
  EXPECT_EQ(first.out, again.out);
  EXPECT_NE(first.out, run_program(with(args, {"2"})).out);
  EXPECT_NE(first.err.find("seed 1"), std::string::npos) << first.err;
}

TEST(Run, RandomSeedIsPrintedAndReproduces) {
  const std::vector<std::string> args{"run", "-p", "The king", "-n", "30"};
  const Finished first = run_program(args);
  const std::size_t at = first.err.find("seed ");
  ASSERT_NE(at, std::string::npos) << first.err;
  const std::string seed = std::to_string(std::stoull(first.err.substr(at + 5)));
  EXPECT_EQ(run_program(with(args, {"--seed", seed})).out, first.out);
}

TEST(Run, QuietPrintsTheTextAlone) {
  const Finished finished = run_program(with(kGreedy, {"--quiet"}));
  EXPECT_EQ(finished.err, "");
  EXPECT_EQ(finished.out, run_program(kGreedy).out);
}

TEST(Run, EndsBeforeAStopText) {
  const std::string whole = run_program(kGreedy).out;
  const std::string stop = whole.substr(10, 5);
  const Finished finished = run_program(with(kGreedy, {"--stop", "never said", "--stop", stop}));
  EXPECT_EQ(finished.out, whole.substr(0, whole.find(stop)) + "\n");
}

TEST(Run, StopsOnTheEosTokensOfGenerationConfig) {
  const TempDirectory copy;
  copy_checkpoint(kDemoModel, copy);
  const auto golden = nlohmann::json::parse(read_text(kTestData + "ref_demo_f32.json"))["prompts"]["once"];
  const int third = golden["greedy"][2];
  copy.write("generation_config.json", "{\"eos_token_id\": [" + std::to_string(third) + "]}");
  const auto tokenizer = Tokenizer::load(kDemoModel + "/tokenizer.json");
  const std::string text = tokenizer->decode(golden["ids"].get<std::vector<int32_t>>(), true);
  // do_sample is absent: greedy.
  const std::vector<std::string> args{"run", copy.path(), "-p", text, "-n", "10"};
  EXPECT_NE(run_program(args).err.find(", 3 generated"), std::string::npos);
  EXPECT_NE(run_program(with(args, {"--ignore-eos"})).err.find(", 10 generated"), std::string::npos);
}

TEST(Run, ContextLimitEndsTheReplyAndRefusesALongerPrompt) {
  const Finished ended = run_program(with(kGreedy, {"--context", "8"}));
  EXPECT_EQ(ended.code, 0);
  const int prompt = std::stoi(ended.err);
  EXPECT_NE(ended.err.find(", " + std::to_string(8 - prompt) + " generated"), std::string::npos) << ended.err;
  EXPECT_NE(ended.err.find("length limit"), std::string::npos) << ended.err;
  std::string words;
  for (int i = 0; i < 200; ++i) words += "word ";
  expect_one_line_error(run_program({"run", "-p", words, "--context", "8"}), 1,
                        "--context 8: the prompt has ");
}

TEST(Run, ChatTemplateWrapsThePromptInATurn) {
  const TempDirectory copy;
  copy_checkpoint(kDemoModel, copy);
  copy.write("chat_template.jinja", "<|turn>user\n{{ messages[0].content }}<turn|>\n<|turn>model\n");
  const std::vector<std::string> args{"run", copy.path(), "-p", "Hello", "-n", "2", "--temp", "0"};
  const Finished chat = run_program(args), raw = run_program(with(args, {"--raw"}));
  EXPECT_EQ(chat.code, 0);
  EXPECT_GT(std::stoi(chat.err), std::stoi(raw.err)) << chat.err << raw.err;
}

TEST(Run, ThoughtsGoToStandardErrorUnlessQuiet) {
  const TempDirectory copy;
  copy_checkpoint(kDemoModel, copy);
  copy.write("chat_template.jinja",
             "{{ messages[0].content }}{{ '<|channel>thought\\n' if enable_thinking }}");
  const std::vector<std::string> args{"run", copy.path(), "-p", "Once upon a time", "-n",
                                      "8",   "--temp",    "0",  "--ignore-eos"};
  const Finished answer = run_program(args), thought = run_program(with(args, {"--think"}));
  EXPECT_EQ(answer.code, 0);
  EXPECT_GT(answer.out.size(), 1u);
  EXPECT_EQ(thought.out, "");
  EXPECT_NE(thought.err.find("\n\n"), std::string::npos) << thought.err;
  const Finished quiet = run_program(with(args, {"--think", "-q"}));
  EXPECT_EQ(quiet.out + quiet.err, "");
}

TEST(Run, AModelWithoutTurnsGoesOnWithTheSystemMessageAndThePrompt) {
  const Finished finished = run_program(
      {"run", "--system", "Once upon a time", "-p", "there was", "--temp", "0", "-n", "20", "-q"});
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_EQ(finished.out, run_program({"run", "--raw", "-p", "Once upon a time\nthere was", "--temp", "0",
                                       "-n", "20", "-q"})
                              .out);
  expect_one_line_error(run_program({"run", "--raw", "--system", "x", "-p", "y"}), 1, "--system: --raw");
}

TEST(Run, ThinkNeedsAModelThatThinks) {
  expect_one_line_error(run_program({"run", "-p", "x", "--think"}), 1, "--think: this model has no thinking");
  expect_one_line_error(run_program({"run", "-p", "x", "--think", "--raw"}), 1, "--think: --raw");
}

TEST(Run, TheReplySatisfiesTheSchema) {
  const TempDirectory directory;
  const std::string schema = directory.write(
      "schema.json", R"({"type":"object","properties":{"n":{"type":"integer","maximum":9,"minimum":0},
                         "kind":{"enum":["a","b"]}},"required":["n","kind"],"additionalProperties":false})");
  const Finished finished = run_program({"run", "-p", "x", "--temp", "0", "-q", "--json-schema", schema});
  EXPECT_EQ(finished.code, 0) << finished.err;
  const auto value = nlohmann::json::parse(finished.out, nullptr, false);
  ASSERT_TRUE(value.is_object()) << finished.out;
  EXPECT_TRUE(value.size() == 2 && value["n"].is_number_integer() && value["kind"].is_string())
      << finished.out;

  directory.write("schema.json", R"({"type":"array","uniqueItems":true})");
  expect_one_line_error(run_program({"run", "-p", "x", "--json-schema", schema}), 1, "\"uniqueItems\"");
  expect_one_line_error(run_program({"run", "-p", "x", "--json-schema", schema, "--ignore-eos"}), 1,
                        "--ignore-eos");
}

TEST(Run, ABrokenChatTemplateIsNamed) {
  const TempDirectory copy;
  copy_checkpoint(kDemoModel, copy);
  copy.write("chat_template.jinja", "{{ messages[0].content }}\n{% nonsense %}");
  expect_one_line_error(run_program({"run", copy.path(), "-p", "x"}), 1,
                        "chat_template.jinja:2:1: no statement");
}

TEST(Run, FooterLeavesOutTheRateOfAReplyTooShortToTime) {
  EXPECT_EQ(run_program({"run", "-p", "x", "--ignore-eos", "-n", "2"}).err.find("tok/s"), std::string::npos);
  EXPECT_NE(run_program({"run", "-p", "x", "--ignore-eos", "-n", "9"}).err.find("tok/s"), std::string::npos);
}

TEST(Run, RefusesDevicesAsFilesAndReadsPipes) {
  expect_one_line_error(run_program({"run", "-f", "/dev/zero"}), 1, "neither a regular file nor a pipe");
  const TempDirectory files;
  const std::string pipe = files.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  Program program({"run", "-f", pipe, "--temp", "0", "-n", "20"});
  std::ofstream(pipe) << "Once upon a time\n";
  EXPECT_EQ(program.wait().out, run_program(kGreedy).out);
}

TEST(Run, CutTokenizerConfigIsNamedWithTheByte) {
  const TempDirectory copy;
  copy_checkpoint(kDemoModel, copy);
  copy.write("tokenizer_config.json", R"({"chat_template": "x)");
  expect_one_line_error(run_program({"run", copy.path(), "-p", "x"}), 1,
                        "tokenizer_config.json: not valid JSON: the file ends too early, after 20 bytes");
}

TEST(Run, DemoModelCanBeElsewhere) {
  expect_one_line_error(run_program(kGreedy, "", {"CARAT_DEMO_MODEL=/nonexistent"}), 1, "/nonexistent");
}

TEST(Run, InterruptEndsTheReplyWithItsFooter) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  // The pipe holds less than the reply, so the program can't have ended before the signal, however slow we
  // are.
  ASSERT_LE(::fcntl(ends[1], F_SETPIPE_SZ, 4096), 4096);
  Program program({"run", "-p", "Once upon a time", "--ignore-eos", "-n", "4000"}, ends[1]);
  char first = 0;
  ASSERT_EQ(::read(ends[0], &first, 1), 1);  // the reply has begun, so its handler is there
  program.interrupt();
  char buffer[4096];
  while (::read(ends[0], buffer, sizeof buffer) > 0) {
  }
  ::close(ends[0]);
  const Finished finished = program.wait();
  EXPECT_EQ(finished.code, 130);
  EXPECT_NE(finished.err.find("generated"), std::string::npos) << finished.err;
}

}  // namespace
}  // namespace carat
