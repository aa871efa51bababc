// Carries the events of one exchange's requests from the engine to its sink. A pump runs on one worker at a
// time, whenever the engine has news, and waits for nobody.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "server/api_model.h"
#include "server/metrics.h"
#include "server/reply_choice.h"
#include "server/reply_sink.h"

namespace carat {

/// One request to the engine and how its replies are read.
struct ReplyOrder {
  Request request;
  ReplyReading reading;
};

class ReplyPump : public std::enable_shared_from_this<ReplyPump> {
 public:
  ReplyPump(std::shared_ptr<const ServedModel> model, std::unique_ptr<ReplySink> sink);

  /// Submits the orders and sees to the replies; returns at once. Throws Error when the engine doesn't take
  /// them; nothing has been sent then. Lives until all replies have ended.
  void start(std::vector<ReplyOrder> orders, HttpExchange& exchange);

 private:
  void wake();
  void run();
  void drain();
  void take(Event event);
  void fail(const ApiError& error);
  void cancel();

  // Let go of by the worker that sees the end. The engine's thread may be the last to hold a pump, and must
  // not come to destroy the engine with it.
  std::shared_ptr<const ServedModel> model_;
  std::unique_ptr<ReplySink> sink_;

  const std::function<void(std::function<void()>)> post_;
  std::vector<ReplyChoice> choices_;       // of the first request, of the second, ...
  std::vector<std::size_t> first_choice_;  // of each request
  std::mutex handle_mutex_;                // against cancel(), which may come from any thread
  RequestHandle handle_;
  std::atomic<int> wakes_{1};  // what woke it since it last looked; start() is the first
  std::optional<ReplyMetrics> metrics_;
  bool failed_ = false, done_ = false;
};

/// Starts a pump for the orders. Throws as ReplyPump::start().
void answer(const std::shared_ptr<const ServedModel>& model, std::vector<ReplyOrder> orders,
            std::unique_ptr<ReplySink> sink, HttpExchange& exchange);

}  // namespace carat
