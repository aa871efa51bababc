// What the connections of a server share, and the requests under way. Used by http_server.cc alone.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "server/http_error.h"
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
  std::size_t claims = 0;                           // see DrainClaim
  std::set<std::shared_ptr<PendingReply>> replies;  // under way

  std::shared_ptr<const HttpRouter> current_router() {
    const std::lock_guard lock(mutex);
    return router;
  }
  void replace_router(std::shared_ptr<const HttpRouter> other) {
    const std::lock_guard lock(mutex);
    router = std::move(other);
  }
  void add(const std::shared_ptr<PendingReply>& reply) {
    const std::lock_guard lock(mutex);
    replies.insert(reply);
  }
  void remove(const std::shared_ptr<PendingReply>& reply) {
    const std::lock_guard lock(mutex);
    replies.erase(reply);
  }
  /// Waits until there is no claim; false when there still is one after `patience`.
  bool become_unclaimed(std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, patience, [&] { return claims == 0; });
  }
};

/// HttpServer::drain() waits while there is one: for a connection whose client has sent, or may have sent,
/// something that isn't answered.
class DrainClaim {
 public:
  explicit DrainClaim(HttpServing& server) : server_(server) {
    const std::lock_guard lock(server_.mutex);
    ++server_.claims;
  }
  ~DrainClaim() {
    const std::lock_guard lock(server_.mutex);
    if (--server_.claims == 0) server_.changed.notify_all();
  }
  DrainClaim(const DrainClaim&) = delete;
  DrainClaim& operator=(const DrainClaim&) = delete;

 private:
  HttpServing& server_;
};

/// One request, how its reply goes out, and the report of how it ended.
class ActiveRequest {
 public:
  ActiveRequest(HttpServing& server, const HttpRequest& head)
      : server_(server), head_{head.method, head.path, head.query, head.headers, {}, head.id} {}
  ~ActiveRequest();
  ActiveRequest(const ActiveRequest&) = delete;
  ActiveRequest& operator=(const ActiveRequest&) = delete;

  /// Of the request all but the body.
  const HttpRequest& head() const { return head_; }
  /// `output` as bytes for the wire. With its head it is settled how the rest is framed.
  std::string framed(PendingReply::Output& output);
  /// The end of a reply that fails, as bytes: the error, or what the stream that has begun says of it.
  std::string framed_failure(const HttpError& error);
  bool is_chunked() const { return chunked_; }

  bool is_http_1_1 = true;
  bool keep_alive = false;  // the connection serves another request behind the reply
  HttpOutcome outcome{.status = 0, .whole = false};

 private:
  HttpServing& server_;
  const HttpRequest head_;
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  bool chunked_ = false;
  std::function<std::string(const HttpError&)> failure_;  // HttpResponse::failure
};

}  // namespace carat
