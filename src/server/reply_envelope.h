// What the replies of /v1/chat/completions and /v1/completions have in common: an envelope around choices, as
// one body or as a stream of chunks.
#pragma once
#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "server/api_model.h"
#include "server/api_options.h"
#include "server/reply_sink.h"

namespace carat {

struct ReplyEnvelope {
  std::string id;
  ReplyParameters options;
  std::shared_ptr<const ServedModel> model;
  std::size_t prompts = 1;
  int64_t created = std::time(nullptr);

  /// Of all prompts; those of one prompt follow each other.
  std::size_t choices() const { return prompts * samples(); }
  std::size_t prompt_of(std::size_t choice) const { return choice / samples(); }
  /// Counts a reply that has ended; prompts count once.
  void count(std::size_t choice, const ReplyEnd& end, ReplyUsage& usage) const {
    usage.add(end, choice % samples() == 0);
  }

  void write_head(const char* object, JsonText& json) const;
  /// An element of `choices`: what both APIs have in it, and `members` besides. `end`: null before the end.
  void write_choice(std::size_t choice, std::span<const ReplyToken> tokens, const ReplyEnd* end,
                    const std::function<void(JsonText&)>& members, JsonText& json) const;
  /// Of a reply that has ended, when asked for.
  void write_timings(const ReplyEnd& end, JsonText& json) const;

 private:
  std::size_t samples() const { return static_cast<std::size_t>(options.request.samples); }
};

template <class Ids>
void write_token_ids(const char* name, const Ids& ids, JsonText& json) {
  json.name(name).array([&] {
    for (const int32_t id : ids) json.integer(id);
  });
}

class ChoicesBody : public BodySink {
 public:
  ChoicesBody(ReplyEnvelope envelope, const char* object, std::shared_ptr<HttpExchange> exchange)
      : BodySink(std::move(exchange)),
        envelope_(std::move(envelope)),
        object_(object),
        replies_(envelope_.choices()) {}

  void add(ReplyDelta delta) override { replies_.at(delta.choice).add(std::move(delta)); }

 protected:
  std::string body() override;
  /// The API's own members of a choice.
  virtual void write_members(std::size_t choice, const ReplyWhole& reply, JsonText& json) const = 0;
  /// More members of the whole body.
  virtual void write_more(JsonText&) const {}
  const ReplyEnvelope& envelope() const { return envelope_; }

 private:
  const ReplyEnvelope envelope_;
  const char* const object_;
  std::vector<ReplyWhole> replies_;
};

class ChoicesEvents : public EventSink {
 public:
  ChoicesEvents(ReplyEnvelope envelope, const char* object, std::shared_ptr<HttpExchange> exchange)
      : EventSink(std::move(exchange)), envelope_(std::move(envelope)), object_(object) {}

  void finish() override;

 protected:
  using Write = std::function<void(JsonText&)>;
  /// A chunk about one choice, which `end` makes its last one. `members`: the API's own.
  void send_choice(std::size_t choice, std::span<const ReplyToken> tokens, const ReplyEnd* end,
                   const Write& members);
  /// More members of a chunk.
  virtual void write_more(JsonText&) {}
  const ReplyEnvelope& envelope() const { return envelope_; }

 private:
  /// `choices`: writes what the list of them has; `is_last`: of the stream, with its usage.
  void send_chunk(const Write& choices, const ReplyEnd* end, bool is_last);

  const ReplyEnvelope envelope_;
  const char* const object_;
  ReplyUsage usage_;
};

}  // namespace carat
