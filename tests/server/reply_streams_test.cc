// Whatever a model writes, the deltas of a stream joined are the reply that a client without streaming gets.
#include <gtest/gtest.h>

#include <random>

#include "chat/chat_tokenizer.h"
#include "server/chat_reply.h"
#include "server/messages_reply.h"
#include "server/recorded_exchange.h"
#include "server/reply_choice.h"
#include "server/responses_reply.h"
#include "text/unicode.h"

namespace carat {
namespace {

using nlohmann::json;

/// What a client has in the end.
struct Shown {
  std::string content, reasoning, finish;
  std::vector<std::string> calls;  // name(arguments)
  std::vector<std::string> parts;  // in order, for APIs that show it
  bool operator==(const Shown&) const = default;
};

void PrintTo(const Shown& shown, std::ostream* out) {
  *out << "content " << testing::PrintToString(shown.content) << ", reasoning "
       << testing::PrintToString(shown.reasoning) << ", calls " << testing::PrintToString(shown.calls)
       << ", parts " << testing::PrintToString(shown.parts) << ", finish " << shown.finish;
}

std::string as_call(const std::string& name, const std::string& arguments) {
  EXPECT_TRUE(json::parse(arguments).is_object()) << arguments;
  return name + "(" + arguments + ")";
}

class ReplyStreams : public testing::Test {
 protected:
  ReplyStreams() {
    model_->tokenizer = tokenizer_;
    model_->names = {"m"};
  }

  /// Feeds the tokens to a sink as the engine would.
  std::shared_ptr<RecordedExchange> reply(
      const std::vector<int32_t>& tokens, const std::vector<std::string>& stops, bool parallel,
      const std::function<std::unique_ptr<ReplySink>(std::shared_ptr<HttpExchange>)>& make_sink) const {
    auto exchange = std::make_shared<RecordedExchange>();
    const std::unique_ptr<ReplySink> sink = make_sink(exchange);
    ReplyChoice choice(0, {tokenizer_, {.tool_calls = true, .stop_strings = stops}, true, parallel, true},
                       {});
    sink->begin();
    for (std::size_t i = 0; i <= tokens.size(); ++i) {
      Event event;
      if (i < tokens.size()) event.token = tokens[i];
      if (i == tokens.size()) event.finish = Finish{.reason = FinishReason::length, .error = {}, .usage = {}};
      if (auto delta = choice.read(std::move(event))) sink->add(*std::move(delta));
      sink->flush();
    }
    sink->finish();
    return exchange;
  }

  std::vector<int32_t> random_tokens(std::mt19937& random) const {
    static const std::vector<std::string> kTexts = {"E",
                                                    "N",
                                                    "D",
                                                    "a",
                                                    "▁",
                                                    "thought",
                                                    "\n",
                                                    "€",
                                                    "1",
                                                    "x",
                                                    "<|channel>thought\nhm\n<channel|>",
                                                    "<|tool_call>call:f{a:<|\"|>x<|\"|>,b:[1]}<tool_call|>",
                                                    "<|tool_call>call:g{}<tool_call|>"};
    const auto pick = [&](std::size_t count) {
      return std::uniform_int_distribution<std::size_t>(0, count - 1)(random);
    };
    std::vector<int32_t> tokens;
    const std::size_t length = pick(30);
    while (tokens.size() < length) {
      const std::size_t kind = pick(6);
      if (kind == 0) {
        tokens.push_back(tokenizer_->find(control_tokens()[pick(control_tokens().size())]));
      } else if (kind == 1) {
        for (const char byte : std::string("\xF0\x9F\x98\x80\xC3\xA9").substr(0, pick(7)))
          tokens.push_back(tokenizer_->find(byte_piece(static_cast<unsigned char>(byte))));
      } else {
        for (const int32_t id : tokenizer_->encode(kTexts[pick(kTexts.size())], SpecialTokens::recognise))
          if (pick(30) > 0) tokens.push_back(id);  // now and then one is missing
      }
    }
    return tokens;
  }

  /// Compares both ways of an API for `count` random replies.
  void expect_equal(int count,
                    const std::function<Shown(const std::vector<int32_t>&, const std::vector<std::string>&,
                                              bool, bool)>& show) {
    std::mt19937 random(11);
    int with_calls = 0, with_reasoning = 0;
    for (int i = 0; i < count && !HasFailure(); ++i) {
      const std::vector<int32_t> tokens = random_tokens(random);
      const std::vector<std::string> stops =
          i % 2 ? std::vector<std::string>{"END", "a1"} : std::vector<std::string>{};
      const bool parallel = i % 5 != 0;
      const Shown streamed = show(tokens, stops, parallel, true);
      EXPECT_EQ(streamed, show(tokens, stops, parallel, false)) << "reply " << i;
      EXPECT_TRUE(parallel || streamed.calls.size() <= 1);
      const bool is_one_piece = streamed.calls.empty() && streamed.reasoning.empty();
      for (const std::string& stop : stops)
        EXPECT_TRUE(!is_one_piece || streamed.content.find(stop) == std::string::npos);
      with_calls += !streamed.calls.empty();
      with_reasoning += !streamed.reasoning.empty();
    }
    EXPECT_GT(with_calls, count / 20);
    EXPECT_GT(with_reasoning, count / 20);
  }

  std::shared_ptr<const Tokenizer> tokenizer_ = chat_tokenizer();
  std::shared_ptr<ServedModel> model_ = std::make_shared<ServedModel>();
};

Shown chat_body(const json& body) {
  Shown shown;
  const json& choice = body.at("choices").at(0);
  const json& message = choice.at("message");
  if (message.at("content").is_string()) shown.content = message["content"];
  shown.reasoning = message.value("reasoning_content", "");
  for (const json& call : message.value("tool_calls", json::array()))
    shown.calls.push_back(as_call(call.at("function").at("name"), call["function"].at("arguments")));
  shown.finish = choice.at("finish_reason");
  return shown;
}

Shown chat_stream(const std::string& body) {
  Shown shown;
  std::vector<std::pair<std::string, std::string>> calls;
  const std::vector<SentEvent> events = sent_events(body);
  EXPECT_EQ(events.back().data, "[DONE]");
  for (std::size_t i = 0; i + 1 < events.size(); ++i) {
    const json chunk = json::parse(events[i].data);
    const json& choice = chunk.at("choices").at(0);
    const json& delta = choice.at("delta");
    EXPECT_EQ(delta.contains("role"), i == 0);
    shown.content += delta.value("content", "");
    shown.reasoning += delta.value("reasoning_content", "");
    for (const json& call : delta.value("tool_calls", json::array())) {
      const std::size_t index = call.at("index");
      if (call.contains("id")) {
        EXPECT_EQ(index, calls.size());
        calls.emplace_back(call.at("function").at("name"), "");
      }
      calls.at(index).second += call.at("function").at("arguments").get<std::string>();
    }
    EXPECT_EQ(choice.at("finish_reason").is_null(), i + 2 < events.size());
    if (i + 2 == events.size()) shown.finish = choice["finish_reason"];
  }
  for (const auto& [name, arguments] : calls) shown.calls.push_back(as_call(name, arguments));
  return shown;
}

TEST_F(ReplyStreams, OfChatsEqualWholeReplies) {
  expect_equal(10'000, [&](const auto& tokens, const auto& stops, bool parallel, bool streams) {
    ChatRequest request;
    request.options.stream = streams;
    const auto exchange = reply(tokens, stops, parallel, [&](std::shared_ptr<HttpExchange> to) {
      return make_chat_sink(request, {}, model_, std::move(to));
    });
    return streams ? chat_stream(exchange->reply().body) : chat_body(exchange->json());
  });
}

Shown messages_body(const json& body) {
  Shown shown;
  for (const json& block : body.at("content")) {
    const std::string type = block.at("type");
    if (type == "text") shown.content += block.at("text").get<std::string>();
    if (type == "thinking") shown.reasoning += block.at("thinking").get<std::string>();
    if (type == "tool_use") shown.calls.push_back(as_call(block.at("name"), block.at("input").dump()));
    shown.parts.push_back(type);
  }
  shown.finish = body.at("stop_reason");
  return shown;
}

/// Puts the events together to the body that they stand for.
json joined_message(const std::string& body) {
  json message;
  std::string arguments;
  for (const SentEvent& event : sent_events(body)) {
    const json data = json::parse(event.data);
    EXPECT_EQ(json(event.name), data.at("type"));
    if (event.name == "message_start") message = data.at("message");
    if (event.name == "message_delta") message.update(data.at("delta"));
    if (event.name == "content_block_start") {
      EXPECT_EQ(data.at("index"), message.at("content").size());
      message["content"].push_back(data.at("content_block"));
      arguments.clear();
    }
    if (event.name == "content_block_delta") {
      json& block = message.at("content").at(data.at("index").get<std::size_t>());
      const json& delta = data.at("delta");
      for (const char* const text : {"text", "thinking"})
        if (delta.contains(text))
          block[text] = block.at(text).get<std::string>() + delta[text].get<std::string>();
      if (delta.contains("partial_json")) {
        arguments += delta["partial_json"].get<std::string>();
        block["input"] = json::parse(arguments);
      }
    }
  }
  return message;
}

TEST_F(ReplyStreams, OfMessagesEqualWholeReplies) {
  expect_equal(2'000, [&](const auto& tokens, const auto& stops, bool parallel, bool streams) {
    ChatRequest request;
    request.options.stream = streams;
    const auto exchange = reply(tokens, stops, parallel, [&](std::shared_ptr<HttpExchange> to) {
      return make_messages_sink(request, 1, *model_, std::move(to));
    });
    return messages_body(streams ? joined_message(exchange->reply().body) : exchange->json());
  });
}

Shown responses_body(const json& body) {
  Shown shown;
  for (const json& item : body.at("output")) {
    const std::string type = item.at("type");
    const bool is_cut = &item == &body["output"].back() && type != "function_call";
    EXPECT_EQ(item.at("status"), is_cut ? body.at("status") : json("completed"));
    if (type == "message") shown.content += item.at("content").at(0).at("text").get<std::string>();
    if (type == "reasoning") shown.reasoning += item.at("content").at(0).at("text").get<std::string>();
    if (type == "function_call") shown.calls.push_back(as_call(item.at("name"), item.at("arguments")));
    shown.parts.push_back(type);
  }
  shown.finish = body.at("status");
  return shown;
}

/// The last event's response, once the deltas are found to make up the same.
json joined_response(const std::string& body) {
  std::vector<std::string> texts;
  const std::vector<SentEvent> events = sent_events(body);
  for (std::size_t i = 0; i < events.size(); ++i) {
    const json data = json::parse(events[i].data);
    EXPECT_EQ(json(events[i].name), data.at("type"));
    EXPECT_EQ(data.at("sequence_number"), i);
    if (events[i].name == "response.output_item.added") texts.emplace_back();
    if (data.contains("delta")) texts.at(data.at("output_index").get<std::size_t>()) += data["delta"];
  }
  const json response = json::parse(events.back().data).at("response");
  EXPECT_EQ(response.at("output").size(), texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const json& item = response["output"][i];
    EXPECT_EQ(item.contains("arguments") ? item["arguments"] : item.at("content").at(0).at("text"), texts[i]);
  }
  return response;
}

TEST_F(ReplyStreams, OfResponsesEqualWholeReplies) {
  expect_equal(2'000, [&](const auto& tokens, const auto& stops, bool parallel, bool streams) {
    ResponsesRequest request;
    request.chat.options.stream = streams;
    const auto exchange = reply(tokens, stops, parallel, [&](std::shared_ptr<HttpExchange> to) {
      return make_responses_sink(request, model_, std::move(to));
    });
    return responses_body(streams ? joined_response(exchange->reply().body) : exchange->json());
  });
}

}  // namespace
}  // namespace carat
