// Where the replies of one exchange go: one body at the end, or server-sent events on the way. Each API has a
// sink of either kind.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/api_error.h"
#include "server/api_json.h"
#include "server/http.h"
#include "server/reply_choice.h"

namespace carat {

/// Called by one thread at a time: begin(), then add() and flush() in any order, then finish() or fail().
class ReplySink {
 public:
  virtual ~ReplySink() = default;
  /// The engine has accepted the requests.
  virtual void begin() {}
  virtual void add(ReplyDelta delta) = 0;
  /// All replies have ended.
  virtual void finish() = 0;
  virtual void fail(const ApiError& error) = 0;
  /// Sends what was added.
  virtual void flush() {}
};

/// Responds with one body when all is there.
class BodySink : public ReplySink {
 public:
  explicit BodySink(std::shared_ptr<HttpExchange> exchange) : exchange_(std::move(exchange)) {}

  void finish() override { exchange_->respond({.body = body()}); }
  void fail(const ApiError& error) override { exchange_->respond(to_response(error, error_json(error))); }

 protected:
  virtual std::string body() = 0;
  virtual std::string error_json(const ApiError& error) const { return openai_error_json(error); }

 private:
  std::shared_ptr<HttpExchange> exchange_;
};

/// A whole reply.
struct ReplyWhole {
  std::string reasoning, content;
  std::vector<ReplyCall> calls;
  std::vector<ReplyToken> tokens;
  ReplyEnd end;

  void add(ReplyDelta delta);
};

/// A server-sent event. Without a name for the APIs whose data says it all.
std::string event_text(std::string_view json, std::string_view name = {});

/// Server-sent events. What send() is given goes out with the next flush().
class EventSink : public ReplySink {
 public:
  /// The event that ends a stream with an error. The sink makes one when the reply fails, the connection when
  /// it takes too long: maybe from another thread, and when the sink is gone.
  using FailureEvent = std::function<std::string(const HttpError&)>;

  explicit EventSink(std::shared_ptr<HttpExchange> exchange, FailureEvent failure = openai_failure)
      : exchange_(std::move(exchange)), failure_(std::move(failure)) {}

  void begin() override;
  void fail(const ApiError& error) override;
  void flush() override;

 protected:
  /// The first events, sent with the head.
  virtual void greet() {}
  /// What keeps a silent stream open.
  virtual std::string ping() const { return ": ping\n\n"; }
  void send(std::string_view json, std::string_view event = {}) { unsent_ += event_text(json, event); }
  void end_stream();

 private:
  static std::string openai_failure(const HttpError& error);

  std::shared_ptr<HttpExchange> exchange_;
  const FailureEvent failure_;
  std::string unsent_;
};

/// Tokens of all replies together.
struct ReplyUsage {
  int prompt_tokens = 0, cached_tokens = 0, reply_tokens = 0, reasoning_tokens = 0;
  /// `first`: the first reply of its prompt, which counts once.
  void add(const ReplyEnd& end, bool first);
};

/// OpenAI's usage object of chats and completions.
void write_usage(const ReplyUsage& usage, JsonText& json);
/// llama.cpp's timings.
void write_timings(const ReplyEnd& end, JsonText& json);
/// stop, length or tool_calls.
std::string_view finish_reason(ReplyEndReason reason);

}  // namespace carat
