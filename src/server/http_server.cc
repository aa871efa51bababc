// Everything that touches sockets: accepting, reading, writing, timeouts. A connection is two coroutines on
// one thread: one reads all the time, so that a client's leaving is noticed while its reply is computed; the
// other takes one request after another from what was read.
#include "server/http_server.h"

#include <algorithm>
#include <array>
#include <boost/asio.hpp>
#include <boost/asio/ssl.hpp>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "server/http_error.h"
#include "server/http_parser.h"
#include "server/http_serving.h"
#include "server/http_wire.h"

namespace carat {
namespace {

namespace net = boost::asio;
using Clock = std::chrono::steady_clock;
using Failure = boost::system::error_code;
using Protocol = net::generic::stream_protocol;
using Socket = Protocol::socket;
using Acceptor = net::basic_socket_acceptor<Protocol>;
using net::awaitable;

constexpr std::size_t kReadBytes = 8 << 10;
constexpr std::size_t kMostUnparsedBytes = 64 << 10;  // beyond a head: requests sent ahead
constexpr std::chrono::seconds kLinger{5};            // for a client that sends a body nobody wants
const HttpError kTooLong{.status = 504, .message = "the reply took longer than this server allows"};

auto returning(Failure& failure) { return net::redirect_error(net::use_awaitable, failure); }

/// Bytes to and from one client, plain or encrypted.
class Transport {
 public:
  explicit Transport(Socket socket) : socket_(std::move(socket)) {}
  virtual ~Transport() = default;
  virtual awaitable<bool> open() { co_return true; }
  virtual awaitable<std::size_t> read(net::mutable_buffer to, Failure& failure) {
    return socket_.async_read_some(to, returning(failure));
  }
  virtual awaitable<std::size_t> write(net::const_buffer from, Failure& failure) {
    return socket_.async_write_some(from, returning(failure));
  }
  /// Bytes that have come and wait to be read.
  std::size_t unread() { return socket_.available(ignored_); }
  void end_writing() { socket_.shutdown(net::socket_base::shutdown_send, ignored_); }
  void close() { socket_.close(ignored_); }

 protected:
  Socket socket_;
  Failure ignored_;
};

class TlsTransport final : public Transport {
 public:
  TlsTransport(Socket socket, net::ssl::context& context)
      : Transport(std::move(socket)), stream_(socket_, context) {}
  awaitable<bool> open() override {
    Failure failure;
    co_await stream_.async_handshake(net::ssl::stream_base::server, returning(failure));
    co_return !failure;
  }
  awaitable<std::size_t> read(net::mutable_buffer to, Failure& failure) override {
    return stream_.async_read_some(to, returning(failure));
  }
  awaitable<std::size_t> write(net::const_buffer from, Failure& failure) override {
    return stream_.async_write_some(from, returning(failure));
  }

 private:
  net::ssl::stream<Socket&> stream_;
};

class Connection;

/// A network thread and its connections.
struct Loop {
  std::mutex mutex;
  std::set<Connection*> connections;
  net::io_context context{1};  // connections end with it
  net::executor_work_guard<net::io_context::executor_type> guard{context.get_executor()};
  std::thread thread;
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(HttpServing& server, std::unique_ptr<Transport> transport, Loop& loop)
      : server_(server),
        options_(server.options),
        loop_(loop),
        transport_(std::move(transport)),
        parser_({options_.most_header_bytes, options_.most_body_bytes}),
        event_(loop.context),
        room_(loop.context),
        write_limit_(loop.context),
        claim_(std::in_place, server) {
    ++server_.connections;
    const std::lock_guard lock(loop_.mutex);
    loop_.connections.insert(this);
  }
  ~Connection() {
    --server_.connections;
    const std::lock_guard lock(loop_.mutex);
    loop_.connections.erase(this);
  }

  awaitable<void> serve();
  /// Has drain() wait for a request that nobody has looked at yet.
  void claim_unread() {
    if (claim_ || transport_->unread() == 0) return;
    claim_.emplace(server_);
    event_.cancel();
  }

 private:
  awaitable<void> read_all();
  awaitable<void> wait(Clock::time_point deadline);
  awaitable<bool> read_head();
  awaitable<bool> read_past(HttpParser::State state, Clock::time_point deadline);
  awaitable<bool> serve_request();
  std::optional<HttpResponse> refuse(const HttpRequest& head);
  awaitable<bool> send_refusal(HttpResponse response, ActiveRequest& active);
  awaitable<bool> answer(ActiveRequest& active);
  awaitable<bool> send_reply(ActiveRequest& active);
  awaitable<bool> write(std::string_view bytes);
  awaitable<void> linger();
  void notice();
  void close_after(std::chrono::milliseconds time);

  Clock::time_point after(std::chrono::milliseconds time) const { return Clock::now() + time; }
  bool may_keep_alive() const { return parser_.keep_alive() && !server_.draining; }

  HttpServing& server_;
  const HttpOptions& options_;
  Loop& loop_;
  const std::unique_ptr<Transport> transport_;
  HttpParser parser_;
  net::steady_timer event_, room_, write_limit_;
  std::optional<DrainClaim> claim_;  // from the first byte of a request to the end of its reply
  bool peer_gone_ = false, discarding_ = false, closed_ = false, served_any_ = false;

  // Of the request being served:
  std::shared_ptr<const HttpRouter> router_;
  HttpRouter::Match match_;
  std::shared_ptr<PendingReply> reply_;
};

awaitable<void> Connection::serve() {
  try {
    close_after(options_.header_timeout);
    const bool opened = co_await transport_->open();
    write_limit_.cancel();
    if (opened) {
      net::co_spawn(loop_.context, [c = shared_from_this()] { return c->read_all(); }, net::detached);
      while (co_await serve_request()) served_any_ = true;
    }
  } catch (const std::exception&) {  // out of memory: this connection ends, the others go on
  }
  closed_ = true;
  room_.cancel();
  transport_->close();
  claim_.reset();
}

/// Feeds the parser. Pauses when the client sends more ahead than anyone needs.
awaitable<void> Connection::read_all() {
  std::array<char, kReadBytes> buffer;
  const std::size_t most = options_.most_header_bytes + kMostUnparsedBytes;
  Failure failure;
  while (!closed_) {
    if (parser_.buffered() >= most && !discarding_) {
      room_.expires_at(Clock::time_point::max());
      co_await room_.async_wait(returning(failure));
      continue;
    }
    const std::size_t count = co_await transport_->read(net::buffer(buffer), failure);
    if (failure) break;
    if (discarding_) continue;
    parser_.feed({buffer.data(), count});
    if (!claim_) claim_.emplace(server_);  // now: drain() could end before serve() goes on
    event_.cancel();
  }
  peer_gone_ = true;
  event_.cancel();
}

/// Until something happens, or the deadline. Whoever waits checks again what it waits for.
awaitable<void> Connection::wait(Clock::time_point deadline) {
  Failure ignored;
  room_.cancel();  // parsing may have made some
  event_.expires_at(deadline);
  co_await event_.async_wait(returning(ignored));
}

/// The route has said something. Too much of it ends also a write that the client doesn't take.
void Connection::notice() {
  if (reply_->is_overrun()) transport_->close();
  event_.cancel();
}

void Connection::close_after(std::chrono::milliseconds time) {
  write_limit_.expires_after(time);
  write_limit_.async_wait([weak = weak_from_this()](const Failure& cancelled) {
    const auto connection = weak.lock();
    if (!cancelled && connection) connection->transport_->close();
  });
}

/// False when there is no further request.
awaitable<bool> Connection::read_head() {
  const auto deadline = after(served_any_ ? options_.idle_timeout : options_.header_timeout);
  while (parser_.buffered() == 0) {
    if (peer_gone_ || Clock::now() >= deadline) co_return false;
    if (transport_->unread() == 0) claim_.reset();
    // What TLS sends for itself is read and wakes nobody.
    co_await wait(claim_ ? std::min(deadline, after(std::chrono::milliseconds(10))) : deadline);
  }
  co_return co_await read_past(HttpParser::State::head, after(options_.header_timeout));
}

/// Until the parser's state is another one than `state`. False when the client has left before.
awaitable<bool> Connection::read_past(HttpParser::State state, Clock::time_point deadline) {
  while (parser_.parse() == state) {
    if (peer_gone_) co_return false;
    if (Clock::now() >= deadline) {
      parser_.fail_with(408, "the request took too long to arrive");
      break;
    }
    co_await wait(deadline);
  }
  co_return true;
}

/// One request and its reply. False when it was the last one of this connection.
awaitable<bool> Connection::serve_request() {
  if (!co_await read_head()) co_return false;
  ActiveRequest active(server_, parser_.head());
  active.is_http_1_1 = parser_.is_http_1_1();
  std::optional<HttpResponse> refused = refuse(active.head());
  if (!refused) {
    const bool waits = parser_.expects_continue() && parser_.buffered() == 0;
    if (waits && parser_.parse() == HttpParser::State::body &&
        !co_await write("HTTP/1.1 100 Continue\r\n\r\n")) {
      co_return false;
    }
    if (!co_await read_past(HttpParser::State::body, after(options_.body_timeout))) co_return false;
    if (parser_.parse() == HttpParser::State::failed) refused = refuse(active.head());
  }
  const bool goes_on = refused ? co_await send_refusal(std::move(*refused), active) : co_await answer(active);
  if (goes_on) parser_.next();
  co_return goes_on;
}

/// What can be said without the body; none: the request is to be read and answered by the route of match_.
std::optional<HttpResponse> Connection::refuse(const HttpRequest& head) {
  if (parser_.failed_status() != 0)
    return error_response({.status = parser_.failed_status(), .message = parser_.failure()}, head.path);
  if (auto refused = server_.policy.refuse(head)) return refused;
  router_ = server_.current_router();
  match_ = router_->find(head.method, head.path);
  if (!match_.route) return refusal(match_, head);
  return std::nullopt;
}

/// Says no before the body was read, which the client may be in the middle of sending.
awaitable<bool> Connection::send_refusal(HttpResponse response, ActiveRequest& active) {
  const bool whole = parser_.parse() == HttpParser::State::done;
  PendingReply::Output output = PendingReply::Output::whole(std::move(response));
  active.keep_alive = whole && may_keep_alive();
  active.outcome.body_bytes = output.bytes.size();
  active.outcome.whole = co_await write(active.framed(output));
  if (active.outcome.whole && !whole) co_await linger();
  co_return active.keep_alive&& active.outcome.whole;
}

awaitable<bool> Connection::answer(ActiveRequest& active) {
  active.keep_alive = may_keep_alive();
  const auto wake = [weak = weak_from_this(), &context = loop_.context] {
    net::post(context, [weak] {
      if (const auto connection = weak.lock()) connection->notice();
    });
  };
  const auto reply = std::make_shared<PendingReply>(wake, options_.most_unsent_bytes);
  reply_ = reply;
  server_.add(reply);
  {
    const auto exchange = reply->make_exchange();
    const auto work = [router = router_, route = match_.route, request = parser_.take(), exchange] {
      run_route(*route, request, exchange);
    };
    if (match_.thread == RouteThread::network)
      work();
    else if (!server_.workers.try_post(work))
      exchange->respond(busy_response("too many requests wait; try again", 1, active.head().path));
  }
  const bool goes_on = co_await send_reply(active);
  reply->close();
  server_.remove(reply);
  co_return goes_on;
}

/// Sends what the route says until its end. False when the connection can't be used any more.
awaitable<bool> Connection::send_reply(ActiveRequest& active) {
  const bool limited = options_.request_timeout.count() > 0;
  const auto limit = limited ? after(options_.request_timeout) : Clock::time_point::max();
  auto sent = Clock::now();
  std::string ping;
  for (;;) {
    PendingReply::Output output = reply_->take();
    if (output.overrun || peer_gone_) co_return false;
    if (output.head && output.stream) ping = chunk(output.head->ping);
    const std::size_t count = output.bytes.size();
    const std::string bytes = active.framed(output);
    if (!bytes.empty()) {
      if (!co_await write(bytes)) co_return false;
      reply_->count_sent(count);
      active.outcome.body_bytes += count;
      sent = Clock::now();
    }
    const bool head_only = active.head().method == "HEAD" && active.outcome.status != 0;
    if (output.ended || head_only) {
      active.outcome.whole = !output.aborted;
      co_return !output.aborted && active.keep_alive;
    }
    if (!bytes.empty()) continue;
    const auto now = Clock::now();
    if (now >= limit) {
      reply_->close();  // tells the route that nobody wants it any more
      const bool begun = active.outcome.status != 0;
      const std::string end = active.framed_failure(kTooLong);
      active.outcome.whole = co_await write(end) && !begun;
      co_return false;
    }
    if (ping.empty() || !active.is_chunked()) {
      co_await wait(limit);
    } else if (now >= sent + options_.ping_interval) {
      if (!co_await write(ping)) co_return false;
      sent = now;
    } else {
      co_await wait(std::min(limit, sent + options_.ping_interval));
    }
  }
}

/// False when the client is gone, or takes nothing for too long.
awaitable<bool> Connection::write(std::string_view bytes) {
  Failure failure;
  while (!bytes.empty() && !failure) {
    close_after(options_.write_timeout);
    bytes.remove_prefix(co_await transport_->write(net::buffer(bytes), failure));
  }
  write_limit_.cancel();
  co_return !failure;
}

/// Reads and forgets for a while: closing at once would reset the connection, and the client might never see
/// the reply.
awaitable<void> Connection::linger() {
  transport_->end_writing();
  discarding_ = true;
  const auto deadline = after(kLinger);
  while (!peer_gone_ && Clock::now() < deadline) co_await wait(deadline);
}

}  // namespace

struct HttpServer::State : HttpServing {
  using HttpServing::HttpServing;

  void start();
  awaitable<void> accept_all();
  void accept(Socket socket, Loop& loop);
  void accept_waiting();
  Loop& next_loop() { return *loops[loops_used++ % loops.size()]; }

  std::optional<net::ssl::context> tls;
  std::vector<std::unique_ptr<Loop>> loops;
  std::size_t loops_used = 0;
  std::optional<Acceptor> acceptor;  // on the first loop
};

void HttpServer::State::start() {
  if (!options.tls_certificate.empty()) {
    try {
      tls.emplace(net::ssl::context::tls_server);
      tls->set_options(net::ssl::context::no_tlsv1 | net::ssl::context::no_tlsv1_1);
      tls->use_certificate_chain_file(options.tls_certificate);
      tls->use_private_key_file(options.tls_key, net::ssl::context::pem);
    } catch (const boost::system::system_error& error) {
      fail(ErrorKind::invalid_argument, "TLS with ", options.tls_certificate, " and ", options.tls_key, ": ",
           error.what());
    }
  }
  for (int i = 0; i < std::max(1, options.threads); ++i) loops.push_back(std::make_unique<Loop>());
  acceptor.emplace(loops.front()->context, Protocol(listener.family(), 0), listener.release());
  acceptor->non_blocking(true);
  net::co_spawn(loops.front()->context, [this] { return accept_all(); }, net::detached);
  for (auto& loop : loops) loop->thread = std::thread([&context = loop->context] { context.run(); });
}

awaitable<void> HttpServer::State::accept_all() {
  net::steady_timer pause(loops.front()->context);
  while (acceptor->is_open()) {
    Loop& loop = next_loop();
    Socket socket(loop.context);
    Failure failure;
    co_await acceptor->async_accept(socket, returning(failure));
    if (!failure) {
      accept(std::move(socket), loop);
    } else if (acceptor->is_open()) {  // out of descriptors, most likely
      pause.expires_after(std::chrono::milliseconds(50));
      co_await pause.async_wait(returning(failure));
    }
  }
}

/// Those that the system has accepted. Without the option it would wait for another one after an aborted one.
void HttpServer::State::accept_waiting() {
  Failure failure;
  acceptor->set_option(net::socket_base::enable_connection_aborted(true), failure);
  while (acceptor->is_open() && (!failure || failure == net::error::connection_aborted)) {
    Loop& loop = next_loop();
    Socket socket(loop.context);
    acceptor->accept(socket, failure);
    if (!failure) accept(std::move(socket), loop);
  }
}

void HttpServer::State::accept(Socket socket, Loop& loop) {
  Failure ignored;
  if (connections >= options.most_connections) {
    const std::string bytes = whole_reply(busy_response("too many connections; try again", 1));
    socket.non_blocking(true, ignored);
    if (!tls) socket.send(net::buffer(bytes), 0, ignored);
    return;
  }
  socket.set_option(net::ip::tcp::no_delay(true), ignored);
  socket.set_option(net::socket_base::keep_alive(true), ignored);
  const auto unanswered_ms = static_cast<unsigned>(options.write_timeout.count());
  ::setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_USER_TIMEOUT, &unanswered_ms, sizeof unanswered_ms);
  auto transport = tls ? std::make_unique<TlsTransport>(std::move(socket), *tls)
                       : std::make_unique<Transport>(std::move(socket));
  const auto connection = std::make_shared<Connection>(*this, std::move(transport), loop);
  net::co_spawn(loop.context, [connection] { return connection->serve(); }, net::detached);
}

HttpServer::HttpServer(const HttpOptions& options, Workers& workers, HttpPolicy& policy,
                       std::shared_ptr<const HttpRouter> router)
    : state_(std::make_unique<State>(options, workers, policy, std::move(router))) {
  state_->start();
}

HttpServer::~HttpServer() {
  for (auto& loop : state_->loops) loop->context.stop();
  for (auto& loop : state_->loops) loop->thread.join();
  // From now on no route wakes a connection; the connections themselves go with the loops they wait on.
  for (const auto& reply : std::exchange(state_->replies, {})) reply->close();
  state_->acceptor.reset();
  state_->loops.clear();
}

void HttpServer::set_router(std::shared_ptr<const HttpRouter> router) {
  state_->replace_router(std::move(router));
}

std::string HttpServer::address() const {
  const std::string& name = state_->listener.name();
  if (name.starts_with("unix:")) return name;
  return (state_->tls ? "https://" : "http://") + name;
}

int HttpServer::port() const { return state_->listener.port(); }
std::size_t HttpServer::connections() const { return state_->connections; }

bool HttpServer::drain(std::chrono::milliseconds patience) {
  state_->draining = true;
  // Holds until all network threads have looked at what had come by now.
  auto claim = std::make_shared<DrainClaim>(*state_);
  net::post(state_->loops.front()->context, [state = state_.get(), claim = std::move(claim)] {
    state->accept_waiting();
    Failure ignored;
    state->acceptor->close(ignored);
    for (const auto& loop : state->loops) {
      net::post(loop->context, [&loop = *loop, claim] {
        const std::lock_guard lock(loop.mutex);
        for (Connection* connection : loop.connections) connection->claim_unread();
      });
    }
  });
  return state_->become_unclaimed(patience);
}

}  // namespace carat
