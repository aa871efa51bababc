#include "server/messages_reply.h"

#include <utility>

#include "server/http_error.h"
#include "server/reply_blocks.h"
#include "server/reply_id.h"

namespace carat {
namespace {

using Kind = ReplyBlock::Kind;

struct Message {
  std::string model;
  int prompt_tokens = 0;
  std::string id = random_id("msg_");

  void write_head(JsonText& json) const {
    json.field("id", id).field("type", "message").field("role", "assistant").field("model", model);
  }
};

std::string_view stop_reason(const ReplyEnd& end) {
  if (!end.stop_string.empty()) return "stop_sequence";
  switch (end.reason) {
    case ReplyEndReason::length:
      return "max_tokens";
    case ReplyEndReason::tool_calls:
      return "tool_use";
    case ReplyEndReason::stop:
      break;
  }
  return "end_turn";
}

void write_stop(const ReplyEnd& end, JsonText& json) {
  json.field("stop_reason", stop_reason(end)).name("stop_sequence");
  end.stop_string.empty() ? json.null() : json.text(end.stop_string);
}

/// Tokens that were found in the cache are counted apart from the others.
void write_message_usage(int prompt_tokens, int cached_tokens, int reply_tokens, JsonText& json) {
  json.name("usage").object([&] {
    json.field("input_tokens", prompt_tokens - cached_tokens)
        .field("cache_creation_input_tokens", 0)
        .field("cache_read_input_tokens", cached_tokens)
        .field("output_tokens", reply_tokens);
  });
}

/// The beginning of a block in a stream has no text yet, and no arguments.
void write_block(const ReplyBlock& block, bool whole, JsonText& json) {
  const std::string& text = whole ? block.text : std::string();
  json.object([&] {
    switch (block.kind) {
      case Kind::reasoning:
        json.field("type", "thinking").field("thinking", text).field("signature", "");
        break;
      case Kind::text:
        json.field("type", "text").field("text", text).field("citations", nullptr);
        break;
      case Kind::call:
        json.field("type", "tool_use").field("id", block.call.id).field("name", block.call.name);
        json.name("input").raw(whole ? block.call.arguments : "{}");
    }
  });
}

class MessageBody final : public BodySink, private ReplyBlocks::Listener {
 public:
  MessageBody(Message message, std::shared_ptr<HttpExchange> exchange)
      : BodySink(std::move(exchange)), message_(std::move(message)) {}

  void add(ReplyDelta delta) override {
    if (delta.end) end_ = *delta.end;
    blocks_.add(std::move(delta));
  }

 protected:
  std::string body() override {
    JsonText json;
    json.object([&] {
      message_.write_head(json);
      json.name("content").array([&] {
        for (const ReplyBlock& block : blocks_.all()) write_block(block, /*whole=*/true, json);
      });
      write_stop(end_, json);
      write_message_usage(end_.prompt_tokens, end_.cached_tokens, end_.reply_tokens, json);
    });
    return json.take();
  }
  std::string error_json(const ApiError& error) const override { return anthropic_error_json(error); }

 private:
  void opened(std::size_t, ReplyBlock&) override {}
  void grew(std::size_t, const ReplyBlock&, const std::string&, const std::vector<ReplyToken>&) override {}
  void closed(std::size_t, const ReplyBlock&) override {}

  Message message_;
  ReplyBlocks blocks_{*this};
  ReplyEnd end_;
};

class MessageEvents final : public EventSink, private ReplyBlocks::Listener {
 public:
  MessageEvents(Message message, std::shared_ptr<HttpExchange> exchange)
      : EventSink(std::move(exchange),
                  [](const HttpError& error) {
                    return event_text(error_body(error, ErrorShape::anthropic), "error");
                  }),
        message_(std::move(message)) {}

  void add(ReplyDelta delta) override {
    const std::optional<ReplyEnd> end = delta.end;
    blocks_.add(std::move(delta));
    if (!end) return;
    send_event("message_delta", [&](JsonText& json) {
      json.name("delta").object([&] { write_stop(*end, json); });
      write_message_usage(end->prompt_tokens, end->cached_tokens, end->reply_tokens, json);
    });
  }
  void finish() override {
    send_event("message_stop", [](JsonText&) {});
    end_stream();
  }

 protected:
  void greet() override {
    send_event("message_start", [&](JsonText& json) {
      json.name("message").object([&] {
        message_.write_head(json);
        json.name("content").array([] {}).field("stop_reason", nullptr).field("stop_sequence", nullptr);
        write_message_usage(message_.prompt_tokens, 0, 0, json);
      });
    });
    send(kPing, "ping");
  }
  std::string ping() const override { return "event: ping\ndata: " + std::string(kPing) + "\n\n"; }

 private:
  template <class Members>
  void send_event(const char* type, const Members& members) {
    JsonText json;
    json.object([&] {
      json.field("type", type);
      members(json);
    });
    send(json.take(), type);
  }

  template <class Members>
  void send_delta(std::size_t index, const char* type, const Members& members) {
    send_event("content_block_delta", [&](JsonText& json) {
      json.field("index", index).name("delta").object([&] {
        json.field("type", type);
        members(json);
      });
    });
  }

  void opened(std::size_t index, ReplyBlock& block) override {
    send_event("content_block_start", [&](JsonText& json) {
      json.field("index", index).name("content_block");
      write_block(block, /*whole=*/false, json);
    });
    if (block.kind == Kind::call)
      send_delta(index, "input_json_delta",
                 [&](JsonText& json) { json.field("partial_json", block.call.arguments); });
  }
  void grew(std::size_t index, const ReplyBlock& block, const std::string& text,
            const std::vector<ReplyToken>&) override {
    const bool is_text = block.kind == Kind::text;
    send_delta(index, is_text ? "text_delta" : "thinking_delta",
               [&](JsonText& json) { json.field(is_text ? "text" : "thinking", text); });
  }
  void closed(std::size_t index, const ReplyBlock& block) override {
    if (block.kind == Kind::reasoning)
      send_delta(index, "signature_delta", [](JsonText& json) { json.field("signature", ""); });
    send_event("content_block_stop", [&](JsonText& json) { json.field("index", index); });
  }

  static constexpr std::string_view kPing = R"({"type":"ping"})";

  Message message_;
  ReplyBlocks blocks_{*this};
};

}  // namespace

std::unique_ptr<ReplySink> make_messages_sink(const ChatRequest& request, int prompt_tokens,
                                              const ServedModel& model,
                                              std::shared_ptr<HttpExchange> exchange) {
  Message message{.model = model.names.front(), .prompt_tokens = prompt_tokens};
  if (request.options.stream) return std::make_unique<MessageEvents>(std::move(message), std::move(exchange));
  return std::make_unique<MessageBody>(std::move(message), std::move(exchange));
}

}  // namespace carat
