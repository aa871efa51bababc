// The APIs on the demo model, from the body of a request to that of its reply.
#include "server/api_routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/demo_api.h"

namespace carat {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class ApiRoutes : public testing::Test {
 protected:
  static DemoApi& api() {
    static DemoApi api;
    return api;
  }
  static json post(const std::string& path, const json& body, int status = 200) {
    const auto exchange = api().post(path, body);
    EXPECT_EQ(exchange->reply().status, status) << exchange->reply().body;
    return exchange->json();
  }
  /// A refusal of `body` that names `field`.
  static void expect_refused(const std::string& path, const json& body, const std::string& field) {
    const json reply = post(path, body, 400);
    EXPECT_EQ(reply.at("error").at("type"), "invalid_request_error") << body;
    EXPECT_EQ(reply.at("error").at("param"), field) << body << reply;
  }
  /// The chunks of a chat's or completion's stream, without [DONE].
  static std::vector<json> chunks(const std::string& path, json body) {
    body["stream"] = true;
    const auto exchange = api().post(path, body);
    std::vector<SentEvent> events = sent_events(exchange->reply().body);
    EXPECT_EQ(exchange->reply().content_type, "text/event-stream");
    EXPECT_FALSE(exchange->aborted());
    EXPECT_EQ(events.back().data, "[DONE]");
    events.pop_back();
    std::vector<json> chunks;
    for (const SentEvent& event : events) chunks.push_back(json::parse(event.data));
    return chunks;
  }
  static json chat(std::initializer_list<std::pair<const char*, json>> fields = {}) {
    json body = {{"model", "demo"},
                 {"messages", {{{"role", "user"}, {"content", "Once upon a time"}}}},
                 {"max_tokens", 12},
                 {"temperature", 0}};
    for (const auto& [name, value] : fields) body[name] = value;
    return body;
  }
  static json completion(std::initializer_list<std::pair<const char*, json>> fields = {}) {
    json body = {{"prompt", "Once upon a time"}, {"max_tokens", 12}, {"temperature", 0}};
    for (const auto& [name, value] : fields) body[name] = value;
    return body;
  }
  static const std::string kChat, kCompletions;
};
const std::string ApiRoutes::kChat = "/v1/chat/completions", ApiRoutes::kCompletions = "/v1/completions";

TEST_F(ApiRoutes, AChatIsAnsweredInOneBody) {
  const json reply = post(kChat, chat());
  EXPECT_EQ(reply.at("object"), "chat.completion");
  EXPECT_EQ(reply.at("model"), "demo");
  EXPECT_THAT(reply.at("id").get<std::string>(), HasSubstr("chatcmpl-"));
  const json& choice = reply.at("choices").at(0);
  EXPECT_EQ(choice.at("message").at("role"), "assistant");
  EXPECT_FALSE(choice["message"].at("content").get<std::string>().empty());
  EXPECT_EQ(choice.at("finish_reason"), "length");
  EXPECT_EQ(reply.at("usage").at("completion_tokens"), 12);
  EXPECT_EQ(reply["usage"].at("total_tokens"), reply["usage"].at("prompt_tokens").get<int>() + 12);
}

TEST_F(ApiRoutes, AModelWithoutChatFormatContinuesTheText) {
  const json reply = post(kChat, chat());
  EXPECT_EQ(reply["choices"][0]["message"]["content"],
            post(kCompletions, completion())["choices"][0]["text"]);
}

TEST_F(ApiRoutes, AStreamIsTheSameReplyInOrder) {
  const json whole = post(kChat, chat());
  const std::vector<json> parts = chunks(kChat, chat({{"stream_options", {{"include_usage", true}}}}));
  std::string content;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool is_usage = i + 1 == parts.size(), is_last = i + 2 == parts.size();
    EXPECT_EQ(parts[i].at("object"), "chat.completion.chunk");
    EXPECT_EQ(parts[i].at("id"), parts[0].at("id"));
    EXPECT_EQ(parts[i].at("usage").is_null(), !is_usage);
    EXPECT_EQ(parts[i].at("choices").empty(), is_usage);
    if (is_usage) continue;
    const json& choice = parts[i]["choices"][0];
    EXPECT_EQ(choice.at("delta").contains("role"), i == 0);
    EXPECT_EQ(choice.at("finish_reason").is_null(), !is_last);
    EXPECT_TRUE(!is_last || choice["delta"].empty());
    content += choice["delta"].value("content", "");
  }
  EXPECT_EQ(json(content), whole.at("choices").at(0).at("message").at("content"));
  EXPECT_EQ(parts.back()["usage"]["completion_tokens"], whole["usage"]["completion_tokens"]);
}

TEST_F(ApiRoutes, AStopStringEndsTheReplyAndIsNotShown) {
  for (const std::string& path : {kChat, kCompletions}) {
    json body = path == kChat ? chat() : completion();
    const json whole = post(path, body)["choices"][0];
    const std::string text = path == kChat ? whole["message"]["content"] : whole["text"];
    const std::string stop = text.substr(text.size() / 2, 3);
    const std::string kept = text.substr(0, text.find(stop));
    body["stop"] = stop;
    const json choice = post(path, body)["choices"][0];
    EXPECT_EQ(choice.at("finish_reason"), "stop");
    EXPECT_EQ(path == kChat ? choice["message"]["content"] : choice["text"], kept);
    std::string streamed;
    for (const json& chunk : chunks(path, body)) {
      const json& part = chunk.at("choices").at(0);
      streamed += path == kChat ? part["delta"].value("content", "") : part.value("text", "");
    }
    EXPECT_EQ(streamed, kept);
  }
}

TEST_F(ApiRoutes, SeveralChoicesShareAPromptAndEndApart) {
  const json reply = post(kChat, chat({{"n", 3}, {"temperature", 1}, {"seed", 7}, {"stop", "e"}}));
  ASSERT_EQ(reply.at("choices").size(), 3u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(reply["choices"][i].at("index"), i);
    EXPECT_EQ(reply["choices"][i]["message"]["content"].get<std::string>().find('e'), std::string::npos);
  }
  const json again = post(kChat, chat({{"n", 3}, {"temperature", 1}, {"seed", 7}, {"stop", "e"}}));
  EXPECT_EQ(again["choices"][2]["message"], reply["choices"][2]["message"]);
}

TEST_F(ApiRoutes, LogprobsOfAChatCoverItsText) {
  const json reply = post(kChat, chat({{"logprobs", true}, {"top_logprobs", 2}}));
  const json& choice = reply.at("choices").at(0);
  std::string bytes;
  for (const json& token : choice.at("logprobs").at("content")) {
    EXPECT_LE(token.at("logprob").get<double>(), 0.);
    EXPECT_EQ(token.at("top_logprobs").size(), 2u);
    EXPECT_EQ(token["top_logprobs"][0]["logprob"], token["logprob"]);  // greedy
    for (const int byte : token.at("bytes")) bytes += static_cast<char>(byte);
  }
  EXPECT_EQ(json(bytes), choice["message"]["content"]);
  std::size_t streamed = 0;
  for (const json& chunk : chunks(kChat, chat({{"logprobs", true}})))
    if (const json& logprobs = chunk.at("choices").at(0).at("logprobs"); !logprobs.is_null())
      streamed += logprobs.at("content").size();
  EXPECT_EQ(streamed, choice["logprobs"]["content"].size());
}

TEST_F(ApiRoutes, ATrailingAnswerIsContinued) {
  const json messages = {{{"role", "user"}, {"content", "Once upon"}},
                         {{"role", "assistant"}, {"content", "a time"}}};
  const json prompt = post("/apply-template", {{"messages", messages}});
  EXPECT_THAT(prompt.at("prompt").get<std::string>(), testing::EndsWith("a time"));
}

TEST_F(ApiRoutes, TokenIdsComeBackWhenAskedFor) {
  const json reply = post(kChat, chat({{"return_token_ids", true}}));
  EXPECT_EQ(reply.at("choices").at(0).at("token_ids").size(), 12u);
  EXPECT_EQ(reply.at("prompt_token_ids").size(), reply.at("usage").at("prompt_tokens"));
}

TEST_F(ApiRoutes, FieldsWithAbsurdValuesAreRefusedByName) {
  for (const auto& [field, value] :
       std::initializer_list<std::pair<const char*, json>>{{"temperature", -1},
                                                           {"temperature", "warm"},
                                                           {"top_p", 1.5},
                                                           {"top_k", -2},
                                                           {"n", 0},
                                                           {"n", 9},
                                                           {"n", 1.5},
                                                           {"max_tokens", -1},
                                                           {"max_completion_tokens", 1e18},
                                                           {"logit_bias", {{"x", 1}}},
                                                           {"logit_bias", {{"99999999", 1}}},
                                                           {"stop", ""},
                                                           {"stop", json::array({1})},
                                                           {"top_logprobs", 3},
                                                           {"priority", 1001},
                                                           {"stream", "yes"},
                                                           {"messages", json::array()},
                                                           {"messages", "hello"},
                                                           {"tool_choice", "required"},
                                                           {"reasoning_effort", "enormous"},
                                                           {"functions", json::array({json::object()})},
                                                           {"min_tokens", 13}}) {
    const std::string name = field;
    const json reply = post(kChat, chat({{field, value}}), 400);
    EXPECT_THAT(reply.at("error").at("param").dump(), HasSubstr(name)) << value;
  }
  expect_refused(kChat, chat({{"response_format", {{"type", "xml"}}}}), "response_format.type");
  expect_refused(kChat, chat({{"messages", {{{"role", "narrator"}, {"content", ""}}}}}), "messages[0].role");
  expect_refused(kChat, chat({{"tools", {{{"type", "function"}}}}}), "tools[0].function");
  for (const char* const field : {"name", "tool_call_id", "reasoning_content"}) {
    const json message = {{"role", "tool"}, {"content", ""}, {field, json::object()}};
    expect_refused(kChat, chat({{"messages", json::array({message})}}), std::string("messages[0].") + field);
  }
}

TEST_F(ApiRoutes, AnAnswerKeepsToItsSchema) {
  const json schema = {{"type", "object"},
                       {"properties", {{"age", {{"type", "integer"}, {"minimum", 0}, {"maximum", 99}}}}},
                       {"required", {"age"}},
                       {"additionalProperties", false}};
  for (const json& format :
       {json{{"type", "json_schema"}, {"json_schema", {{"name", "x"}, {"schema", schema}}}},
        json{{"type", "json_object"}, {"schema", schema}}}) {
    const json reply =
        post(kChat, chat({{"response_format", format}, {"max_tokens", 60}, {"temperature", 1}}));
    const json answer = json::parse(reply["choices"][0]["message"]["content"].get<std::string>());
    EXPECT_EQ(answer.size(), 1u);
    EXPECT_TRUE(answer.at("age").is_number_integer());
    EXPECT_EQ(reply["choices"][0]["finish_reason"], "stop");
  }
  const json responses =
      post("/v1/responses",
           {{"input", "x"},
            {"max_output_tokens", 60},
            {"text", {{"format", {{"type", "json_schema"}, {"name", "x"}, {"schema", schema}}}}}});
  EXPECT_TRUE(json::parse(responses["output"][0]["content"][0]["text"].get<std::string>()).contains("age"));
}

TEST_F(ApiRoutes, ASchemaThatCannotBeGuaranteedIsRefused) {
  for (const json& schema : {json{{"$ref", "#/nowhere"}}, json{{"type", "string"}, {"pattern", "(a"}}}) {
    const json reply =
        post(kChat,
             chat({{"response_format",
                    {{"type", "json_schema"}, {"json_schema", {{"name", "x"}, {"schema", schema}}}}}}),
             400);
    EXPECT_EQ(reply.at("error").at("param"), "response_format");
    EXPECT_EQ(reply.at("error").at("code"), "invalid_schema");
  }
  expect_refused("/v1/responses", {{"input", "x"}, {"tool_choice", "required"}}, "tool_choice");
}

TEST_F(ApiRoutes, UnknownFieldsAreIgnoredUnlessTheServerIsStrict) {
  EXPECT_EQ(post(kChat, chat({{"some_new_field", 1}, {"user", "me"}})).at("object"), "chat.completion");
  DemoApi strict;
  strict.model().refuses_unknown_fields = true;
  EXPECT_EQ(strict.post(kChat, chat({{"user", "me"}}))->reply().status, 200);
  const auto refused = strict.post(kChat, chat({{"some_new_field", 1}}));
  EXPECT_EQ(refused->reply().status, 400);
  EXPECT_EQ(refused->json().at("error").at("param"), "some_new_field");
  const json neutral = {{"functions", nullptr}, {"best_of", 1}, {"suffix", ""}, {"some_new_field", nullptr}};
  json body = chat();
  body.update(neutral);
  EXPECT_EQ(strict.post(kChat, body)->reply().status, 200);
  EXPECT_EQ(strict.post("/v1/messages", chat({{"n", 1}, {"functions", nullptr}}))->reply().status, 200);
  EXPECT_EQ(strict.post(kChat, chat({{"functions", json::array({json::object()})}}))->reply().status, 400);
}

TEST_F(ApiRoutes, ChatsTakeTheThinkingOfOtherServers) {
  for (const char* type : {"enabled", "disabled"})
    EXPECT_EQ(post(kChat, chat({{"thinking", {{"type", type}}}})).at("object"), "chat.completion");
  expect_refused(kChat, chat({{"thinking", {{"type", "often"}}}}), "thinking.type");
}

TEST_F(ApiRoutes, WhatIsNoJsonObjectIsRefused) {
  for (const std::string& body : {std::string(), std::string("["), std::string("[]"), std::string("{\"a\":1"),
                                  std::string("{\"model\": \"\\ud800\"}"), std::string("{\"a\": \"\xff\"}"),
                                  std::string(100'000, '['), std::string("{}x")}) {
    const auto exchange = api().call("POST", kChat, body);
    EXPECT_EQ(exchange->reply().status, 400) << body.substr(0, 20);
    EXPECT_TRUE(exchange->json().at("error").at("message").is_string());
  }
}

TEST_F(ApiRoutes, AnUnknownModelIsNotFound) {
  const json reply = post(kChat, chat({{"model", "other"}}), 404);
  EXPECT_EQ(reply.at("error").at("code"), "model_not_found");
  EXPECT_EQ(post(kChat, chat({{"model", "alias"}})).at("model"), "demo");
}

TEST_F(ApiRoutes, APromptThatDoesNotFitIsRefused) {
  std::string text;
  for (int i = 0; i < DemoApi::kContext; ++i) text += "word ";
  const json reply = post(kChat, chat({{"messages", {{{"role", "user"}, {"content", text}}}}}), 400);
  EXPECT_EQ(reply.at("error").at("code"), "context_length_exceeded");
  EXPECT_EQ(post(kChat, chat({{"max_tokens", 100'000}, {"stop", " "}})).at("object"), "chat.completion");
}

TEST_F(ApiRoutes, CompletionsTakeTextsAndTokens) {
  const json by_text = post(kCompletions, completion());
  EXPECT_EQ(by_text.at("object"), "text_completion");
  const std::string text = by_text.at("choices").at(0).at("text");
  const json ids = post("/tokenize", {{"prompt", "Once upon a time"}}).at("tokens");
  EXPECT_EQ(post(kCompletions, completion({{"prompt", ids}}))["choices"][0]["text"], text);
  const json both =
      post(kCompletions, completion({{"prompt", json::array({"Once upon a time", "The king"})}}));
  ASSERT_EQ(both.at("choices").size(), 2u);
  EXPECT_EQ(both["choices"][0]["text"], text);
  EXPECT_EQ(post(kCompletions, completion({{"prompt", json::array({ids, ids})}}))["choices"][1]["text"],
            text);
  const json echoed = post(kCompletions, completion({{"echo", true}}));
  EXPECT_EQ(echoed["choices"][0]["text"], "Once upon a time" + text);
  EXPECT_EQ(post(kCompletions, completion({{"max_tokens", 0}, {"echo", true}}))["choices"][0]["text"],
            "Once upon a time");
}

TEST_F(ApiRoutes, LogprobsOfCompletionsHaveTheirOldForm) {
  const json choice = post(kCompletions, completion({{"logprobs", 2}, {"max_tokens", 5}}))["choices"][0];
  const json& logprobs = choice.at("logprobs");
  EXPECT_EQ(logprobs.at("tokens").size(), 5u);
  EXPECT_EQ(logprobs.at("token_logprobs").size(), 5u);
  EXPECT_GE(logprobs.at("top_logprobs").at(0).size(), 2u);
  EXPECT_EQ(logprobs.at("text_offset").at(0), 0);
  std::string joined;
  for (const json& token : logprobs["tokens"]) joined += token.get<std::string>();
  EXPECT_EQ(json(joined), choice["text"]);
}

TEST_F(ApiRoutes, ResponsesAnswerTextsAndItems) {
  const json reply = post("/v1/responses", {{"input", "Once upon a time"}, {"max_output_tokens", 8}});
  EXPECT_EQ(reply.at("object"), "response");
  EXPECT_EQ(reply.at("status"), "incomplete");
  EXPECT_EQ(reply.at("incomplete_details").at("reason"), "max_output_tokens");
  EXPECT_EQ(reply.at("output").at(0).at("type"), "message");
  EXPECT_EQ(reply.at("usage").at("output_tokens"), 8);
  const json items = {{{"role", "user"}, {"content", {{{"type", "input_text"}, {"text", "Once"}}}}}};
  EXPECT_EQ(post("/v1/responses", {{"input", items}, {"max_output_tokens", 2}}).at("object"), "response");
  expect_refused("/v1/responses", {{"input", "x"}, {"store", true}}, "store");
  expect_refused("/v1/responses", {{"input", "x"}, {"previous_response_id", "resp_1"}},
                 "previous_response_id");
  expect_refused("/v1/responses", {{"input", {{{"type", "computer_call"}}}}}, "input[0].type");
}

TEST_F(ApiRoutes, ResponsesRefuseWhatTheyCannotDo) {
  const auto body = [](const char* name, const json& value) { return json{{"input", "x"}, {name, value}}; };
  expect_refused("/v1/responses", body("truncation", "auto"), "truncation");
  expect_refused("/v1/responses", body("max_tool_calls", 3), "max_tool_calls");
  expect_refused("/v1/responses",
                 body("include", {"message.output_text.logprobs", "file_search_call.results"}), "include[1]");
  json allowed = body("truncation", "disabled");
  allowed.update({{"max_tool_calls", nullptr}, {"include", {"message.output_text.logprobs"}}});
  allowed["max_output_tokens"] = 4;
  const json reply = post("/v1/responses", allowed);
  EXPECT_EQ(reply.at("output").at(0).at("content").at(0).at("logprobs").size(), 4u);
  EXPECT_EQ(reply["output"][0].at("status"), "incomplete");
  allowed["stream"] = true;
  const auto exchange = api().post("/v1/responses", allowed);
  for (const SentEvent& event : sent_events(exchange->reply().body)) {
    if (event.name != "response.output_item.done") continue;
    EXPECT_EQ(json::parse(event.data).at("item").at("status"), "incomplete");
  }
}

TEST_F(ApiRoutes, FieldsOfOtherEndpointsAreRefusedWhenTheyAskForSomething) {
  const json messages = {{{"role", "user"}, {"content", "Once"}}};
  const std::pair<std::string, json> kEndpoints[] = {
      {kChat, {{"messages", messages}, {"max_tokens", 1}}},
      {kCompletions, {{"prompt", "Once"}, {"max_tokens", 1}}},
      {"/v1/responses", {{"input", "Once"}, {"max_output_tokens", 1}}},
      {"/v1/messages", {{"messages", messages}, {"max_tokens", 1}}},
      {"/v1/messages/count_tokens", {{"messages", messages}}},
      {"/tokenize", {{"prompt", "Once"}}},
      {"/detokenize", {{"tokens", {1}}}},
      {"/apply-template", {{"messages", messages}}}};
  const auto has = [&](const std::string& path, const std::string& field) {
    if (!path.starts_with("/v1/") || path.ends_with("count_tokens")) return true;  // where no reply is made
    if (field == "n" || field == "timings") return path == kChat || path == kCompletions;
    if (field == "stop") return path != "/v1/messages";
    if (field == "stop_sequences") return path == "/v1/messages";
    if (field == "stream" || field == "seed") return true;
    if (field == "max_tokens") return path != "/v1/responses";
    return field == "echo" && path == kCompletions;
  };
  const std::pair<std::string, json> kFields[] = {{"n", 2},
                                                  {"timings", true},
                                                  {"stop", "\n"},
                                                  {"stop_sequences", {"\n"}},
                                                  {"stream", true},
                                                  {"seed", 1},
                                                  {"max_tokens", 1},
                                                  {"echo", true},
                                                  {"guided_json", json::object({{"type", "object"}})}};
  for (const auto& [path, body] : kEndpoints)
    for (const auto& [field, value] : kFields) {
      json with = body;
      with[field] = value;
      const auto exchange = api().post(path, with);
      EXPECT_EQ(exchange->reply().status, has(path, field) ? 200 : 400) << path << " " << field;
      EXPECT_TRUE(has(path, field) || exchange->reply().body.find(field) != std::string::npos) << path;
    }
  for (const auto& [path, body] : kEndpoints) {
    json with = body;
    with.update({{"n", 1}, {"stream", false}, {"timings", false}, {"stop", nullptr}, {"echo", false}});
    EXPECT_EQ(api().post(path, with)->reply().status, 200) << path;
  }
  const json reply = post("/v1/responses", {{"input", "x"}, {"max_tokens", 5}}, 400);
  EXPECT_THAT(reply.at("error").at("message").get<std::string>(), HasSubstr("use max_output_tokens"));
  EXPECT_EQ(api().call("GET", "/generate", "", "prompt=a&n=2")->reply().status, 400);
  expect_refused("/tokenize", {{"prompt", "Once"}, {"chat_template", "{{ messages }}"}}, "chat_template");
}

TEST_F(ApiRoutes, MessagesSpeakAnthropic) {
  const json body = {{"model", "demo"},
                     {"max_tokens", 8},
                     {"messages", {{{"role", "user"}, {"content", "Once upon a time"}}}}};
  const json reply = post("/v1/messages", body);
  EXPECT_EQ(reply.at("type"), "message");
  EXPECT_EQ(reply.at("stop_reason"), "max_tokens");
  EXPECT_EQ(reply.at("content").at(0).at("type"), "text");
  EXPECT_EQ(reply.at("usage").at("output_tokens"), 8);
  json counted = body;
  counted.erase("max_tokens");
  EXPECT_GT(post("/v1/messages/count_tokens", counted).at("input_tokens"), 1);
  json untyped = body;
  for (const char* const field : {"thinking", "tool_choice", "output_config"}) {
    untyped = body;
    untyped[field] = json::object();
    if (field == std::string("output_config")) untyped[field]["format"] = json::object();
    EXPECT_THAT(post("/v1/messages", untyped, 400).at("error").at("message").get<std::string>(),
                HasSubstr("type is missing"));
  }
  const json refused = post("/v1/messages", counted, 400);
  EXPECT_EQ(refused.at("type"), "error");
  EXPECT_EQ(refused.at("error").at("type"), "invalid_request_error");
}

TEST_F(ApiRoutes, TokenizingAndBackKeepsTheText) {
  const std::string text = "The king's café, 1 + 1";
  const json ids = post("/tokenize", {{"content", text}}).at("tokens");
  EXPECT_EQ(post("/detokenize", {{"tokens", ids}}).at("content"), text);
  const json with_bos = post("/tokenize", {{"prompt", text}, {"return_token_strs", true}});
  EXPECT_EQ(with_bos.at("count"), ids.size() + 1);
  EXPECT_EQ(with_bos.at("token_strs").at(0), "<bos>");
  EXPECT_EQ(post("/tokenize", {{"content", "a"}, {"with_pieces", true}}).at("tokens").at(0).at("piece"), "a");
  expect_refused("/detokenize", {{"tokens", {1'000'000}}}, "tokens[0]");
  const json messages = {{{"role", "user"}, {"content", "a"}}};
  expect_refused("/tokenize", {{"messages", messages}, {"prompt", "a"}}, "prompt");
  expect_refused("/tokenize", {{"messages", messages}, {"content", json::object()}}, "content");
}

TEST_F(ApiRoutes, ModelsAreListedWithTheirContext) {
  const json list = api().call("GET", "/v1/models")->json();
  EXPECT_EQ(list.at("data").at(0).at("id"), "demo");
  EXPECT_EQ(list["data"][0].at("max_model_len"), api().model().engine->max_context());
  EXPECT_EQ(list["data"][0].at("continues_text"), true);
  EXPECT_EQ(api().call("GET", "/v1/models/alias")->json().at("id"), "alias");
  EXPECT_EQ(api().call("GET", "/v1/models/other")->reply().status, 404);
}

TEST_F(ApiRoutes, GenerateStreamsPlainText) {
  const auto exchange =
      api().call("GET", "/generate", "", "prompt=Once+upon%20a%20time&max_tokens=12&temperature=0");
  EXPECT_THAT(exchange->reply().content_type, HasSubstr("text/plain"));
  EXPECT_EQ(json(exchange->reply().body), post(kCompletions, completion())["choices"][0]["text"]);
  EXPECT_EQ(api().call("GET", "/generate")->reply().status, 400);
}

TEST_F(ApiRoutes, EmbeddingsAreRefusedWithAReason) {
  expect_refused("/v1/embeddings", {{"input", "x"}, {"model", "demo"}}, "model");
}

TEST_F(ApiRoutes, OtherTypesThanJsonAreRefused) {
  const auto request = std::make_shared<HttpRequest>();
  request->headers.push_back({"Content-Type", "text/plain"});
  HttpRouter router;
  add_api_routes(router, std::make_shared<ServedModel>());
  const auto exchange = std::make_shared<RecordedExchange>();
  (*router.find("POST", kChat).route)(request, exchange);
  EXPECT_EQ(exchange->reply().status, 415);
}

TEST_F(ApiRoutes, AClientThatLeavesCancelsItsReply) {
  const auto exchange =
      api().post(kCompletions, completion({{"max_tokens", 480}, {"ignore_eos", true}, {"stream", true}}));
  exchange->wait_for_bytes(100);
  exchange->disconnect();
  EXPECT_TRUE(exchange->reply().status == 200 && exchange->aborted());
  EXPECT_EQ(api().model().engine->stats().running, 0);
}

TEST_F(ApiRoutes, TheOpenApiDocumentNamesEveryEndpoint) {
  const json document = api().call("GET", "/openapi.json")->json();
  for (const std::string& path :
       {kChat, kCompletions, std::string("/v1/responses"), std::string("/v1/messages"),
        std::string("/tokenize"), std::string("/v1/models/{id}")})
    EXPECT_TRUE(document.at("paths").contains(path)) << path;
  const json& schemas = document.at("components").at("schemas");
  EXPECT_EQ(schemas.at("TokenId").at("maximum"), api().model().vocab - 1);
  const std::string text = document.dump(), begin = R"("$ref":"#/components/schemas/)";
  for (std::size_t at = text.find(begin); at != text.npos; at = text.find(begin, at + 1)) {
    const std::size_t name = at + begin.size();
    EXPECT_TRUE(schemas.contains(text.substr(name, text.find('"', name) - name)));
  }
}

}  // namespace
}  // namespace carat
