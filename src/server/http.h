// What routes see of HTTP. The server behind it is the only place that knows a network library; routes know
// neither sockets nor threads, and tests call them with an exchange of their own.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace carat {

struct HttpError;

struct HttpHeader {
  std::string name, value;
};

struct HttpRequest {
  std::string method;  // "GET", upper case
  std::string path;    // percent-decoded, without the query
  std::string query;   // as sent, without '?'
  std::vector<HttpHeader> headers;
  std::string body;
  std::string id;  // the client's x-request-id when it is sane, else one of our own

  /// The value of the first header of this name, in any case; empty when there is none.
  std::string_view header(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  std::vector<HttpHeader> headers = {};
  /// Of a stream: sent whenever nothing else was for a while, so that nobody on the way gives the connection
  /// up.
  std::string ping = {};
  /// Of a stream: the bytes that say on it that the reply fails. For the connection, which calls it once at
  /// most, from its own thread, also when the route has forgotten the exchange.
  std::function<std::string(const HttpError&)> failure = {};
};

/// The reply to one request: either respond(), or begin_stream(), any number of write() and one end() or
/// abort(). Functions may be called from any thread, one at a time, and never wait; after the client has gone
/// they do nothing. Dropping the last reference without a reply sends a 500.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;

  virtual void respond(HttpResponse response) = 0;

  /// A reply of unknown length, sent in chunks. `head.body` is its beginning and may be empty.
  virtual void begin_stream(HttpResponse head) = 0;
  virtual void write(std::string bytes) = 0;
  virtual void end() = 0;
  /// Sends what was written and closes the connection, so that the client sees that the stream is not whole.
  virtual void abort() = 0;

  /// Bytes given to write() that the client has not taken yet.
  virtual std::size_t unsent_bytes() const = 0;
  /// `gone` is called once, at once when it already happened, when the client leaves before the reply's end.
  /// It must not wait.
  virtual void on_disconnect(std::function<void()> gone) = 0;
};

/// Called on a worker thread: may parse, tokenize and render, must not wait for a reply of the model. Those
/// that are added as RouteThread::network are called there and must not take long.
using HttpRoute = std::function<void(std::shared_ptr<const HttpRequest>, std::shared_ptr<HttpExchange>)>;

}  // namespace carat
