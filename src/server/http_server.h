// HTTP/1.1 over TCP, TLS or a unix socket: turns bytes into requests for routes and replies into bytes. One
// or two threads serve thousands of connections; no thread belongs to a connection. docs/serving.md lists the
// limits.
#pragma once
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "server/http.h"
#include "server/http_router.h"
#include "server/workers.h"

namespace carat {

struct HttpOptions {
  std::string host = "127.0.0.1";                  // an address or name, or unix:/path
  int port = 8080;                                 // 0: one that is free
  std::string tls_certificate = {}, tls_key = {};  // PEM files; empty: no TLS
  int threads = 1;
  std::size_t most_connections = 4096;
  std::size_t most_header_bytes = 64 << 10, most_body_bytes = 32 << 20;
  /// A client that leaves more than this of a stream unread is dropped.
  std::size_t most_unsent_bytes = 4 << 20;
  std::chrono::milliseconds header_timeout{10'000};  // from a request's first byte to the end of its head
  std::chrono::milliseconds body_timeout{120'000};
  std::chrono::milliseconds idle_timeout{75'000};   // between requests
  std::chrono::milliseconds write_timeout{30'000};  // without the client taking a byte
  std::chrono::milliseconds request_timeout{0};     // from the whole request to the end of its reply; 0: none
  std::chrono::milliseconds ping_interval{15'000};  // see HttpResponse::ping
};

/// How a request ended, for logs and counters.
struct HttpOutcome {
  int status = 0;     // 0: the client left before a reply began
  bool whole = true;  // the reply went out to its end
  std::size_t body_bytes = 0;
  double seconds = 0;
};

/// What holds for all requests, whatever their route. Called by the server's threads, several at a time: must
/// be quick and must not throw.
class HttpPolicy {
 public:
  virtual ~HttpPolicy() = default;
  /// Asked when a request's head is there and its body isn't. A reply ends the request.
  virtual std::optional<HttpResponse> refuse(const HttpRequest& head) = 0;
  /// Adds headers to a reply, errors included.
  virtual void complete(const HttpRequest& request, HttpResponse& head) = 0;
  virtual void finished(const HttpRequest& request, const HttpOutcome& outcome) = 0;
};

class HttpServer {
 public:
  /// Listens and serves `router` (which may be replaced) from now on. Routes run on `workers`, which, like
  /// `policy`, must outlive the server. Throws Error{invalid_argument} or Error{unavailable} when it can't
  /// listen there.
  HttpServer(const HttpOptions& options, Workers& workers, HttpPolicy& policy,
             std::shared_ptr<const HttpRouter> router);
  /// Closes all connections. Exchanges that are still held become deaf and may be dropped later.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// For the requests that arrive from now on.
  void set_router(std::shared_ptr<const HttpRouter> router);
  /// "http://127.0.0.1:8080" or "unix:/path".
  std::string address() const;
  int port() const;
  std::size_t connections() const;
  /// Serves the connections that the system has accepted by now, takes no others, and waits until every
  /// request of which a byte has come has its reply. Requests that come meanwhile on open connections are
  /// answered too; each connection ends behind its next reply. False when some are left after `patience`.
  bool drain(std::chrono::milliseconds patience);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace carat
