// What the connections of a server share, and the count of requests under way. Used by http_server.cc alone.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "server/http_listener.h"
#include "server/http_pending_reply.h"
#include "server/http_server.h"

namespace carat {

/// What all connections share.
struct HttpServing {
  HttpServing(const HttpOptions& o, Workers& w, HttpPolicy& p, std::shared_ptr<const HttpRouter> r)
      : options(o), workers(w), policy(p), listener(o.host, o.port), router(std::move(r)) {}

  const HttpOptions options;
  Workers& workers;
  HttpPolicy& policy;
  HttpListener listener;
  std::atomic<std::size_t> connections{0};
  std::atomic<bool> draining{false};

  std::mutex mutex;
  std::condition_variable changed;
  std::shared_ptr<const HttpRouter> router;
  std::size_t active = 0;                           // requests without a whole reply
  std::set<std::shared_ptr<PendingReply>> replies;  // under way

  std::shared_ptr<const HttpRouter> current_router() {
    const std::lock_guard lock(mutex);
    return router;
  }
  void add(const std::shared_ptr<PendingReply>& reply) {
    const std::lock_guard lock(mutex);
    replies.insert(reply);
  }
  void remove(const std::shared_ptr<PendingReply>& reply) {
    const std::lock_guard lock(mutex);
    replies.erase(reply);
  }
};

/// Counts a request as active while it lives, and reports how it ended.
class ActiveRequest {
 public:
  ActiveRequest(HttpServing& server, const HttpRequest& head)
      : server_(server), head_{head.method, head.path, head.query, head.headers, {}, head.id} {
    const std::lock_guard lock(server_.mutex);
    ++server_.active;
  }
  ~ActiveRequest() {
    outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
    server_.policy.finished(head_, outcome);
    const std::lock_guard lock(server_.mutex);
    if (--server_.active == 0) server_.changed.notify_all();
  }
  ActiveRequest(const ActiveRequest&) = delete;
  ActiveRequest& operator=(const ActiveRequest&) = delete;

  /// Of the request all but the body.
  const HttpRequest& head() const { return head_; }

  HttpOutcome outcome{.status = 0, .whole = false};

 private:
  HttpServing& server_;
  const HttpRequest head_;
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
};

}  // namespace carat
