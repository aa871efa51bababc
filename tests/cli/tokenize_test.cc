#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/program.h"

namespace carat {
namespace {

using nlohmann::json;

TEST(Tokenize, JsonLinesGiveTheIdsOfHuggingFaceTokenizers) {
  const json golden = json::parse(read_text(kTestData + "tokenizer_demo.json"));
  std::string input;
  for (const json& entry : golden) input += entry["text"].dump() + "\n";
  const Finished finished = run_program({"tokenize", kDemoModel, "--jsonl"}, input);
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_EQ(finished.err, "");
  std::istringstream lines(finished.out);
  std::string line;
  for (const json& entry : golden) {
    ASSERT_TRUE(std::getline(lines, line)) << entry["text"];
    EXPECT_EQ(json::parse(line), entry["ids"]) << entry["text"];
  }
  EXPECT_FALSE(std::getline(lines, line)) << line;
}

TEST(Tokenize, JsonLineThatIsNoStringIsNamedByItsNumber) {
  for (const char* bad : {"{\"a\": 1}", "not json", "3", ""}) {
    const Finished finished =
        run_program({"tokenize", kDemoModel, "--jsonl"}, std::string("\"ok\"\n") + bad + "\n");
    EXPECT_EQ(finished.code, 1) << bad;
    EXPECT_NE(finished.err.find("line 2"), std::string::npos) << finished.err;
  }
}

TEST(Tokenize, PrintsIdsOfTextOrStandardInput) {
  const Finished text = run_program({"tokenize", kDemoModel, "Hello, world!"});
  EXPECT_EQ(text.out, "305 561 338 280 1126 274\n");
  EXPECT_EQ(run_program({"tokenize", kDemoModel}, "Hello, world!").out, text.out);
  EXPECT_EQ(run_program({"tokenize", kDemoModel + "/tokenizer.json", "Hello, world!"}).out, text.out);
  EXPECT_EQ(run_program({"tokenize", kDemoModel, ""}).out, "\n");
  EXPECT_EQ(run_program({"tokenize", kDemoModel, "Hello, world!", "--bos"}).out, "2 " + text.out);
}

TEST(Tokenize, StandardInputKeepsItsLastNewline) {
  EXPECT_EQ(run_program({"tokenize", kDemoModel}, "\n").out, "273\n");
}

TEST(Tokenize, SpecialTokensAreRecognisedUnlessToldOtherwise) {
  EXPECT_EQ(run_program({"tokenize", kDemoModel, "<turn|>"}).out, "16\n");
  const std::string as_text = run_program({"tokenize", kDemoModel, "<turn|>", "--no-special"}).out;
  EXPECT_NE(as_text, "16\n");
  EXPECT_NE(as_text.find(' '), std::string::npos);
}

TEST(Tokenize, PiecesAreListedOnePerLine) {
  EXPECT_EQ(run_program({"tokenize", kDemoModel, "\n SafeC", "--pieces"}).out.substr(0, 9), "273\t\"\\n\"\n");
}

TEST(Tokenize, BadLineKeepsTheOutputOfThoseBefore) {
  const Finished finished = run_program({"tokenize", kDemoModel, "--jsonl"}, "\"a\"\n\"b\"\nx\n\"c\"\n");
  EXPECT_EQ(finished.code, 1);
  EXPECT_EQ(finished.out, run_program({"tokenize", kDemoModel, "--jsonl"}, "\"a\"\n\"b\"\n").out);
  EXPECT_NE(finished.err.find("line 3: not a JSON string (write \"Hello\", with quotes): \"x\""),
            std::string::npos)
      << finished.err;
}

TEST(Tokenize, JsonLineWithBytesBehindANulIsRefused) {
  using namespace std::string_literals;
  const Finished finished = run_program({"tokenize", kDemoModel, "--jsonl"}, "\"a\"\0junk\n"s);
  EXPECT_EQ(finished.code, 1);
  EXPECT_NE(finished.err.find("line 1: not a JSON string"), std::string::npos) << finished.err;
}

TEST(Tokenize, LastJsonLineNeedsNoNewline) {
  EXPECT_EQ(run_program({"tokenize", kDemoModel, "--jsonl"}, "\"a\"\n\"b\"").out,
            run_program({"tokenize", kDemoModel, "--jsonl"}, "\"a\"\n\"b\"\n").out);
}

TEST(Tokenize, InputThatCannotBeReadIsAnError) {
  for (const char* input : {"< /", "<&-"}) {
    const std::string command = CARAT_PROGRAM " tokenize " + kDemoModel + " --jsonl 2> /dev/null " + input;
    const int status = std::system(command.c_str());
    EXPECT_EQ(WEXITSTATUS(status), 1) << input;
  }
}

TEST(Tokenize, BrokenTokenizerIsOneLine) {
  const TempDirectory files;
  for (const char* bad : {"", "{", "[]", "{\"model\": {}}", "{\"model\": {\"type\": \"WordPiece\"}}"}) {
    const std::string file = files.write("tokenizer.json", bad);
    expect_one_line_error(run_program({"tokenize", file, "x"}), 1, "tokenizer.json");
  }
  expect_one_line_error(run_program({"tokenize", kTestData + "tiny", "x"}), 1, "tokenizer.json");
}

}  // namespace
}  // namespace carat
