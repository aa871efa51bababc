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

BatchRequest parse(std::string_view line, const BatchDefaults& defaults = {.max_tokens = 7}) {
  return parse_batch_request(line, hash_of_line(line), defaults);
}

json body_of(const BatchRequest& request) {
  EXPECT_EQ(request.error, "");
  return json::parse(request.body);
}

const BatchDefaults kContinues{.chats = false};

TEST(BatchRequest, APromptIsATurnOrContinued) {
  const std::string line = R"({"id": "a", "prompt": "Hi", "top_k": 5, "max_tokens": 2})";
  const BatchRequest turn = parse(line), text = parse(line, kContinues);
  EXPECT_EQ(turn.custom_id, R"("a")");
  EXPECT_TRUE(turn.is_chat);
  EXPECT_EQ(turn.path, "/v1/chat/completions");
  EXPECT_EQ(body_of(turn), json::parse(R"({"messages": [{"role": "user", "content": "Hi"}], "top_k": 5,
                                           "max_tokens": 2})"));
  EXPECT_FALSE(text.is_chat);
  EXPECT_EQ(text.path, "/v1/completions");
  EXPECT_EQ(body_of(text), json::parse(R"({"prompt": "Hi", "top_k": 5, "max_tokens": 2})"));
  EXPECT_FALSE(parse(R"({"prompt": [2, 5]})").is_chat);
}

TEST(BatchRequest, MessagesAreAChatInAnyCase) {
  for (const bool chats : {true, false}) {
    const BatchRequest request =
        parse(R"({"messages": [{"role": "user", "content": "Hi"}]})", {.chats = chats});
    EXPECT_TRUE(request.is_chat);
    EXPECT_EQ(body_of(request)["messages"][0]["content"], "Hi");
    EXPECT_EQ(request.custom_id, "null");
  }
}

TEST(BatchRequest, OpenAisLinesNameTheirPath) {
  const BatchRequest text = parse(R"({"custom_id": 4, "method": "POST", "url": "/v1/completions",
                                      "body": {"prompt": ["a", "b"], "n": 2, "stream": true}})");
  EXPECT_TRUE(text.in_body);
  EXPECT_FALSE(text.is_chat);
  EXPECT_EQ(text.custom_id, "4");
  EXPECT_EQ(body_of(text), json::parse(R"({"prompt": ["a", "b"], "n": 2, "max_tokens": 7})"));
  EXPECT_TRUE(parse(R"({"url": "/v1/chat/completions", "body": {"messages": []}})").is_chat);
  EXPECT_TRUE(parse(R"({"body": {"messages": []}})").is_chat);
  EXPECT_FALSE(parse(R"({"body": {"prompt": "x"}})").is_chat);
  EXPECT_THAT(parse(R"({"url": "/v1/embeddings", "body": {"prompt": "x"}})").error,
              HasSubstr("url is \"/v1/embeddings\", must be /v1/chat/completions or /v1/completions"));
}

TEST(BatchRequest, DefaultsAreForWhatALineLeavesOpen) {
  const BatchDefaults defaults{.max_tokens = 9, .seed = 3, .think = true};
  EXPECT_EQ(body_of(parse(R"({"prompt": [2]})", defaults)),
            json::parse(R"({"prompt": [2], "max_tokens": 9, "seed": 3})"));
  const json open = body_of(parse(R"({"messages": [], "max_tokens": null})", defaults));
  EXPECT_EQ(open,
            json::parse(R"({"messages": [], "max_tokens": 9, "seed": 3, "reasoning_effort": "medium"})"));
  const std::string said =
      R"({"messages": [], "max_completion_tokens": 4, "seed": 0, "reasoning_effort": "none"})";
  EXPECT_EQ(body_of(parse(said, defaults)), json::parse(said));
}

TEST(BatchRequest, WhatIsWrongIsSaidAndTheIdKept) {
  EXPECT_THAT(parse("{").error, HasSubstr("the line"));
  EXPECT_THAT(parse("[1]").error, HasSubstr("not an object"));
  EXPECT_THAT(parse("{}").error, HasSubstr("neither prompt nor messages"));
  EXPECT_THAT(parse(R"({"body": 5})").error, HasSubstr("body is not an object"));
  EXPECT_THAT(parse(R"({"prompt": "x", "messages": []})").error, HasSubstr("both"));
  EXPECT_THAT(parse(R"({"prompt": 5})").error, HasSubstr("prompt is 5, must be a text"));
  EXPECT_THAT(parse(R"({"prompt": ["a"]})").error, HasSubstr("prompt is [\"a\"], must be a text"));
  const BatchRequest wrong = parse(R"({"custom_id": "q7", "prompt": "x", "n": 2})");
  EXPECT_THAT(wrong.error, HasSubstr("n is 2"));
  EXPECT_EQ(wrong.custom_id, R"("q7")");
  EXPECT_THAT(parse(R"({"id": )" + std::string(100'000, '[') + std::string(100'000, ']') + "}").error,
              HasSubstr("the line"));
}

const HttpResponse kText{.body = R"({"id": "cmpl-1", "object": "text_completion", "choices": [
    {"index": 0, "text": "Hello", "logprobs": null, "finish_reason": "length", "token_ids": [5]}],
    "usage": {"prompt_tokens": 5, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 1}}})"};

const HttpResponse kCall{.body = R"({"id": "chatcmpl-1", "object": "chat.completion", "choices": [
    {"index": 0, "message": {"role": "assistant", "content": null, "reasoning_content": "Hm",
                             "tool_calls": [{"id": "call_1"}]},
     "logprobs": null, "finish_reason": "tool_calls"}],
    "usage": {"prompt_tokens": 5, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 1}}})"};

const HttpResponse kRefusal{.status = 400,
                            .body = R"({"error": {"message": "no", "type": "t", "param": "p"}})"};

TEST(BatchRequest, RepliesBeginWithTheirIndex) {
  const BatchRequest request = parse(R"({"custom_id": "a", "prompt": "x"})");
  const BatchReply reply = make_batch_reply(12, request, kText);
  EXPECT_THAT(reply.line, StartsWith(kReplyBegins));
  EXPECT_EQ(reply.line.find('\n'), reply.line.size() - 1);
  EXPECT_EQ(parse_batch_reply(reply.line).index, 12u);
  EXPECT_EQ(parse_batch_reply(reply.line).line_hash, hash_of_line(R"({"custom_id": "a", "prompt": "x"})"));
  EXPECT_FALSE(parse_batch_reply(reply.line).failed);
  EXPECT_EQ(reply.usage.prompt_tokens, 5);
  EXPECT_EQ(reply.usage.cached_tokens, 1);
  EXPECT_EQ(reply.usage.reply_tokens, 3);
}

TEST(BatchRequest, OurLinesHaveTheChoiceAlone) {
  json text = json::parse(make_batch_reply(0, parse(R"({"id": "a", "prompt": "x"})"), kText).line);
  text.erase("line_hash");
  EXPECT_EQ(text, json::parse(R"({"index": 0, "custom_id": "a", "text": "Hello", "finish_reason": "length",
      "token_ids": [5], "usage": {"prompt_tokens": 5, "completion_tokens": 3,
      "prompt_tokens_details": {"cached_tokens": 1}}})"));
  const json call = json::parse(make_batch_reply(0, parse(R"({"prompt": "x"})"), kCall).line);
  EXPECT_EQ(call["text"], "");
  EXPECT_EQ(call["reasoning_content"], "Hm");
  EXPECT_EQ(call["tool_calls"][0]["id"], "call_1");
  EXPECT_EQ(call["finish_reason"], "tool_calls");
}

TEST(BatchRequest, RepliesToOpenAisLinesHaveTheWholeBody) {
  const BatchRequest request = parse(R"({"custom_id": "b", "body": {"messages": []}})");
  const json whole = json::parse(make_batch_reply(3, request, kCall).line);
  EXPECT_THAT(whole["id"].get<std::string>(), StartsWith("batch_req_"));
  EXPECT_EQ(whole["response"]["status_code"], 200);
  EXPECT_THAT(whole["response"]["request_id"].get<std::string>(), StartsWith("req_"));
  EXPECT_EQ(whole["response"]["body"], json::parse(kCall.body));
  EXPECT_TRUE(whole["error"].is_null());
  const json failed = json::parse(make_batch_reply(3, request, kRefusal).line);
  EXPECT_THAT(failed["id"].get<std::string>(), StartsWith("batch_req_"));
  EXPECT_TRUE(failed["response"].is_null());
}

TEST(BatchRequest, ErrorsHaveACodeAndAMessage) {
  const BatchRequest request = parse(R"({"prompt": "x"})"), wrong = parse("{}");
  const BatchReply refused = make_batch_reply(3, request, kRefusal);
  EXPECT_TRUE(parse_batch_reply(refused.line).failed);
  EXPECT_EQ(json::parse(refused.line)["error"], (json{{"code", "t"}, {"message", "no"}}));
  EXPECT_EQ(refused.usage.reply_tokens, 0);
  const json error = json::parse(batch_error_line(4, wrong))["error"];
  EXPECT_EQ(error, (json{{"code", "invalid_request_error"}, {"message", wrong.error}}));
}

TEST(BatchRequest, LinesOfOthersAreNoReplies) {
  for (const char* line : {"", "{}", "x", R"({"index": -1, "custom_id": null})", R"({"index": 1})",
                           R"({"index": 1, "line_hash": "x"})"})
    expect_error(ErrorKind::corrupt, {"not a reply of carat batch"}, [&] { parse_batch_reply(line); });
}

}  // namespace
}  // namespace carat
