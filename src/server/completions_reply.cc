#include "server/completions_reply.h"

#include <ctime>
#include <utility>

#include "server/reply_id.h"
#include "server/reply_logprobs.h"

namespace carat {
namespace {

/// What all parts of one reply have in common.
struct Completion {
  Completion(CompletionsRequest asked, std::shared_ptr<const ServedModel> served)
      : request(std::move(asked)), model(std::move(served)) {}

  CompletionsRequest request;
  std::shared_ptr<const ServedModel> model;
  std::string id = random_id("cmpl-");
  int64_t created = std::time(nullptr);

  std::size_t choices() const {
    return request.prompts.size() * static_cast<std::size_t>(request.options.samples);
  }
  bool is_first_of_prompt(std::size_t choice) const {
    return choice % static_cast<std::size_t>(request.options.samples) == 0;
  }
  const CompletionPrompt& prompt_of(std::size_t choice) const {
    return request.prompts[choice / static_cast<std::size_t>(request.options.samples)];
  }
  void write_head(JsonText& json) const {
    json.field("id", id)
        .field("object", "text_completion")
        .field("created", created)
        .field("model", model->names.front())
        .field("system_fingerprint", model->fingerprint);
  }

  void write_choice(std::size_t choice, const std::string& text, const std::vector<ReplyToken>& tokens,
                    std::size_t& offset, const ReplyEnd* end, JsonText& json) const {
    json.object([&] {
      json.field("index", choice).field("text", text).name("logprobs");
      if (request.options.logprobs && !tokens.empty())
        write_completion_logprobs(tokens, *model->tokenizer, request.options.skip_special_tokens, offset,
                                  json);
      else
        json.null();
      json.name("finish_reason");
      end ? json.text(finish_reason(end->reason)) : json.null();
      if (!request.options.return_token_ids) return;
      json.name("token_ids").array([&] {
        for (const ReplyToken& token : tokens) json.integer(token.id);
      });
      if (!end) return;
      json.name("prompt_token_ids").array([&] {
        for (const int32_t token : prompt_of(choice).ids) json.integer(token);
      });
    });
  }
};

class CompletionsBody final : public BodySink {
 public:
  CompletionsBody(Completion completion, std::shared_ptr<HttpExchange> exchange)
      : BodySink(std::move(exchange)), completion_(std::move(completion)), choices_(completion_.choices()) {}

  void add(ReplyDelta delta) override { choices_.at(delta.choice).add(std::move(delta)); }

 protected:
  std::string body() override {
    JsonText json;
    ReplyUsage usage;
    json.object([&] {
      completion_.write_head(json);
      json.name("choices").array([&] {
        for (std::size_t i = 0; i < choices_.size(); ++i) {
          const ReplyWhole& reply = choices_[i];
          usage.add(reply.end, completion_.is_first_of_prompt(i));
          const std::string prompt = completion_.request.echo ? completion_.prompt_of(i).text : "";
          std::size_t offset = 0;
          completion_.write_choice(i, prompt + reply.content, reply.tokens, offset, &reply.end, json);
        }
      });
      json.name("usage");
      write_usage(usage, json);
      if (!completion_.request.options.timings) return;
      json.name("timings");
      write_timings(choices_.front().end, json);
    });
    return json.take();
  }

 private:
  Completion completion_;
  std::vector<ReplyWhole> choices_;
};

class CompletionsEvents final : public EventSink {
 public:
  CompletionsEvents(Completion completion, std::shared_ptr<HttpExchange> exchange)
      : EventSink(std::move(exchange)), completion_(std::move(completion)), offsets_(completion_.choices()) {}

  void add(ReplyDelta delta) override {
    const ReplyEnd* const end = delta.end ? &*delta.end : nullptr;
    if (end) usage_.add(*end, completion_.is_first_of_prompt(delta.choice));
    send_choice(delta.choice, delta.content, delta.tokens, end);
  }

  void finish() override {
    if (completion_.request.options.include_usage) {
      JsonText json;
      json.object([&] {
        completion_.write_head(json);
        json.name("choices").array([] {}).name("usage");
        write_usage(usage_, json);
      });
      send(json.take());
    }
    send("[DONE]");
    end_stream();
  }

 protected:
  void greet() override {
    if (!completion_.request.echo) return;
    for (std::size_t i = 0; i < offsets_.size(); ++i)
      send_choice(i, completion_.prompt_of(i).text, {}, nullptr);
  }

 private:
  void send_choice(std::size_t choice, const std::string& text, const std::vector<ReplyToken>& tokens,
                   const ReplyEnd* end) {
    JsonText json;
    json.object([&] {
      completion_.write_head(json);
      json.name("choices").array(
          [&] { completion_.write_choice(choice, text, tokens, offsets_[choice], end, json); });
      if (completion_.request.options.include_usage) json.field("usage", nullptr);
      if (!completion_.request.options.timings || !end) return;
      json.name("timings");
      write_timings(*end, json);
    });
    send(json.take());
  }

  Completion completion_;
  std::vector<std::size_t> offsets_;  // characters of each choice that logprobs have covered
  ReplyUsage usage_;
};

}  // namespace

std::unique_ptr<ReplySink> make_completions_sink(CompletionsRequest request,
                                                 std::shared_ptr<const ServedModel> model,
                                                 std::shared_ptr<HttpExchange> exchange) {
  const bool streams = request.options.stream;
  Completion completion(std::move(request), std::move(model));
  if (streams) return std::make_unique<CompletionsEvents>(std::move(completion), std::move(exchange));
  return std::make_unique<CompletionsBody>(std::move(completion), std::move(exchange));
}

}  // namespace carat
