#include "server/reply_choice.h"

#include <utility>

#include "server/reply_id.h"

namespace carat {

ReplyChoice::ReplyChoice(std::size_t index, const ReplyReading& reading, std::span<const int32_t> prompt)
    : reading_(reading) {
  delta_.choice = index;
  if (reading.is_chat)
    parser_.emplace(reading.tokenizer, reading.output, prompt);
  else
    decoder_.emplace(reading.tokenizer, reading.output.stop_strings, reading.skip_special);
}

std::optional<ReplyDelta> ReplyChoice::read(Event event) {
  if (!cut_) {
    // The engine knows no stop strings of ours, so a stop means that this very token ends the reply.
    const bool ends_reply = event.finish && event.finish->reason == FinishReason::stop;
    if (event.token >= 0) ++reply_tokens_;
    if (event.token >= 0 && !ends_reply) add_token(event);
    if (event.finish && !cut_) add(parser_ ? parser_->finish() : OutputDelta{decoder_->finish(), {}, {}});
  }
  if (event.finish) end(*event.finish);
  if (!delta_.has_text() && !delta_.end) return std::nullopt;
  const std::size_t choice = delta_.choice;
  ReplyDelta ready = std::exchange(delta_, {});
  delta_.choice = choice;
  return ready;
}

void ReplyChoice::add_token(Event& event) {
  delta_.tokens.push_back({event.token, std::move(event.logprobs)});
  if (!parser_) return add({decoder_->push(event.token), {}, {}});
  const bool was_thinking = parser_->is_thinking();
  OutputDelta text = parser_->push(event.token);
  if (was_thinking || parser_->is_thinking()) ++reasoning_tokens_;
  add(std::move(text));
}

void ReplyChoice::add(OutputDelta text) {
  delta_.reasoning += text.reasoning;
  delta_.content += text.content;
  for (ToolCall& call : text.tool_calls) {
    if (has_calls_ && !reading_.parallel_calls) break;
    delta_.calls.push_back({random_id("call_"), std::move(call.name), std::move(call.arguments)});
    has_calls_ = true;
  }
  if (parser_ ? parser_->stopped() : decoder_->stopped()) cut_ = ReplyEndReason::stop;
  if (has_calls_ && !reading_.parallel_calls) cut_ = ReplyEndReason::tool_calls;
}

void ReplyChoice::end(const Finish& finish) {
  ReplyEnd end;
  end.reason = cut_                                    ? *cut_
               : finish.reason == FinishReason::length ? ReplyEndReason::length
                                                       : ReplyEndReason::stop;
  if (end.reason == ReplyEndReason::stop && has_calls_) end.reason = ReplyEndReason::tool_calls;
  if (cut_ == ReplyEndReason::stop)
    end.stop_string = parser_ ? parser_->stop_string() : decoder_->stop_string();
  end.prompt_tokens = finish.usage.prompt_tokens;
  end.cached_tokens = finish.usage.cached_tokens;
  end.reply_tokens = reply_tokens_;
  end.reasoning_tokens = reasoning_tokens_;
  end.queued_s = finish.queued_s;
  end.first_token_s = finish.first_token_s;
  end.total_s = finish.total_s;
  delta_.end = end;
}

}  // namespace carat
