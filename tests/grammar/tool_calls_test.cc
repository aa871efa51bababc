// Tool calls under a mask, read by the output parser.
#include "chat/output_parser.h"
#include "grammar/masked_reply.h"
#include "grammar/random_schema.h"
#include "support/expect_error.h"

namespace carat {
namespace {

std::vector<ToolCall> calls_of(const std::vector<int32_t>& reply, std::string& content) {
  OutputParser parser(demo_tokenizer(), {}, {});
  std::vector<ToolCall> calls;
  const auto take = [&](OutputDelta delta) {
    content += delta.content;
    calls.insert(calls.end(), delta.tool_calls.begin(), delta.tool_calls.end());
  };
  for (const int32_t token : reply) take(parser.push(token));
  take(parser.finish());
  return calls;
}

TEST(ToolCalls, RandomCallsAreReadAsWhatTheirSchemaSays) {
  int finished = 0;
  constexpr int kSeeds = 300;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Random random(seed);
    const Json schema = {
        {"type", "object"},
        {"properties", {{"x", random_schema(random, 2)}, {"two words", random_schema(random, 2)}}},
        {"required", {"x"}}};
    SCOPED_TRACE(schema.dump());
    const std::vector<ToolGrammar> tools = {{"get", schema.dump()}, {"get_time", ""}};
    MaskedReply reply(demo_tokenizer(), demo_compiler().tool_calls(tools, true, Thinking::off));
    if (!reply.draw(random, 150)) continue;
    ++finished;
    std::string content;
    const std::vector<ToolCall> calls = calls_of(reply.tokens(), content);
    const std::string text = demo_tokenizer()->decode(reply.tokens(), false);
    ASSERT_FALSE(calls.empty()) << text;
    ASSERT_EQ(content, "") << text;
    for (const ToolCall& call : calls) {
      const Json arguments = Json::parse(call.arguments, nullptr, false);
      ASSERT_TRUE(call.name == "get" ? validates(arguments, schema) : arguments == Json::object())
          << text << " read as " << call.arguments;
    }
  }
  EXPECT_GT(finished, kSeeds / 2);
}

TEST(ToolCalls, OneOrSeveral) {
  const std::vector<ToolGrammar> tools = {
      {"weather", R"({"type":"object","properties":{"city":{"type":"string"}},"required":["city"]})"}};
  const std::string call = R"x(<|tool_call>call:weather{city:<|"|>Paris, {"x":1}<|"|>}<tool_call|>)x";
  MaskedReply several(demo_tokenizer(), demo_compiler().tool_calls(tools, true, Thinking::off));
  MaskedReply one(demo_tokenizer(), demo_compiler().tool_calls(tools, false, Thinking::off));
  EXPECT_EQ(several.first_refused(call, false), -1);
  EXPECT_TRUE(several.allows(demo_tokenizer()->find("<|tool_response>")));
  EXPECT_EQ(several.first_refused(call + call, false), -1);
  EXPECT_EQ(one.first_refused(call, false), -1);
  EXPECT_EQ(one.first_refused(call + call, false), static_cast<int>(call.size()));
  EXPECT_EQ(one.first_refused("I'd say", false), 0);
  EXPECT_NE(one.first_refused(R"x(<|tool_call>call:other{}<tool_call|>)x", false), -1);
  EXPECT_NE(one.first_refused(R"x(<|tool_call>call:weather{}<tool_call|>)x", false), -1);
}

TEST(ToolCalls, ToolsWhoseNamesRunIntoTheKindOfCallHaveGrammarsOfTheirOwn) {
  const std::vector<ToolGrammar> foo = {{"foo", ""}}, sfoo = {{"sfoo", ""}};
  MaskedReply several(demo_tokenizer(), demo_compiler().tool_calls(foo, true, Thinking::off));
  MaskedReply one(demo_tokenizer(), demo_compiler().tool_calls(sfoo, false, Thinking::off));
  EXPECT_EQ(several.first_refused("<|tool_call>call:foo{}<tool_call|>", false), -1);
  EXPECT_EQ(one.first_refused("<|tool_call>call:sfoo{}<tool_call|>", false), -1);
}

TEST(ToolCalls, AThoughtMayComeFirst) {
  const std::vector<ToolGrammar> tools = {{"now", ""}};
  MaskedReply reply(demo_tokenizer(), demo_compiler().tool_calls(tools, false, Thinking::allowed));
  EXPECT_EQ(reply.first_refused("<|channel>thought\nhm<channel|><|tool_call>call:now{}<tool_call|>", false),
            -1);
  EXPECT_EQ(reply.first_refused("<|tool_call>call:now{}<tool_call|>", false), -1);
}

TEST(ToolCalls, RefusesWhatTheNotationCannotSay) {
  const auto refused = [](const char* name, const char* schema, std::vector<std::string_view> parts,
                          ErrorKind kind) {
    const std::vector<ToolGrammar> tools = {{name, schema}};
    expect_error(kind, parts, [&] { demo_compiler().tool_calls(tools, true, Thinking::off); });
  };
  refused("f", R"x({"properties":{"a":{"enum":["<|\"|>"]}}})x", {"f#/properties/a", "enum"},
          ErrorKind::unsupported);
  refused("f", R"({"type":"array"})", {"f#", "object"}, ErrorKind::invalid_argument);
  refused("f g", "{}", {"f g", "name"}, ErrorKind::invalid_argument);
}

}  // namespace
}  // namespace carat
