#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "cli/program.h"

namespace carat {
namespace {

using nlohmann::json;
using testing::HasSubstr;

json read_json(const std::string& path) { return json::parse(read_text(path)); }

/// The demo model whose tokenizer has `more` pieces than it should; fewer when negative.
void change_pieces(const TempDirectory& copy, int more) {
  copy_checkpoint(kDemoModel, copy);
  json tokenizer = read_json(kDemoModel + "/tokenizer.json");
  const int size = static_cast<int>(tokenizer["model"]["vocab"].size());
  json kept = json::object();
  for (const auto& [piece, id] : tokenizer["model"]["vocab"].items())
    if (id < size + more) kept[piece] = id;
  for (int i = 0; i < more; ++i) kept["extra piece " + std::to_string(i)] = size + i;
  json merges = json::array();
  for (const json& merge : tokenizer["model"]["merges"]) {
    std::vector<std::string> parts;
    if (merge.is_array()) {
      parts = merge.get<std::vector<std::string>>();
    } else {
      const std::string text = merge;
      parts = {text.substr(0, text.find(' ')), text.substr(text.find(' ') + 1)};
    }
    if (kept.contains(parts[0]) && kept.contains(parts[1]) && kept.contains(parts[0] + parts[1]))
      merges.push_back(merge);
  }
  tokenizer["model"]["vocab"] = kept;
  tokenizer["model"]["merges"] = merges;
  copy.write("tokenizer.json", tokenizer.dump());
}

TEST(LoadedModel, TokenizerWithMorePiecesThanTheModelIsRefusedWhereverTextMeetsIt) {
  const TempDirectory copy;
  change_pieces(copy, 3);
  const std::string message = "tokenizer.json: 4099 pieces, but the model's vocabulary has only 4096";
  expect_one_line_error(run_program({"eval", copy.path(), "-"}, "extra piece 1"), 1, message);
  expect_one_line_error(run_program({"run", copy.path(), "-p", "x"}), 1, message);
}

TEST(LoadedModel, TokenizerWithFewerPiecesIsWarnedOfUnlessThatIsPadding) {
  const TempDirectory copy, padded;
  change_pieces(copy, -300);
  const std::vector<std::string> run{"run", copy.path(), "-p", "x", "-n", "2"};
  const Finished finished = run_program(run);
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_THAT(finished.err, HasSubstr("tokenizer.json has 3796 pieces, the model's vocabulary 4096"));
  change_pieces(padded, -30);
  EXPECT_EQ(run_program({"eval", padded.path(), "-"}, "some text").err, "");
}

TEST(LoadedModel, BosOfDifferentFilesIsWarnedOf) {
  const TempDirectory copy;
  copy_checkpoint(kDemoModel, copy);
  copy.write("generation_config.json", R"({"bos_token_id": 5})");
  const Finished finished = run_program({"eval", copy.path(), "-"}, "some text");
  EXPECT_EQ(finished.code, 0);
  EXPECT_THAT(finished.err,
              HasSubstr("bos is 2 in config.json, but 5 in generation_config.json, which is used"));
  EXPECT_THAT(finished.err, HasSubstr("bos is 2 in tokenizer.json"));
  EXPECT_EQ(run_program({"eval", copy.path(), "-", "-q"}, "some text").err, "");
}

TEST(LoadedModel, TurnMarkersThatAreOrdinaryPiecesMakeNoChatModel) {
  const TempDirectory copy;
  copy_checkpoint(kDemoModel, copy);
  copy.write("chat_template.jinja", "<|turn>{{ messages[0].content }}{{ enable_thinking }}");
  const std::vector<std::string> run{"run", copy.path(), "-p", "Hello", "-n", "1", "--think", "-q"};
  EXPECT_EQ(run_program(run).code, 0);
  json tokenizer = read_json(kDemoModel + "/tokenizer.json"), added = json::array();
  for (const json& token : tokenizer["added_tokens"])
    if (token["content"] != "<|turn>") added.push_back(token);
  tokenizer["added_tokens"] = added;
  copy.write("tokenizer.json", tokenizer.dump());
  expect_one_line_error(run_program(run), 1, "no thinking");
  const std::string told = run_program({"run", copy.path(), "-p", "Hello", "-n", "1"}).err;
  const std::size_t warning = told.find("chat_template.jinja writes <|turn>, which is not a special token");
  EXPECT_NE(warning, std::string::npos) << told;
  EXPECT_EQ(told.find("warning: ", warning), std::string::npos) << told;  // once
}

TEST(LoadedModel, DirectoryWithoutItsFilesIsNamed) {
  const TempDirectory empty;
  const std::string name = "\"" + empty.path().string() + "\"";
  expect_one_line_error(run_program({"inspect", empty.path()}), 1,
                        name + " is not a checkpoint: it has no config.json");
  expect_one_line_error(run_program({"tokenize", empty.path(), "x"}), 1, name + " has no tokenizer.json");
}

}  // namespace
}  // namespace carat
