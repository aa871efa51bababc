#include "text/tokenizer_json.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "text/small_tokenizer.h"

namespace carat {
namespace {

using nlohmann::json;
using nlohmann::operator""_json_pointer;

json good_document() { return small_tokenizer_json({"a", "b", "ab"}, {{"a", "b"}}); }

void expect_refused(ErrorKind kind, const std::string& part, const json& document) {
  expect_error(kind, {"tokenizer.json: ", part}, [&] { parse_tokenizer(document); });
}

/// The good document with the value at `pointer` replaced.
json with(const char* pointer, const json& value) {
  json document = good_document();
  document[json::json_pointer(pointer)] = value;
  return document;
}

TEST(TokenizerJson, EveryCutIsRefused) {
  const std::string text = good_document().dump();
  for (std::size_t size = 0; size < text.size(); size += 7)
    expect_error(ErrorKind::corrupt, {"not valid JSON"},
                 [&] { read_tokenizer_json(std::string_view(text).substr(0, size), "tokenizer.json"); });
}

TEST(TokenizerJson, WrongTypesAreRefused) {
  const auto corrupt = [](const std::string& part, const char* pointer, const json& value) {
    SCOPED_TRACE(pointer);
    expect_refused(ErrorKind::corrupt, part, with(pointer, value));
  };
  for (const json& value : {json(nullptr), json(1), json("x"), json::array()}) {
    corrupt("model", "/model", value);
    corrupt("model.vocab", "/model/vocab", value);
  }
  corrupt("model.vocab is empty", "/model/vocab", json::object());
  corrupt("model.merges", "/model/merges", json::object());
  corrupt("the id of \"a\"", "/model/vocab/a", "258");
  corrupt("the id of \"a\"", "/model/vocab/a", -1);
  corrupt("the id of \"a\"", "/model/vocab/a", 258.5);
  corrupt("the id of \"a\"", "/model/vocab/a", json::array());
  corrupt("model.unk_token", "/model/unk_token", 3);
  corrupt("model.unk_token", "/model/unk_token", "nothing");
  corrupt("model.fuse_unk", "/model/fuse_unk", 1);
  corrupt("added_tokens", "/added_tokens", "x");
  corrupt("added_tokens[1]", "/added_tokens/1", "x");
  corrupt("added_tokens[1].id", "/added_tokens/1/id", "1");
  corrupt("added_tokens[1].content", "/added_tokens/1/content", "");
  corrupt("added_tokens[1].lstrip", "/added_tokens/1/lstrip", "no");
}

TEST(TokenizerJson, IdsMustBeOneOfEachWithoutGaps) {
  expect_refused(ErrorKind::corrupt, "without gaps", with("/model/vocab/a", 1000));
  expect_refused(ErrorKind::corrupt, "too large", with("/model/vocab/a", 1ull << 40));
  expect_refused(ErrorKind::corrupt, "same id 259", with("/model/vocab/a", 259));
  std::string text = good_document().dump();
  const std::string entry = "\"a\":258";
  text.replace(text.find(entry), entry.size(), "\"a\":258,\"a\":261");
  expect_error(ErrorKind::corrupt, {"\"a\" appears twice"},
               [&] { Tokenizer::parse(text, "tokenizer.json"); });
}

TEST(TokenizerJson, MergesMustBePairsOfPieces) {
  const auto corrupt = [](const std::string& part, const char* merges) {
    expect_refused(ErrorKind::corrupt, part, with("/model/merges", json::parse(merges)));
  };
  corrupt("model.merges[1]: \"x\" is not in model.vocab", R"([["a", "b"], ["x", "b"]])");
  corrupt("model.merges[0]: \"ba\" is not in model.vocab", R"([["b", "a"]])");
  corrupt("model.merges[0]: a piece is empty", R"([["a", ""]])");
  corrupt("model.merges[1]: not a pair", R"([["a", "b"], ["a", "b", "c"]])");
  corrupt("model.merges[0]: not a pair", R"([[]])");
  corrupt("model.merges[0]: \"ab\" is not two pieces", R"(["ab"])");
  corrupt("model.merges[0]: \"a b c\" is not two pieces", R"(["a b c"])");
  corrupt("model.merges[0]: neither", R"([3])");
  corrupt("model.merges[0]: neither", R"([["a", ["b"]]])");
}

TEST(TokenizerJson, MergesMayBeStringsAndComeBeforeTheVocabulary) {
  json document = with("/model/merges", json::array({"a b"}));
  document["model"]["vocab"].swap(document["model"]["z"]);
  document["model"].erase("vocab");
  std::string text = document.dump();
  text.replace(text.find("\"z\":"), 4, "\"vocab\":");
  EXPECT_LT(text.find("\"merges\""), text.find("\"vocab\""));
  const auto tokenizer = Tokenizer::parse(text, "tokenizer.json");
  EXPECT_EQ(tokenizer->encode("ab", SpecialTokens::as_text), std::vector<int32_t>{260});
}

TEST(TokenizerJson, KeyThatAppearsTwiceIsRefused) {
  expect_error(ErrorKind::corrupt, {"\"model\" appears twice"},
               [] { read_tokenizer_json(R"({"model":{},"model":{}})", "tokenizer.json"); });
  expect_error(ErrorKind::corrupt, {"\"vocab\" appears twice"}, [] {
    read_tokenizer_json(R"({"model":{"vocab":{"a":0},"vocab":{"b":1}}})", "tokenizer.json");
  });
}

TEST(TokenizerJson, DeepNestingIsRefused) {
  const std::string deep = "{\"x\":" + std::string(100'000, '[');
  expect_error(ErrorKind::corrupt, {"nested"}, [&] { read_tokenizer_json(deep, "tokenizer.json"); });
}

TEST(TokenizerJson, AddedTokenMustAgreeWithTheVocabulary) {
  expect_refused(ErrorKind::corrupt, "\"<bos>\" has id 5", with("/added_tokens/1/id", 5));
  expect_refused(ErrorKind::corrupt, "\"new\" has id 1", with("/added_tokens/1/content", "new"));
}

TEST(TokenizerJson, PipelinesThatAreNotGemmasAreRefused) {
  const auto unsupported = [](const std::string& part, const char* pointer, const json& value) {
    SCOPED_TRACE(pointer);
    expect_refused(ErrorKind::unsupported, part, with(pointer, value));
  };
  unsupported("model.type", "/model/type", "Unigram");
  unsupported("model.byte_fallback", "/model/byte_fallback", false);
  unsupported("model.dropout", "/model/dropout", 0.1);
  unsupported("continuing_subword_prefix", "/model/continuing_subword_prefix", "##");
  unsupported("end_of_word_suffix", "/model/end_of_word_suffix", "</w>");
  unsupported("normalizer", "/normalizer", nullptr);
  unsupported("normalizer", "/normalizer/type", "NFC");
  unsupported("normalizer", "/normalizer/content", "_");
  unsupported("pre_tokenizer", "/pre_tokenizer", json{{"type", "ByteLevel"}});
  unsupported("truncation", "/truncation", json{{"max_length", 512}});
  unsupported("padding", "/padding", json{{"strategy", {{"Fixed", 512}}}});
  unsupported("decoder", "/decoder", nullptr);
  unsupported("decoder", "/decoder/decoders/1/type", "Strip");
  unsupported("post_processor", "/post_processor", json{{"type", "BertProcessing"}});
  unsupported("post_processor.single", "/post_processor",
              json{{"type", "TemplateProcessing"},
                   {"single", {{{"Sequence", {{"id", "A"}}}}, {{"SpecialToken", {{"id", "<eos>"}}}}}}});
}

TEST(TokenizerJson, BytesBehindTheDocumentAreRefused) {
  const std::string text = good_document().dump();
  for (const std::string& more : {std::string("x"), std::string("{}"), std::string("\0x", 2)})
    expect_error(ErrorKind::corrupt, {"not valid JSON"}, [&] { read_tokenizer_json(text + more, "t.json"); });
}

TEST(TokenizerJson, ErrorsAreOneLineWhateverThePiece) {
  json document = good_document();
  document["model"]["merges"] = json::array({json::array({"\n\x1b[31m" + std::string(1000, 'x'), "b"})});
  expect_refused(ErrorKind::corrupt, "is not in model.vocab", document);
}

}  // namespace
}  // namespace carat
