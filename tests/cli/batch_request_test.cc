#include "cli/batch_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/expect_error.h"

namespace carat {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

BatchRequest parse(std::string_view line, bool chats = true) {
  return parse_batch_request(line, {.max_tokens = 7}, chats);
}

TEST(BatchRequest, PromptWithParameters) {
  const BatchRequest request = parse(
      R"({"id": "a", "prompt": "Hi", "temperature": 0, "top_k": 5, "stop": ["x", "y"], "seed": 3,
          "logit_bias": {"12": -1.5}, "model": "any"})");
  EXPECT_EQ(request.error, "");
  EXPECT_EQ(request.custom_id, R"("a")");
  EXPECT_EQ(request.kind, BatchRequest::Kind::turn);
  EXPECT_EQ(request.text, "Hi");
  EXPECT_EQ(request.options.max_tokens, 7);
  EXPECT_EQ(request.options.temperature, 0.f);
  EXPECT_EQ(request.options.top_k, 5);
  EXPECT_EQ(request.options.stop, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(request.options.seed, 3u);
  EXPECT_EQ(request.options.logit_bias, (std::vector<std::pair<int32_t, float>>{{12, -1.5f}}));
}

TEST(BatchRequest, MessagesAndOpenAisOwnLines) {
  const BatchRequest chat = parse(R"({"messages": [{"role": "user", "content": "Hi"}]})");
  EXPECT_EQ(chat.kind, BatchRequest::Kind::chat);
  EXPECT_EQ(chat.custom_id, "null");
  EXPECT_EQ(json::parse(chat.text)[0]["content"], "Hi");
  const BatchRequest body = parse(
      R"({"custom_id": 4, "method": "POST", "url": "/v1/completions",
          "body": {"prompt": [2, 5], "max_tokens": 9}})");
  EXPECT_EQ(body.error, "");
  EXPECT_TRUE(body.in_body);
  EXPECT_EQ(body.kind, BatchRequest::Kind::continuation);
  EXPECT_EQ(body.tokens, (std::vector<int32_t>{2, 5}));
  EXPECT_EQ(body.options.max_tokens, 9);
}

TEST(BatchRequest, WhatIsWrongIsSaidAndTheIdKept) {
  EXPECT_THAT(parse("{").error, HasSubstr("not JSON"));
  EXPECT_THAT(parse("[1]").error, HasSubstr("not an object"));
  EXPECT_THAT(parse("{}").error, HasSubstr("neither prompt nor messages"));
  EXPECT_THAT(parse(R"({"prompt": "x", "messages": []})").error, HasSubstr("both"));
  EXPECT_THAT(parse(R"({"prompt": 5})").error, HasSubstr("prompt is 5, must be a string"));
  EXPECT_THAT(parse(R"({"prompt": "x", "seed": "one"})").error,
              HasSubstr("seed is \"one\", must be a whole number"));
  EXPECT_THAT(parse(R"({"prompt": []})").error, HasSubstr("empty list"));
  EXPECT_THAT(parse(R"({"prompt": [5000000000]})").error, HasSubstr("out of range"));
  EXPECT_THAT(parse(R"({"prompt": "x", "n": 2})").error, HasSubstr("n is 2"));
  EXPECT_THAT(parse(R"({"prompt": "x", "temperatur": 2})").error, HasSubstr("\"temperatur\""));
  EXPECT_THAT(parse(R"({"prompt": "x", "logit_bias": {"a": 1}})").error, HasSubstr("not a token id"));
  const BatchRequest wrong = parse(R"({"custom_id": "q7", "prompt": "x", "seed": -1})");
  EXPECT_THAT(wrong.error, HasSubstr("seed is -1"));
  EXPECT_EQ(wrong.custom_id, R"("q7")");
}

TEST(BatchRequest, TextIsContinuedWhereNobodyChats) {
  EXPECT_EQ(parse(R"({"prompt": "x"})").kind, BatchRequest::Kind::turn);
  EXPECT_EQ(parse(R"({"prompt": "x"})", false).kind, BatchRequest::Kind::continuation);
}

TEST(BatchRequest, WhatBelongsToTurnsIsRefusedForAContinuedText) {
  const std::string tools = R"("tools": [{"type": "function", "function": {"name": "f"}}])";
  const std::string thinks = R"("chat_template_kwargs": {"enable_thinking": true})";
  for (const std::string& field : {tools, thinks}) {
    EXPECT_EQ(parse(R"({"prompt": "x", )" + field + "}").error, "");
    EXPECT_THAT(parse(R"({"prompt": "x", )" + field + "}", false).error, HasSubstr("has no effect"));
    EXPECT_THAT(parse(R"({"prompt": [2, 5], )" + field + "}").error, HasSubstr("has no effect"));
    EXPECT_THAT(parse(R"({"body": {"prompt": "x", )" + field + "}}").error, HasSubstr("has no effect"));
  }
  EXPECT_EQ(parse(R"({"prompt": [2], "tools": [], "chat_template_kwargs": {}})").error, "");
  EXPECT_FALSE(parse_batch_request(R"({"prompt": [2]})", {.think = true}, true).options.think);
  EXPECT_TRUE(parse_batch_request(R"({"prompt": "x"})", {.think = true}, true).options.think);
}

TEST(BatchRequest, NoToolsAreNone) {
  EXPECT_EQ(parse(R"({"prompt": "x", "tools": []})").options.tools, "");
  EXPECT_NE(parse(R"({"prompt": "x", "tools": [{}]})").options.tools, "");
  EXPECT_THAT(parse(R"({"prompt": "x", "tools": {}})").error, HasSubstr("tools is {}, must be a list"));
}

TEST(BatchRequest, RepliesBeginWithTheirIndex) {
  Completion reply;
  reply.text = "Hello \xFF";
  reply.finish = FinishReason::length;
  reply.usage = {5, 1, 3, 0, 0, 0};
  const BatchRequest request = parse(R"({"custom_id": "a", "prompt": "x"})");
  const std::string line = batch_reply_line(12, request, reply, "m");
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  EXPECT_EQ(parse_batch_reply(line).index, 12u);
  EXPECT_EQ(parse_batch_reply(line).line_hash, hash_of_line(R"({"custom_id": "a", "prompt": "x"})"));
  EXPECT_FALSE(parse_batch_reply(line).failed);
  const json parsed = json::parse(line);
  EXPECT_EQ(parsed["custom_id"], "a");
  EXPECT_EQ(parsed["finish_reason"], "length");
  EXPECT_EQ(parsed["usage"]["completion_tokens"], 3);
  const std::string error = batch_error_line(3, request, "c", "no");
  EXPECT_EQ(json::parse(error)["error"], (json{{"code", "c"}, {"message", "no"}}));
  EXPECT_TRUE(parse_batch_reply(error).failed);
}

TEST(BatchRequest, RepliesToOpenAisLinesHaveItsFields) {
  const BatchRequest request =
      parse(R"({"custom_id": "b", "body": {"messages": [{"role": "user", "content": "x"}]}})");
  Completion reply;
  reply.text = "Hello";
  const std::string line = batch_reply_line(3, request, reply, "m");
  EXPECT_FALSE(parse_batch_reply(line).failed);
  const json whole = json::parse(line), body = whole["response"]["body"];
  EXPECT_THAT(whole["id"].get<std::string>(), StartsWith("batch_req_"));
  EXPECT_EQ(whole["response"]["status_code"], 200);
  EXPECT_THAT(whole["response"]["request_id"].get<std::string>(), StartsWith("req_"));
  EXPECT_TRUE(whole["error"].is_null());
  EXPECT_THAT(body["id"].get<std::string>(), StartsWith("chatcmpl-"));
  EXPECT_EQ(body["object"], "chat.completion");
  EXPECT_GT(body["created"].get<int64_t>(), 1'700'000'000);
  EXPECT_EQ(body["choices"][0]["message"]["role"], "assistant");
  EXPECT_EQ(body["choices"][0]["message"]["content"], "Hello");
  const json failed = json::parse(batch_error_line(3, request, "c", "no"));
  EXPECT_THAT(failed["id"].get<std::string>(), StartsWith("batch_req_"));
  EXPECT_TRUE(failed["response"].is_null());
}

TEST(BatchRequest, BesideToolCallsNoTextIsNull) {
  const BatchRequest request =
      parse(R"({"custom_id": "b", "body": {"messages": [{"role": "user", "content": "x"}]}})");
  Completion reply;
  reply.tool_calls.push_back({"f", "{}"});
  const auto message = [&] {
    return json::parse(batch_reply_line(3, request, reply, "m"))["response"]["body"]["choices"][0]["message"];
  };
  EXPECT_TRUE(message()["content"].is_null());
  EXPECT_EQ(message()["tool_calls"][0]["function"]["name"], "f");
  reply.text = "Wait";
  EXPECT_EQ(message()["content"], "Wait");
}

TEST(BatchRequest, LinesOfOthersAreNoReplies) {
  for (const char* line : {"", "{}", "x", R"({"index": -1, "custom_id": null})", R"({"index": 1})",
                           R"({"index": 1, "line_hash": "x"})"})
    expect_error(ErrorKind::corrupt, {"not a reply of carat batch"}, [&] { parse_batch_reply(line); });
}

}  // namespace
}  // namespace carat
