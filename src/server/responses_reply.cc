#include "server/responses_reply.h"

#include <atomic>
#include <ctime>
#include <utility>

#include "server/http_error.h"
#include "server/reply_blocks.h"
#include "server/reply_id.h"
#include "server/reply_logprobs.h"

namespace carat {
namespace {

using Kind = ReplyBlock::Kind;

const char* item_prefix(Kind kind) {
  switch (kind) {
    case Kind::reasoning:
      return "rs_";
    case Kind::call:
      return "fc_";
    case Kind::text:
      break;
  }
  return "msg_";
}

/// What all parts of one reply have in common.
struct Response {
  std::shared_ptr<const ServedModel> model;
  std::string echo;
  bool logprobs, keeps_reasoning;
  std::string id = random_id("resp_");
  int64_t created = std::time(nullptr);

  void write_part(const ReplyBlock& block, bool whole, JsonText& json) const {
    const std::string& text = whole ? block.text : std::string();
    json.object([&] {
      if (block.kind == Kind::reasoning) {
        json.field("type", "reasoning_text").field("text", text);
        return;
      }
      json.field("type", "output_text").field("text", text).name("annotations").array([] {});
      json.name("logprobs");
      write_logprobs(whole ? block.tokens : std::vector<ReplyToken>(), json);
    });
  }

  void write_logprobs(const std::vector<ReplyToken>& tokens, JsonText& json) const {
    write_chat_logprobs(logprobs ? tokens : std::vector<ReplyToken>(), *model->tokenizer, json);
  }

  void write_item(const ReplyBlock& block, bool whole, JsonText& json) const {
    json.object([&] {
      json.field("id", block.id);
      if (block.kind == Kind::call) {
        json.field("type", "function_call")
            .field("call_id", block.call.id)
            .field("name", block.call.name)
            .field("arguments", whole ? block.call.arguments : "");
      } else {
        json.field("type", block.kind == Kind::text ? "message" : "reasoning");
        if (block.kind == Kind::text) json.field("role", "assistant");
        if (block.kind == Kind::reasoning) json.name("summary").array([] {});
        json.name("content").array([&] {
          if (whole) write_part(block, whole, json);
        });
      }
      if (block.kind == Kind::reasoning && keeps_reasoning && whole)
        json.field("encrypted_content", std::string(kKeptReasoning) + block.text);
      json.field("status", !whole ? "in_progress" : block.is_cut ? "incomplete" : "completed");
    });
  }

  /// `end`: null while it is being written.
  void write(const std::vector<ReplyBlock>& blocks, const ReplyEnd* end, JsonText& json) const {
    const bool is_cut = end && end->reason == ReplyEndReason::length;
    json.object([&] {
      json.field("id", id)
          .field("object", "response")
          .field("created_at", created)
          .field("status", !end     ? "in_progress"
                           : is_cut ? "incomplete"
                                    : "completed")
          .field("error", nullptr)
          .name("incomplete_details");
      is_cut ? json.raw(R"({"reason":"max_output_tokens"})") : json.null();
      json.field("model", model->names.front()).name("output").array([&] {
        for (const ReplyBlock& block : blocks) write_item(block, /*whole=*/true, json);
      });
      json.name("usage");
      end ? write_usage(*end, json) : json.null();
      json.members(echo);
    });
  }

  static JsonText& write_usage(const ReplyEnd& end, JsonText& json) {
    return json.object([&] {
      json.field("input_tokens", end.prompt_tokens);
      json.name("input_tokens_details").object([&] { json.field("cached_tokens", end.cached_tokens); });
      json.field("output_tokens", end.reply_tokens);
      json.name("output_tokens_details").object([&] {
        json.field("reasoning_tokens", end.reasoning_tokens);
      });
      json.field("total_tokens", end.prompt_tokens + end.reply_tokens);
    });
  }
};

class ResponseBody final : public BodySink, private ReplyBlocks::Listener {
 public:
  ResponseBody(Response response, std::shared_ptr<HttpExchange> exchange)
      : BodySink(std::move(exchange)), response_(std::move(response)) {}

  void add(ReplyDelta delta) override {
    if (delta.end) end_ = *delta.end;
    blocks_.add(std::move(delta));
  }

 protected:
  std::string body() override {
    JsonText json;
    response_.write(blocks_.all(), &end_, json);
    return json.take();
  }

 private:
  void opened(std::size_t, ReplyBlock& block) override { block.id = random_id(item_prefix(block.kind)); }
  void grew(std::size_t, const ReplyBlock&, const std::string&, const std::vector<ReplyToken>&) override {}
  void closed(std::size_t, const ReplyBlock&) override {}

  Response response_;
  ReplyBlocks blocks_{*this};
  ReplyEnd end_;
};

/// Of the next event of a stream, the last of which may be its connection's.
using SequenceNumber = std::shared_ptr<std::atomic<int>>;

template <class Members>
std::string event_json(const char* type, const SequenceNumber& number, const Members& members) {
  JsonText json;
  json.object([&] {
    json.field("type", type).field("sequence_number", (*number)++);
    members(json);
  });
  return json.take();
}

std::string failure_event(const HttpError& error, const SequenceNumber& number) {
  const std::string json = event_json("error", number, [&](JsonText& event) {
    event.field("code", error.code.empty() ? error_type(error.status, ErrorShape::openai) : error.code)
        .field("message", error.message)
        .field("param", nullptr);
  });
  return event_text(json, "error");
}

class ResponseEvents final : public EventSink, private ReplyBlocks::Listener {
 public:
  ResponseEvents(Response response, std::shared_ptr<HttpExchange> exchange, SequenceNumber number)
      : EventSink(std::move(exchange),
                  [number](const HttpError& error) { return failure_event(error, number); }),
        response_(std::move(response)),
        sequence_number_(std::move(number)) {}

  void add(ReplyDelta delta) override {
    if (delta.end) end_ = *delta.end;
    blocks_.add(std::move(delta));
  }
  void finish() override {
    const bool is_cut = end_.reason == ReplyEndReason::length;
    send_response(is_cut ? "response.incomplete" : "response.completed", &end_);
    end_stream();
  }

 protected:
  void greet() override {
    send_response("response.created", nullptr);
    send_response("response.in_progress", nullptr);
  }

 private:
  template <class Members>
  void send_event(const char* type, const Members& members) {
    send(event_json(type, sequence_number_, members), type);
  }
  void send_response(const char* type, const ReplyEnd* end) {
    send_event(type, [&](JsonText& json) {
      json.name("response");
      response_.write(blocks_.all(), end, json);
    });
  }
  void send_item(const char* type, std::size_t index, const ReplyBlock& block, bool whole) {
    send_event(type, [&](JsonText& json) {
      json.field("output_index", index).name("item");
      response_.write_item(block, whole, json);
    });
  }
  /// About the only part of an item.
  template <class Members>
  void send_about_part(const char* type, std::size_t index, const ReplyBlock& block, const Members& members) {
    send_event(type, [&](JsonText& json) {
      json.field("item_id", block.id).field("output_index", index);
      if (block.kind != Kind::call) json.field("content_index", 0);
      members(json);
    });
  }
  void send_part(const char* type, std::size_t index, const ReplyBlock& block, bool whole) {
    send_about_part(type, index, block, [&](JsonText& json) {
      json.name("part");
      response_.write_part(block, whole, json);
    });
  }

  void opened(std::size_t index, ReplyBlock& block) override {
    block.id = random_id(item_prefix(block.kind));
    send_item("response.output_item.added", index, block, /*whole=*/false);
    if (block.kind != Kind::call) {
      send_part("response.content_part.added", index, block, /*whole=*/false);
    } else {
      send_about_part("response.function_call_arguments.delta", index, block,
                      [&](JsonText& json) { json.field("delta", block.call.arguments); });
    }
  }
  void grew(std::size_t index, const ReplyBlock& block, const std::string& text,
            const std::vector<ReplyToken>& tokens) override {
    const bool is_text = block.kind == Kind::text;
    send_about_part(is_text ? "response.output_text.delta" : "response.reasoning_text.delta", index, block,
                    [&](JsonText& json) {
                      json.field("delta", text);
                      if (!is_text) return;
                      json.name("logprobs");
                      response_.write_logprobs(tokens, json);
                    });
  }
  void closed(std::size_t index, const ReplyBlock& block) override {
    if (block.kind == Kind::call) {
      send_about_part("response.function_call_arguments.done", index, block, [&](JsonText& json) {
        json.field("name", block.call.name).field("arguments", block.call.arguments);
      });
    } else {
      const bool is_text = block.kind == Kind::text;
      send_about_part(is_text ? "response.output_text.done" : "response.reasoning_text.done", index, block,
                      [&](JsonText& json) {
                        json.field("text", block.text);
                        if (!is_text) return;
                        json.name("logprobs");
                        response_.write_logprobs(block.tokens, json);
                      });
      send_part("response.content_part.done", index, block, /*whole=*/true);
    }
    send_item("response.output_item.done", index, block, /*whole=*/true);
  }

  Response response_;
  ReplyBlocks blocks_{*this};
  ReplyEnd end_;
  const SequenceNumber sequence_number_;
};

}  // namespace

std::unique_ptr<ReplySink> make_responses_sink(const ResponsesRequest& request,
                                               std::shared_ptr<const ServedModel> model,
                                               std::shared_ptr<HttpExchange> exchange) {
  const ReplyParameters& options = request.chat.options;
  Response response{.model = std::move(model),
                    .echo = request.echo,
                    .logprobs = options.request.logprobs.has_value(),
                    .keeps_reasoning = request.keeps_reasoning};
  if (options.stream)
    return std::make_unique<ResponseEvents>(std::move(response), std::move(exchange),
                                            std::make_shared<std::atomic<int>>(0));
  return std::make_unique<ResponseBody>(std::move(response), std::move(exchange));
}

}  // namespace carat
