#include "server/reply_sink.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "server/http_error.h"

namespace carat {

void ReplyWhole::add(ReplyDelta delta) {
  reasoning += delta.reasoning;
  content += delta.content;
  std::ranges::move(delta.calls, std::back_inserter(calls));
  std::ranges::move(delta.tokens, std::back_inserter(tokens));
  if (delta.end) end = *delta.end;
}

void EventSink::begin() {
  greet();
  exchange_->begin_stream({.body = std::exchange(unsent_, {}),
                           .content_type = "text/event-stream",
                           .headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}},
                           .ping = ping(),
                           .failure = failure_});
}

std::string event_text(std::string_view json, std::string_view name) {
  std::string text;
  if (!name.empty()) text.append("event: ").append(name).append("\n");
  return text.append("data: ").append(json).append("\n\n");
}

std::string EventSink::openai_failure(const HttpError& error) { return event_text(error_body(error)); }

void EventSink::flush() {
  if (!unsent_.empty()) exchange_->write(std::exchange(unsent_, {}));
}

void EventSink::end_stream() {
  flush();
  exchange_->end();
}

void EventSink::fail(const ApiError& error) {
  unsent_ += failure_(http_error(error));
  flush();
  exchange_->abort();
}

void ReplyUsage::add(const ReplyEnd& end, bool first) {
  if (first) {
    prompt_tokens += end.prompt_tokens;
    cached_tokens += end.cached_tokens;
  }
  reply_tokens += end.reply_tokens;
  reasoning_tokens += end.reasoning_tokens;
}

void write_usage(const ReplyUsage& usage, JsonText& json) {
  json.object([&] {
    json.field("prompt_tokens", usage.prompt_tokens)
        .field("completion_tokens", usage.reply_tokens)
        .field("total_tokens", usage.prompt_tokens + usage.reply_tokens);
    json.name("prompt_tokens_details").object([&] { json.field("cached_tokens", usage.cached_tokens); });
    json.name("completion_tokens_details").object([&] {
      json.field("reasoning_tokens", usage.reasoning_tokens);
    });
  });
}

void write_timings(const ReplyEnd& end, JsonText& json) {
  constexpr double kMs = 1000.;
  const double prompt_s = end.first_token_s - end.queued_s, decode_s = end.total_s - end.first_token_s;
  const int computed = end.prompt_tokens - end.cached_tokens;
  const auto rate = [](double count, double seconds) { return seconds > 0. ? count / seconds : 0.; };
  json.object([&] {
    json.field("queued_ms", end.queued_s * kMs)
        .field("prompt_n", computed)
        .field("cache_n", end.cached_tokens)
        .field("prompt_ms", prompt_s * kMs)
        .field("prompt_per_second", rate(computed, prompt_s))
        .field("predicted_n", end.reply_tokens)
        .field("predicted_ms", decode_s * kMs)
        .field("predicted_per_second", rate(end.reply_tokens - 1, decode_s));
  });
}

std::string_view finish_reason(ReplyEndReason reason) {
  switch (reason) {
    case ReplyEndReason::length:
      return "length";
    case ReplyEndReason::tool_calls:
      return "tool_calls";
    case ReplyEndReason::stop:
      break;
  }
  return "stop";
}

}  // namespace carat
