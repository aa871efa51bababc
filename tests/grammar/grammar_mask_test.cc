// Properties of masks, over random schemas and replies.
#include <cstdlib>
#include <fstream>

#include "grammar/masked_reply.h"
#include "grammar/random_schema.h"

namespace carat {
namespace {

/// A name twice in an object is an error, as is everything that isn't JSON.
std::optional<Json> parse_strictly(const std::string& text) {
  std::vector<std::vector<std::string>> names;
  bool twice = false;
  const auto look = [&](int, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) names.emplace_back();
    if (event == Json::parse_event_t::object_end) names.pop_back();
    if (event == Json::parse_event_t::key) {
      twice |= std::ranges::find(names.back(), parsed.get<std::string>()) != names.back().end();
      names.back().push_back(parsed);
    }
    return true;
  };
  const Json value = Json::parse(text, look, false);
  if (value.is_discarded() || twice) return std::nullopt;
  return value;
}

/// As Python's json.dumps writes it.
std::string with_spaces(const Json& value) {
  std::string text;
  if (!value.is_structured()) return value.dump();
  for (const auto& [name, member] : value.items()) {
    if (!text.empty()) text += ", ";
    if (value.is_object()) text += Json(name).dump() + ": ";
    text += with_spaces(member);
  }
  return value.is_object() ? '{' + text + '}' : '[' + text + ']';
}

struct Vocabulary {
  std::shared_ptr<const Tokenizer> tokenizer;
  std::unique_ptr<GrammarCompiler> compiler;
};

std::vector<Vocabulary> vocabularies() {
  std::vector<Vocabulary> all;
  all.push_back({demo_tokenizer(), std::make_unique<GrammarCompiler>(demo_tokenizer(), std::vector{kEos})});
  if (const char* file = std::getenv("CARAT_GEMMA4_TOKENIZER")) {
    const auto tokenizer = Tokenizer::load(file);
    all.push_back({tokenizer, std::make_unique<GrammarCompiler>(tokenizer, std::vector{kEos})});
  }
  return all;
}

TEST(GrammarMask, RandomRepliesSatisfyTheirSchema) {
  // Lines {"schema", "reply"} for a validator of somebody else.
  const char* const file = std::getenv("CARAT_GRAMMAR_SAMPLES");
  std::ofstream samples(file ? file : "/dev/null");
  for (const Vocabulary& vocabulary : vocabularies()) {
    const bool is_demo = vocabulary.tokenizer == demo_tokenizer();
    int finished = 0, drawn = 0;
    for (uint64_t seed = 0; seed < (is_demo ? 300u : 20u); ++seed) {
      Random random(seed);
      const Json schema = random_schema(random, 3);
      SCOPED_TRACE(schema.dump());
      MaskedReply reply(vocabulary.tokenizer, vocabulary.compiler->json_schema(schema.dump(), Thinking::off));
      for (int i = 0; i < 4; ++i, ++drawn) {
        if (!reply.draw(random, 120)) continue;
        ++finished;
        const std::optional<Json> value = parse_strictly(reply.text());
        ASSERT_TRUE(value) << reply.text();
        ASSERT_TRUE(validates(*value, schema)) << reply.text();
        samples << Json{{"schema", schema}, {"reply", reply.text()}}.dump() << '\n';
      }
    }
    EXPECT_GT(finished, drawn / 2);
  }
}

TEST(GrammarMask, ValidValuesAreNeverRefused) {
  for (const Vocabulary& vocabulary : vocabularies()) {
    const bool is_demo = vocabulary.tokenizer == demo_tokenizer();
    for (uint64_t seed = 0; seed < (is_demo ? 300u : 40u); ++seed) {
      Random random(seed + 1000);
      const Json schema = random_schema(random, 3);
      SCOPED_TRACE(schema.dump());
      MaskedReply reply(vocabulary.tokenizer, vocabulary.compiler->json_schema(schema.dump(), Thinking::off));
      for (int i = 0; i < 4; ++i) {
        const Json value = random_value(random, schema);
        ASSERT_TRUE(validates(value, schema)) << value;
        for (const std::string& text : {value.dump(), with_spaces(value), value.dump(2)})
          ASSERT_EQ(reply.first_refused(text, false), -1) << text;
      }
    }
  }
}

TEST(GrammarMask, ATokenIsAllowedExactlyWhenItsBytesAreOneByOne) {
  const auto tokenizer = demo_tokenizer();
  for (uint64_t seed = 0; seed < 12; ++seed) {
    Random random(seed + 50);
    const std::string schema = random_schema(random, 3).dump();
    MaskedReply reply(tokenizer, demo_compiler().json_schema(schema, Thinking::off));
    MaskedReply bytes(tokenizer, demo_compiler().json_schema(schema, Thinking::off));
    reply.draw(random, 40);
    const std::vector<int32_t> drawn = reply.tokens();
    const std::size_t at = drawn.empty() ? 0 : random.below(drawn.size());
    reply.clear();
    for (std::size_t i = 0; i < at; ++i) reply.push(drawn[i]);
    for (int32_t token = 0; token < tokenizer->vocab_size(); ++token) {
      if (tokenizer->is_special(token)) continue;
      bytes.clear();
      for (std::size_t i = 0; i < at; ++i) bytes.push(drawn[i]);
      bool passes = true;
      for (const char byte : tokenizer->token_bytes(token)) {
        passes = passes && bytes.allows(bytes.byte_token(byte));
        if (!passes) break;
        bytes.push(bytes.byte_token(byte));
      }
      ASSERT_EQ(reply.allows(token), passes)
          << schema << " after " << reply.text() << ": " << tokenizer->piece(token);
    }
  }
}

TEST(GrammarMask, IsAFunctionOfTheReplyAlone) {
  const auto grammar = demo_compiler().json_object(Thinking::off);
  Random random(7);
  MaskedReply reply(demo_tokenizer(), grammar);
  std::vector<std::vector<int32_t>> replies(20);
  for (auto& drawn : replies) {
    reply.draw(random, 150);
    drawn = reply.tokens();
  }
  const auto shared = make_mask(grammar);
  const std::size_t words = static_cast<std::size_t>(demo_tokenizer()->vocab_size()) / 32 + 1;
  for (int i = 0; i < 600; ++i) {  // jumps between replies, back and forth, with what they don't allow behind
    std::vector<int32_t> text = replies[random.below(replies.size())];
    text.resize(random.below(text.size() + 1));
    if (random.once_in(3)) text.push_back(static_cast<int32_t>(random.below(4096)));
    std::vector<uint32_t> expected(words), found(words);
    make_mask(grammar)->allow_after(text, expected);
    shared->allow_after(text, found);
    ASSERT_EQ(found, expected);
  }
}

TEST(GrammarMask, AllowsEndTokensWhereAReplyIsComplete) {
  MaskedReply reply(demo_tokenizer(), demo_compiler().json_schema(R"({"type":"integer"})", Thinking::off));
  const int32_t turn = demo_tokenizer()->find("<turn|>"),
                response = demo_tokenizer()->find("<|tool_response>");
  EXPECT_FALSE(reply.allows(kEos));
  reply.push(reply.byte_token('1'));
  EXPECT_TRUE(reply.allows(kEos) && reply.allows(turn));
  EXPECT_FALSE(reply.allows(response)) << "no answer ends with it";
  reply.push(kEos);
  EXPECT_EQ(reply.allowed(), (std::vector{kEos, turn}));
  reply.push(reply.byte_token('1'));
  EXPECT_TRUE(reply.allowed().empty());
}

TEST(GrammarMask, BlanksAreBounded) {
  MaskedReply reply(demo_tokenizer(), demo_compiler().json_object(Thinking::off));
  for (const char c : std::string("{\n")) reply.push(reply.byte_token(c));
  int spaces = 0;
  for (; reply.allows(reply.byte_token(' ')); ++spaces) reply.push(reply.byte_token(' '));
  EXPECT_EQ(spaces, 40);
  EXPECT_FALSE(reply.allows(reply.byte_token('\n')));
  EXPECT_TRUE(reply.allows(reply.byte_token('"')));
}

TEST(GrammarMask, AThoughtComesFirst) {
  const int32_t begin = demo_tokenizer()->find("<|channel>"), end = demo_tokenizer()->find("<channel|>");
  MaskedReply reply(demo_tokenizer(), demo_compiler().json_schema(R"({"type":"null"})", Thinking::allowed));
  EXPECT_TRUE(reply.allows(begin) && reply.allows(reply.byte_token('n')));
  EXPECT_FALSE(reply.allows(end) || reply.allows(reply.byte_token('x')));
  reply.push(begin);
  for (const int32_t token : demo_tokenizer()->encode("thought\nanything {}", SpecialTokens::as_text)) {
    EXPECT_TRUE(reply.allows(token) && reply.allows(end));
    EXPECT_FALSE(reply.allows(kEos) || reply.allows(begin));
    reply.push(token);
  }
  reply.push(end);
  EXPECT_FALSE(reply.allows(begin) || reply.allows(kEos));
  for (const char c : std::string("null")) reply.push(reply.byte_token(c));
  EXPECT_TRUE(reply.allows(kEos));

  MaskedReply inside(demo_tokenizer(), demo_compiler().json_schema(R"({"type":"null"})", Thinking::open));
  EXPECT_TRUE(inside.allows(end) && inside.allows(inside.byte_token('x')));
}

}  // namespace
}  // namespace carat
