#include "chat/tool_call_text.h"

#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>

namespace carat {
namespace {

/// name(JSON) of every call; "text" for what is no call.
std::string parsed(std::string_view text) {
  const auto calls = parse_tool_calls(text);
  if (!calls) return "text";
  std::string result;
  for (const ToolCall& call : *calls) {
    EXPECT_TRUE(nlohmann::json::accept(call.arguments)) << call.arguments;
    result += call.name + "(" + call.arguments + ")";
  }
  return result;
}

TEST(ToolCallText, ValuesBecomeJson) {
  EXPECT_EQ(parsed("call:f{}"), "f({})");
  EXPECT_EQ(parsed(R"(call:get.weather-2{city:<|"|>Paris<|"|>,n:42})"),
            R"(get.weather-2({"city":"Paris","n":42}))");
  EXPECT_EQ(parsed("call:f{a:true,b:false,c:null,d:-1.5e3,e:[1,2],g:{h:[]}}"),
            R"(f({"a":true,"b":false,"c":null,"d":-1.5e3,"e":[1,2],"g":{"h":[]}}))");
  EXPECT_EQ(parsed("call:f{big:123456789012345678901234567890}"),
            R"(f({"big":123456789012345678901234567890}))");
  EXPECT_EQ(parsed("call:f{a:True,b:None,c:nil,d:none}"), R"(f({"a":true,"b":null,"c":null,"d":null}))");
  EXPECT_EQ(parsed("call:f{filter:{age:{$gt:3}}}"), R"(f({"filter":{"age":{"$gt":3}}}))");
  EXPECT_EQ(parsed("call:f{a:007,b:1.}"), R"(f({"a":"007","b":"1."}))");
}

TEST(ToolCallText, QuotedTextsAreTakenAsTheyAre) {
  EXPECT_EQ(parsed(R"(call:f{reason:<|"|>user said "hi", then left<|"|>,flag:false})"),
            R"(f({"reason":"user said \"hi\", then left","flag":false}))");
  EXPECT_EQ(parsed("call:f{a:<|\"|>x\n\ty\\{}[]:,<|\"|>}"), R"(f({"a":"x\n\ty\\{}[]:,"}))");
  EXPECT_EQ(parsed(R"(call:f{a:<|"|><|"|>})"), R"(f({"a":""}))");
}

TEST(ToolCallText, AQuoteInsideATextDoesNotEndIt) {
  EXPECT_EQ(parsed(R"(call:f{code:<|"|>s = <|"|>a<|"|>; t = 1<|"|>,n:1})"),
            R"(f({"code":"s = <|\"|>a<|\"|>; t = 1","n":1}))");
  EXPECT_EQ(parsed(R"(call:f{l:[<|"|>a<|"|>,<|"|>b<|"|>]})"), R"(f({"l":["a","b"]}))");
}

TEST(ToolCallText, MissingAndForeignQuotesAreUnderstood) {
  EXPECT_EQ(parsed(R"(call:web{query:weather in Tokyo<|"|>})"), R"(web({"query":"weather in Tokyo"}))");
  EXPECT_EQ(parsed("call:web{query:weather in Tokyo,n:1}"), R"(web({"query":"weather in Tokyo","n":1}))");
  EXPECT_EQ(parsed(R"(call:f{refs:["x"],opts:{"mode": "fast"}})"),
            R"(f({"refs":["x"],"opts":{"mode":"fast"}}))");
  EXPECT_EQ(parsed("call:f{refs:['x']}"), R"(f({"refs":["x"]}))");
  EXPECT_EQ(parsed(R"(call:f{"a": "q\"\u00e9\ud83d\ude00\n"})"), "f({\"a\":\"q\\\"é😀\\n\"})");
  EXPECT_EQ(parsed(R"(call:f{<|"|>a<|"|>:1})"), R"(f({"a":1}))");
}

TEST(ToolCallText, BlanksAndStrayCommasAndBracketsDoNoHarm) {
  EXPECT_EQ(parsed(" call:f { a : 1 , b : [ 1 , ] , } "), R"(f({"a":1,"b":[1]}))");
  EXPECT_EQ(parsed("call:f{a:[1]]}"), R"(f({"a":[1]}))");
}

TEST(ToolCallText, SeveralCallsMayShareOneMarker) {
  EXPECT_EQ(parsed("call:f{a:1}call:g{}"), R"(f({"a":1})g({}))");
  EXPECT_EQ(parsed("call:f{},\ncall:g{}"), "f({})g({})");
}

TEST(ToolCallText, WhatIsNoCallStaysText) {
  for (const std::string_view text :
       {"", "hello", "call:", "call:f", "call:{}", "call:f{", "call:f{a", "call:f{a:", "call:f{a:1",
        "call:f{a:1}}", "call:f{a:1}x", "call:f{:1}", "call:f{a:}", "call:f{a:<|\"|>x}", "call:f{a:1 b:2,,}",
        "call:f[1]", "f{a:1}"})
    EXPECT_EQ(parsed(text), "text") << text;
  EXPECT_EQ(parsed("call:f{a:" + std::string(5000, '[') + std::string(5000, ']') + "}"), "text");
}

TEST(ToolCallText, LongCallsTakeLinearTime) {
  const auto start = std::chrono::steady_clock::now();
  for (const std::string_view part :
       {"a:1,", "a:\"x,", "a:<|\"|>x<|\"|>,", "<|\"|>,\"", "a:<|\"|>,'", "[", "a:'x',"}) {
    std::string text = "call:f{a:<|\"|>";
    while (text.size() < 400'000) text += part;
    parse_tool_calls(text + "}");
    parse_tool_calls("call:f{" + text.substr(14) + "}");
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

}  // namespace
}  // namespace carat
