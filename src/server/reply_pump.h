// Carries the events of one exchange's requests from the engine to its sink. A pump runs on one worker at a
// time, whenever the engine has news, and waits for nobody.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "server/api_model.h"
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

  /// Has the sink ping when nothing was sent since `before`.
  void ping_if_silent_since(std::chrono::steady_clock::time_point before);

 private:
  void wake();
  void run();
  void drain();
  void take(Event event);
  void cancel();

  const std::shared_ptr<const ServedModel> model_;
  const std::unique_ptr<ReplySink> sink_;
  std::vector<ReplyChoice> choices_;       // of the first request, of the second, ...
  std::vector<std::size_t> first_choice_;  // of each request
  std::mutex handle_mutex_;                // against cancel(), which may come from any thread
  RequestHandle handle_;
  std::atomic<int> wakes_{1};  // what woke it since it last looked; start() is the first
  std::atomic<bool> ping_due_{false};
  std::atomic<std::chrono::steady_clock::duration> last_sent_;
  bool sent_ = false, failed_ = false, done_ = false;
};

/// Looks now and then for pumps whose clients have heard nothing for a while. One thread for all of them.
class ReplyPings {
 public:
  explicit ReplyPings(std::chrono::milliseconds ping_after);
  ~ReplyPings();
  void watch(const std::shared_ptr<ReplyPump>& pump);

 private:
  void look();

  const std::chrono::milliseconds ping_after_;
  std::mutex mutex_;
  std::condition_variable stopping_;
  bool stop_ = false;
  std::vector<std::weak_ptr<ReplyPump>> pumps_;
  std::thread thread_;
};

/// What routes share.
struct ApiContext {
  std::shared_ptr<const ServedModel> model;
  std::shared_ptr<ReplyPings> pings;
};

/// Starts a pump for the orders. Throws as ReplyPump::start().
void answer(const ApiContext& context, std::vector<ReplyOrder> orders, std::unique_ptr<ReplySink> sink,
            HttpExchange& exchange);

}  // namespace carat
