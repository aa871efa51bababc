#include "server/reply_envelope.h"

#include <ranges>
#include <utility>

namespace carat {

void ReplyEnvelope::write_head(const char* object, JsonText& json) const {
  json.field("id", id)
      .field("object", object)
      .field("created", created)
      .field("model", model->names.front())
      .field("system_fingerprint", model->fingerprint);
}

void ReplyEnvelope::write_choice(std::size_t choice, std::span<const ReplyToken> tokens, const ReplyEnd* end,
                                 const std::function<void(JsonText&)>& members, JsonText& json) const {
  json.object([&] {
    json.field("index", choice);
    members(json);
    json.name("finish_reason");
    end ? json.text(finish_reason(end->reason)) : json.null();
    if (options.return_token_ids)
      write_token_ids("token_ids", tokens | std::views::transform(&ReplyToken::id), json);
  });
}

void ReplyEnvelope::write_timings(const ReplyEnd& end, JsonText& json) const {
  if (!options.timings) return;
  json.name("timings");
  carat::write_timings(end, json);
}

std::string ChoicesBody::body() {
  JsonText json;
  ReplyUsage usage;
  json.object([&] {
    envelope_.write_head(object_, json);
    json.name("choices").array([&] {
      for (std::size_t i = 0; i < replies_.size(); ++i) {
        const ReplyWhole& reply = replies_[i];
        envelope_.count(i, reply.end, usage);
        envelope_.write_choice(
            i, reply.tokens, &reply.end, [&](JsonText&) { write_members(i, reply, json); }, json);
      }
    });
    json.name("usage");
    write_usage(usage, json);
    write_more(json);
    envelope_.write_timings(replies_.front().end, json);
  });
  return json.take();
}

void ChoicesEvents::send_choice(std::size_t choice, std::span<const ReplyToken> tokens, const ReplyEnd* end,
                                const Write& members) {
  if (end) envelope_.count(choice, *end, usage_);
  send_chunk([&](JsonText& json) { envelope_.write_choice(choice, tokens, end, members, json); }, end,
             /*is_last=*/false);
}

void ChoicesEvents::finish() {
  if (envelope_.options.include_usage) send_chunk([](JsonText&) {}, nullptr, /*is_last=*/true);
  send("[DONE]");
  end_stream();
}

void ChoicesEvents::send_chunk(const Write& choices, const ReplyEnd* end, bool is_last) {
  JsonText json;
  json.object([&] {
    envelope_.write_head(object_, json);
    json.name("choices").array([&] { choices(json); });
    if (is_last) {
      json.name("usage");
      write_usage(usage_, json);
    } else if (envelope_.options.include_usage) {
      json.field("usage", nullptr);
    }
    write_more(json);
    if (end) envelope_.write_timings(*end, json);
  });
  send(json.take());
}

}  // namespace carat
