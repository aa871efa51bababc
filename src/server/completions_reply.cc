#include "server/completions_reply.h"

#include <utility>

#include "server/reply_envelope.h"
#include "server/reply_id.h"
#include "server/reply_logprobs.h"

namespace carat {
namespace {

constexpr const char* kObject = "text_completion";

/// What is continued, and how it is shown.
struct ContinuedPrompts {
  std::vector<CompletionPrompt> prompts;
  bool echo;

  /// The members of a choice. `offset`: characters of its text that logprobs have covered.
  void write(std::size_t choice, const std::string& text, std::span<const ReplyToken> tokens,
             const ReplyEnd* end, const ReplyEnvelope& envelope, std::size_t& offset, JsonText& json) const {
    const ReplyParameters& options = envelope.options;
    json.field("text", text).name("logprobs");
    if (options.request.logprobs && !tokens.empty())
      write_completion_logprobs(tokens, *envelope.model->tokenizer, options.skip_special_tokens, offset,
                                json);
    else
      json.null();
    if (options.return_token_ids && end)
      write_token_ids("prompt_token_ids", prompts[envelope.prompt_of(choice)].ids, json);
  }
};

class CompletionsBody final : public ChoicesBody {
 public:
  CompletionsBody(ContinuedPrompts continued, ReplyEnvelope envelope, std::shared_ptr<HttpExchange> exchange)
      : ChoicesBody(std::move(envelope), kObject, std::move(exchange)), continued_(std::move(continued)) {}

 protected:
  void write_members(std::size_t choice, const ReplyWhole& reply, JsonText& json) const override {
    const std::string& prompt = continued_.prompts[envelope().prompt_of(choice)].text;
    std::size_t offset = 0;
    continued_.write(choice, continued_.echo ? prompt + reply.content : reply.content, reply.tokens,
                     &reply.end, envelope(), offset, json);
  }

 private:
  const ContinuedPrompts continued_;
};

class CompletionsEvents final : public ChoicesEvents {
 public:
  CompletionsEvents(ContinuedPrompts continued, ReplyEnvelope envelope,
                    std::shared_ptr<HttpExchange> exchange)
      : ChoicesEvents(std::move(envelope), kObject, std::move(exchange)),
        continued_(std::move(continued)),
        offsets_(this->envelope().choices()) {}

  void add(ReplyDelta delta) override {
    send_text(delta.choice, delta.content, delta.tokens, delta.end ? &*delta.end : nullptr);
  }

 protected:
  void greet() override {
    if (!continued_.echo) return;
    for (std::size_t i = 0; i < offsets_.size(); ++i)
      send_text(i, continued_.prompts[envelope().prompt_of(i)].text, {}, nullptr);
  }

 private:
  void send_text(std::size_t choice, const std::string& text, std::span<const ReplyToken> tokens,
                 const ReplyEnd* end) {
    send_choice(choice, tokens, end, [&](JsonText& json) {
      continued_.write(choice, text, tokens, end, envelope(), offsets_[choice], json);
    });
  }

  const ContinuedPrompts continued_;
  std::vector<std::size_t> offsets_;  // of each choice
};

}  // namespace

std::unique_ptr<ReplySink> make_completions_sink(CompletionsRequest request,
                                                 std::shared_ptr<const ServedModel> model,
                                                 std::shared_ptr<HttpExchange> exchange) {
  const bool streams = request.options.stream;
  ReplyEnvelope envelope{.id = random_id("cmpl-"),
                         .options = std::move(request.options),
                         .model = std::move(model),
                         .prompts = request.prompts.size()};
  ContinuedPrompts continued{.prompts = std::move(request.prompts), .echo = request.echo};
  if (streams)
    return std::make_unique<CompletionsEvents>(std::move(continued), std::move(envelope),
                                               std::move(exchange));
  return std::make_unique<CompletionsBody>(std::move(continued), std::move(envelope), std::move(exchange));
}

}  // namespace carat
