#include "server/chat_reply.h"

#include <utility>

#include "server/reply_envelope.h"
#include "server/reply_id.h"
#include "server/reply_logprobs.h"

namespace carat {
namespace {

void write_logprobs(std::span<const ReplyToken> tokens, const ReplyEnvelope& envelope, JsonText& json) {
  json.name("logprobs");
  if (!envelope.options.request.logprobs) {
    json.null();
    return;
  }
  json.object([&] {
    json.name("content");
    write_chat_logprobs(tokens, *envelope.model->tokenizer, json);
    json.field("refusal", nullptr);
  });
}

void write_message(const ReplyWhole& reply, JsonText& json) {
  json.object([&] {
    json.field("role", "assistant");
    json.name("content");
    reply.content.empty() && !reply.calls.empty() ? json.null() : json.text(reply.content);
    json.field("refusal", nullptr);
    if (!reply.reasoning.empty()) json.field("reasoning_content", reply.reasoning);
    if (reply.calls.empty()) return;
    json.name("tool_calls").array([&] {
      for (const ReplyCall& call : reply.calls) {
        json.object([&] {
          json.field("id", call.id).field("type", "function");
          json.name("function").object([&] {
            json.field("name", call.name).field("arguments", call.arguments);
          });
        });
      }
    });
  });
}

class ChatBody final : public ChoicesBody {
 public:
  ChatBody(ReplyEnvelope envelope, std::vector<int32_t> prompt, std::shared_ptr<HttpExchange> exchange)
      : ChoicesBody(std::move(envelope), "chat.completion", std::move(exchange)),
        prompt_(std::move(prompt)) {}

 protected:
  void write_members(std::size_t, const ReplyWhole& reply, JsonText& json) const override {
    json.name("message");
    write_message(reply, json);
    write_logprobs(reply.tokens, envelope(), json);
  }
  void write_more(JsonText& json) const override {
    if (envelope().options.return_token_ids) write_token_ids("prompt_token_ids", prompt_, json);
  }

 private:
  const std::vector<int32_t> prompt_;
};

class ChatEvents final : public ChoicesEvents {
 public:
  ChatEvents(ReplyEnvelope envelope, std::vector<int32_t> prompt, std::shared_ptr<HttpExchange> exchange)
      : ChoicesEvents(std::move(envelope), "chat.completion.chunk", std::move(exchange)),
        prompt_(std::move(prompt)),
        calls_(this->envelope().choices()) {}

  void add(ReplyDelta delta) override {
    tokens_ = std::move(delta.tokens);
    const std::size_t choice = delta.choice;
    const auto send_text = [&](const char* name, const std::string& text) {
      if (!text.empty()) send_delta(choice, [&](JsonText& json) { json.field(name, text); });
    };
    send_text("reasoning_content", delta.reasoning);
    send_text("content", delta.content);
    for (const ReplyCall& call : delta.calls) send_call(choice, call);
    if (delta.end) send_delta(choice, [](JsonText&) {}, &*delta.end);
  }

 protected:
  void greet() override {
    for (std::size_t choice = 0; choice < calls_.size(); ++choice)
      send_delta(choice, [](JsonText& json) { json.field("role", "assistant").field("content", ""); });
  }
  void write_more(JsonText& json) override {
    if (envelope().options.return_token_ids && !std::exchange(prompt_sent_, true))
      write_token_ids("prompt_token_ids", prompt_, json);
  }

 private:
  /// Name first, then the arguments.
  void send_call(std::size_t choice, const ReplyCall& call) {
    const int index = calls_[choice]++;
    const auto send_part = [&](const Write& write) {
      send_delta(choice, [&](JsonText& json) {
        json.name("tool_calls").array([&] {
          json.object([&] {
            json.field("index", index);
            write(json);
          });
        });
      });
    };
    send_part([&](JsonText& json) {
      json.field("id", call.id).field("type", "function");
      json.name("function").object([&] { json.field("name", call.name).field("arguments", ""); });
    });
    send_part([&](JsonText& json) {
      json.name("function").object([&] { json.field("arguments", call.arguments); });
    });
  }

  /// The tokens drawn since the last chunk go with the first one after them.
  void send_delta(std::size_t choice, const Write& members, const ReplyEnd* end = nullptr) {
    const std::vector<ReplyToken> tokens = std::exchange(tokens_, {});
    send_choice(choice, tokens, end, [&](JsonText& json) {
      json.name("delta").object([&] { members(json); });
      if (tokens.empty())
        json.field("logprobs", nullptr);
      else
        write_logprobs(tokens, envelope(), json);
    });
  }

  const std::vector<int32_t> prompt_;
  std::vector<int> calls_;  // of each choice so far
  std::vector<ReplyToken> tokens_;
  bool prompt_sent_ = false;
};

}  // namespace

std::unique_ptr<ReplySink> make_chat_sink(const ChatRequest& request, std::vector<int32_t> prompt,
                                          std::shared_ptr<const ServedModel> model,
                                          std::shared_ptr<HttpExchange> exchange) {
  ReplyEnvelope envelope{.id = random_id("chatcmpl-"), .options = request.options, .model = std::move(model)};
  if (request.options.stream)
    return std::make_unique<ChatEvents>(std::move(envelope), std::move(prompt), std::move(exchange));
  return std::make_unique<ChatBody>(std::move(envelope), std::move(prompt), std::move(exchange));
}

}  // namespace carat
