#include "server/chat_reply.h"

#include <ctime>
#include <functional>
#include <utility>

#include "server/reply_id.h"
#include "server/reply_logprobs.h"

namespace carat {
namespace {

/// What all parts of one reply have in common.
struct Chat {
  Chat(const ChatRequest& request, std::vector<int32_t> prompt_ids, std::shared_ptr<const ServedModel> served)
      : options(request.options), prompt(std::move(prompt_ids)), model(std::move(served)) {}

  ReplyOptions options;
  std::vector<int32_t> prompt;
  std::shared_ptr<const ServedModel> model;
  std::string id = random_id("chatcmpl-");
  int64_t created = std::time(nullptr);

  void write_head(const char* object, JsonText& json) const {
    json.field("id", id)
        .field("object", object)
        .field("created", created)
        .field("model", model->names.front())
        .field("system_fingerprint", model->fingerprint);
  }
  void write_logprobs(const std::vector<ReplyToken>& tokens, JsonText& json) const {
    json.name("logprobs");
    if (!options.logprobs) {
      json.null();
      return;
    }
    json.object([&] {
      json.name("content");
      write_chat_logprobs(tokens, *model->tokenizer, json);
      json.field("refusal", nullptr);
    });
  }
  void write_prompt_ids(JsonText& json) const {
    json.name("prompt_token_ids").array([&] {
      for (const int32_t token : prompt) json.integer(token);
    });
  }
  void write_ids(const std::vector<ReplyToken>& tokens, JsonText& json) const {
    if (!options.return_token_ids) return;
    json.name("token_ids").array([&] {
      for (const ReplyToken& token : tokens) json.integer(token.id);
    });
  }
};

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

class ChatBody final : public BodySink {
 public:
  ChatBody(Chat chat, std::shared_ptr<HttpExchange> exchange)
      : BodySink(std::move(exchange)),
        chat_(std::move(chat)),
        choices_(static_cast<std::size_t>(chat_.options.samples)) {}

  void add(ReplyDelta delta) override { choices_.at(delta.choice).add(std::move(delta)); }

 protected:
  std::string body() override {
    JsonText json;
    ReplyUsage usage;
    json.object([&] {
      chat_.write_head("chat.completion", json);
      json.name("choices").array([&] {
        for (std::size_t i = 0; i < choices_.size(); ++i) {
          usage.add(choices_[i].end, i == 0);
          write_choice(i, choices_[i], json);
        }
      });
      json.name("usage");
      write_usage(usage, json);
      if (chat_.options.return_token_ids) chat_.write_prompt_ids(json);
      if (!chat_.options.timings) return;
      json.name("timings");
      write_timings(choices_.front().end, json);
    });
    return json.take();
  }

 private:
  void write_choice(std::size_t index, const ReplyWhole& reply, JsonText& json) const {
    json.object([&] {
      json.field("index", index).name("message");
      write_message(reply, json);
      chat_.write_logprobs(reply.tokens, json);
      json.field("finish_reason", finish_reason(reply.end.reason));
      chat_.write_ids(reply.tokens, json);
    });
  }

  Chat chat_;
  std::vector<ReplyWhole> choices_;
};

class ChatEvents final : public EventSink {
 public:
  ChatEvents(Chat chat, std::shared_ptr<HttpExchange> exchange)
      : EventSink(std::move(exchange)),
        chat_(std::move(chat)),
        calls_(static_cast<std::size_t>(chat_.options.samples)) {}

  void add(ReplyDelta delta) override {
    tokens_ = std::move(delta.tokens);
    const std::size_t choice = delta.choice;
    const auto send_text = [&](const char* name, const std::string& text) {
      if (!text.empty()) send_delta(choice, [&](JsonText& json) { json.field(name, text); });
    };
    send_text("reasoning_content", delta.reasoning);
    send_text("content", delta.content);
    for (const ReplyCall& call : delta.calls) send_call(choice, call);
    if (!delta.end) return;
    usage_.add(*delta.end, choice == 0);
    send_chunk([&](JsonText& json) { write_choice(choice, [](JsonText&) {}, delta.end, json); }, delta.end);
  }

  void finish() override {
    if (chat_.options.include_usage) send_chunk([](JsonText&) {}, std::nullopt, /*last=*/true);
    send("[DONE]");
    end_stream();
  }

 protected:
  using Write = std::function<void(JsonText&)>;

  void greet() override {
    for (std::size_t choice = 0; choice < calls_.size(); ++choice)
      send_delta(choice, [](JsonText& json) { json.field("role", "assistant").field("content", ""); });
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

  void send_delta(std::size_t choice, const Write& members) {
    send_chunk([&](JsonText& json) { write_choice(choice, members, std::nullopt, json); }, std::nullopt);
  }

  /// The tokens drawn since the last chunk go with the first one after them.
  void write_choice(std::size_t choice, const Write& members, const std::optional<ReplyEnd>& end,
                    JsonText& json) {
    json.object([&] {
      json.field("index", choice).name("delta").object([&] { members(json); });
      const std::vector<ReplyToken> tokens = std::exchange(tokens_, {});
      if (tokens.empty())
        json.field("logprobs", nullptr);
      else
        chat_.write_logprobs(tokens, json);
      json.name("finish_reason");
      end ? json.text(finish_reason(end->reason)) : json.null();
      chat_.write_ids(tokens, json);
    });
  }

  void send_chunk(const Write& choices, const std::optional<ReplyEnd>& end, bool last = false) {
    JsonText json;
    json.object([&] {
      chat_.write_head("chat.completion.chunk", json);
      json.name("choices").array([&] { choices(json); });
      if (last) {
        json.name("usage");
        write_usage(usage_, json);
      } else if (chat_.options.include_usage) {
        json.field("usage", nullptr);
      }
      if (chat_.options.return_token_ids && !std::exchange(prompt_sent_, true)) chat_.write_prompt_ids(json);
      if (!chat_.options.timings || !end) return;
      json.name("timings");
      write_timings(*end, json);
    });
    send(json.take());
  }

  Chat chat_;
  std::vector<int> calls_;  // of each choice so far
  std::vector<ReplyToken> tokens_;
  ReplyUsage usage_;
  bool prompt_sent_ = false;
};

}  // namespace

std::unique_ptr<ReplySink> make_chat_sink(const ChatRequest& request, std::vector<int32_t> prompt,
                                          std::shared_ptr<const ServedModel> model,
                                          std::shared_ptr<HttpExchange> exchange) {
  Chat chat(request, std::move(prompt), std::move(model));
  if (request.options.stream) return std::make_unique<ChatEvents>(std::move(chat), std::move(exchange));
  return std::make_unique<ChatBody>(std::move(chat), std::move(exchange));
}

}  // namespace carat
