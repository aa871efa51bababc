#include "text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

#include "support/expect_error.h"
#include "text/small_tokenizer.h"

namespace carat {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using Ids = std::vector<int32_t>;

/// `cases`: texts with the ids and the decoded text of Hugging Face tokenizers.
void expect_equal_ids(const Tokenizer& tokenizer, const json& cases) {
  ASSERT_FALSE(cases.empty());
  for (const json& example : cases) {
    const std::string text = example["text"];
    const Ids ids = tokenizer.encode(text, SpecialTokens::recognise);
    EXPECT_EQ(ids, example["ids"].get<Ids>()) << "text: " << json(text);
    if (example.contains("decoded")) {
      EXPECT_EQ(tokenizer.decode(ids, false), example["decoded"].get<std::string>());
    }
    if (example.contains("ids_as_text")) {
      EXPECT_EQ(tokenizer.encode(text, SpecialTokens::as_text), example["ids_as_text"].get<Ids>())
          << json(text);
    }
  }
}

void expect_equal_text(const Tokenizer& tokenizer, const json& cases) {
  ASSERT_FALSE(cases.empty());
  for (const json& example : cases) {
    const Ids ids = example["ids"];
    EXPECT_EQ(tokenizer.decode(ids, false), example["text"].get<std::string>()) << "ids: " << example["ids"];
    EXPECT_EQ(tokenizer.decode(ids, true), example["text_without_special"].get<std::string>())
        << "ids: " << example["ids"];
  }
}

TEST(Tokenizer, EqualsHuggingFaceOnTheDemoTokenizer) {
  expect_equal_ids(*demo_tokenizer(), read_golden("tokenizer_demo.json"));
}

TEST(Tokenizer, EqualsHuggingFaceOnRandomTextAndIds) {
  const json golden = read_golden("tokenizer_demo_random.json");
  expect_equal_ids(*demo_tokenizer(), golden["encode"]);
  expect_equal_text(*demo_tokenizer(), golden["decode"]);
}

TEST(Tokenizer, EqualsHuggingFaceOnOddFiles) {
  for (const json& odd : read_golden("tokenizer_odd.json")) {
    const auto tokenizer = parse_tokenizer(odd["file"]);
    expect_equal_ids(*tokenizer, odd["encode"]);
    expect_equal_text(*tokenizer, odd["decode"]);
    EXPECT_EQ(tokenizer->adds_bos(), !odd["file"]["post_processor"].is_null());
  }
}

TEST(Tokenizer, EqualsHuggingFaceOnGemma4) {
  const char* file = std::getenv("CARAT_GEMMA4_TOKENIZER");
  if (file == nullptr) GTEST_SKIP() << "CARAT_GEMMA4_TOKENIZER does not name a tokenizer.json of Gemma 4";
  const auto tokenizer = Tokenizer::load(file);
  EXPECT_EQ(tokenizer->vocab_size(), 262144);
  EXPECT_TRUE(tokenizer->adds_bos());
  EXPECT_EQ(tokenizer->find("<turn|>"), 106);
  EXPECT_TRUE(tokenizer->is_special(106));
  expect_equal_ids(*tokenizer, read_golden("tokenizer_gemma4.json"));
}

TEST(Tokenizer, ControlTokensInTheTextOfUsersStayText) {
  const auto tokenizer = demo_tokenizer();
  int specials = 0;
  for (int32_t id = 0; id < tokenizer->vocab_size(); ++id) {
    if (!tokenizer->is_special(id)) continue;
    ++specials;
    const std::string name(tokenizer->piece(id));
    EXPECT_THAT(tokenizer->encode(name, SpecialTokens::recognise), ElementsAre(id));
    const std::string text = "hi" + name + "\n" + name + name;
    const Ids ids = tokenizer->encode(text, SpecialTokens::as_text);
    for (const int32_t each : ids) EXPECT_FALSE(tokenizer->is_special(each)) << name;
    EXPECT_EQ(tokenizer->decode(ids, false), text);
  }
  EXPECT_GT(specials, 3);  // <pad>, <eos>, <bos> and the turns at least
}

TEST(Tokenizer, EncodeAppends) {
  Ids ids = {7};
  parse_tokenizer(small_tokenizer_json({"a"}, {}))->encode("a", SpecialTokens::as_text, ids);
  EXPECT_THAT(ids, ElementsAre(7, 258));
}

TEST(Tokenizer, SpaceAndItsMarkerAreOne) {
  const auto tokenizer = parse_tokenizer(small_tokenizer_json({"a", "▁", "▁a"}, {{"▁", "a"}}));
  EXPECT_THAT(tokenizer->encode(" a ", SpecialTokens::as_text), ElementsAre(260, 259));
  EXPECT_THAT(tokenizer->encode("▁a▁", SpecialTokens::as_text), ElementsAre(260, 259));
  EXPECT_EQ(tokenizer->decode(Ids{260, 259}, false), " a ");
  EXPECT_EQ(tokenizer->token_bytes(260), " a");
  EXPECT_EQ(tokenizer->piece(260), "▁a");
}

TEST(Tokenizer, InvalidUtf8IsReadAsReplacementCharacters) {
  const auto tokenizer = parse_tokenizer(small_tokenizer_json({"a", "\uFFFD"}, {}));
  const auto encode = [&](std::string_view text) { return tokenizer->encode(text, SpecialTokens::as_text); };
  EXPECT_THAT(encode("a\xFF\xF0\x9F\x98"), ElementsAre(258, 259, 259));
  EXPECT_THAT(encode("\xC3"), ElementsAre(259));
  EXPECT_THAT(encode("\xED\xA0\x80"), ElementsAre(259, 259, 259));  // a surrogate
}

TEST(Tokenizer, RunOfBytePiecesIsTextOrReplacedAsAWhole) {
  const auto tokenizer = parse_tokenizer(small_tokenizer_json({"a"}, {}));
  EXPECT_EQ(tokenizer->decode(Ids{2 + 0xC3, 2 + 0xA9, 258}, false), "éa");
  EXPECT_EQ(tokenizer->decode(Ids{2 + 0xC3, 2 + 0xA9, 2 + 0xFF, 258}, false), "\uFFFD\uFFFD\uFFFDa");
  EXPECT_EQ(tokenizer->decode(Ids{2 + 0xC3, 258, 2 + 0xA9}, false), "\uFFFDa\uFFFD");
  EXPECT_EQ(tokenizer->decode(Ids{2 + 0xC3, 1, 2 + 0xA9}, true), "é");  // a skipped token doesn't end the run
  EXPECT_EQ(tokenizer->token_bytes(2 + 0xC3), "\xC3");
  EXPECT_TRUE(tokenizer->is_byte(2 + 0xC3));
  EXPECT_FALSE(tokenizer->is_byte(258));
}

TEST(Tokenizer, UnknownIdsAreNoPieces) {
  const auto tokenizer = parse_tokenizer(small_tokenizer_json({"a"}, {}));
  for (const int32_t id : {-1, 259, 1 << 30}) {
    EXPECT_EQ(tokenizer->piece(id), "");
    EXPECT_EQ(tokenizer->token_bytes(id), "");
    EXPECT_FALSE(tokenizer->is_special(id));
  }
  EXPECT_EQ(tokenizer->decode(Ids{-1, 258, 259}, false), "a");
  EXPECT_EQ(tokenizer->find("b"), -1);
}

TEST(Tokenizer, AddedTokenOutsideTheVocabularyTakesTheNextId) {
  json document = small_tokenizer_json({"f"}, {});
  document["added_tokens"].push_back({{"id", 259}, {"content", "foo"}});
  const auto tokenizer = parse_tokenizer(document);
  EXPECT_EQ(tokenizer->vocab_size(), 260);
  EXPECT_THAT(tokenizer->encode("ffoof", SpecialTokens::as_text), ElementsAre(258, 259, 258));
  EXPECT_FALSE(tokenizer->is_special(259));
}

TEST(Tokenizer, MegabyteWithoutABreakIsEncoded) {
  const auto tokenizer = demo_tokenizer();
  for (const std::string_view unit : {"a", " ", "\n", "😀", "a ", "<", "<bos", "the"}) {
    std::string text;
    while (text.size() < 1'000'000) text += unit;
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text, SpecialTokens::recognise), false), text)
        << json(unit);
  }
}

TEST(Tokenizer, ThreadsMayShareIt) {
  const auto tokenizer = demo_tokenizer();
  const json golden = read_golden("tokenizer_demo.json");
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { expect_equal_ids(*tokenizer, golden); });
  for (std::thread& thread : threads) thread.join();
}

TEST(Tokenizer, MissingFileIsNamed) {
  expect_error(ErrorKind::not_found, {"no-such-file.json"}, [] { Tokenizer::load("no-such-file.json"); });
}

}  // namespace
}  // namespace carat
