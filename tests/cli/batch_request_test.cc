#include "cli/batch_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/expect_error.h"

namespace carat {
namespace {

using nlohmann::json;
using testing::HasSubstr;

BatchRequest parse(std::string_view line) { return parse_batch_request(line, {.max_tokens = 7}); }

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
  EXPECT_THAT(parse(R"({"prompt": 5})").error, HasSubstr("prompt is \"5\", must be a string"));
  EXPECT_THAT(parse(R"({"prompt": []})").error, HasSubstr("empty list"));
  EXPECT_THAT(parse(R"({"prompt": [5000000000]})").error, HasSubstr("out of range"));
  EXPECT_THAT(parse(R"({"prompt": "x", "n": 2})").error, HasSubstr("n is 2"));
  EXPECT_THAT(parse(R"({"prompt": "x", "temperatur": 2})").error, HasSubstr("\"temperatur\""));
  EXPECT_THAT(parse(R"({"prompt": "x", "logit_bias": {"a": 1}})").error, HasSubstr("not a token id"));
  const BatchRequest wrong = parse(R"({"custom_id": "q7", "prompt": "x", "seed": -1})");
  EXPECT_THAT(wrong.error, HasSubstr("seed is -1"));
  EXPECT_EQ(wrong.custom_id, R"("q7")");
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
  EXPECT_EQ(parse_batch_reply(line).custom_id, R"("a")");
  const json parsed = json::parse(line);
  EXPECT_EQ(parsed["finish_reason"], "length");
  EXPECT_EQ(parsed["usage"]["completion_tokens"], 3);
  const BatchRequest body =
      parse(R"({"custom_id": "b", "body": {"messages": [{"role": "user", "content": "x"}]}})");
  const json wrapped = json::parse(batch_reply_line(3, body, reply, "m"));
  EXPECT_EQ(wrapped["response"]["body"]["object"], "chat.completion");
  EXPECT_EQ(wrapped["response"]["body"]["choices"][0]["message"]["role"], "assistant");
  EXPECT_EQ(json::parse(batch_error_line(3, body, "no"))["error"]["message"], "no");
}

TEST(BatchRequest, LinesOfOthersAreNoReplies) {
  for (const char* line : {"", "{}", "x", R"({"index": -1, "custom_id": null})", R"({"index": 1})"})
    expect_error(ErrorKind::corrupt, {"not a reply of carat batch"}, [&] { parse_batch_reply(line); });
}

}  // namespace
}  // namespace carat
