// An HTTP server on a real socket with routes of our own.
#pragma once
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/http_client.h"
#include "server/http_error.h"
#include "server/http_server.h"
#include "support/comes_true.h"

namespace carat {

using namespace std::chrono_literals;

class OpenPolicy final : public HttpPolicy {
 public:
  std::optional<HttpResponse> refuse(const HttpRequest& head) override {
    if (head.path == "/hold-up") {
      held_up_ = true;
      until_.wait();
    }
    if (head.path != "/secret") return std::nullopt;
    return error_response({.status = 401, .message = "no"});
  }
  void complete(const HttpRequest&, HttpResponse& head) override {
    head.headers.push_back({"x-seen", "yes"});
  }
  void finished(const HttpRequest&, const HttpOutcome& outcome) override {
    const std::lock_guard lock(mutex_);
    outcomes_.push_back(outcome);
  }
  /// A request for /hold-up keeps its network thread until then.
  void hold_up(std::future<void> until) { until_ = std::move(until); }
  bool is_held_up() const { return held_up_; }
  std::vector<HttpOutcome> outcomes() const {
    const std::lock_guard lock(mutex_);
    return outcomes_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<HttpOutcome> outcomes_;
  std::future<void> until_;
  std::atomic<bool> held_up_{false};
};

inline const std::string kHead = "HTTP/1.1\r\nHost: x\r\n";

class HttpServerTest : public ::testing::Test {
 protected:
  using Request = std::shared_ptr<const HttpRequest>;
  using Exchange = std::shared_ptr<HttpExchange>;

  void start(HttpOptions options = {}) {
    options.port = 0;
    auto router = std::make_shared<HttpRouter>();
    router->add("POST", "/echo", [](const Request& request, const Exchange& exchange) {
      exchange->respond({.status = 200, .body = request->body, .content_type = "text/plain"});
    });
    router->add("GET", "/target", [](const Request& request, const Exchange& exchange) {
      exchange->respond({.status = 200, .body = request->path + "|" + request->query + "|" + request->id});
    });
    router->add("GET", "/stream", [](const Request&, const Exchange& exchange) {
      exchange->begin_stream({.status = 200, .body = "a", .content_type = "text/event-stream"});
      exchange->write("bc");
      exchange->end();
    });
    router->add("GET", "/silent", [](const Request&, const Exchange&) {});
    router->add("GET", "/throws", [](const Request&, const Exchange&) { throw std::runtime_error("inner"); });
    router->add("GET", "/held", [this](const Request&, const Exchange& exchange) {
      exchange->on_disconnect([this] { ++gone_; });
      const std::lock_guard lock(mutex_);
      held_.push_back(exchange);
    });
    server_ = std::make_unique<HttpServer>(options, workers_, policy_, std::move(router));
  }
  void TearDown() override {
    server_.reset();
    held_.clear();
  }

  int port() const { return server_->port(); }
  std::string get(const std::string& target, const std::string& headers = "") const {
    return reply_to_get(port(), target, headers);
  }
  /// Sends a request to /held; its exchange.
  Exchange hold(HttpClient& client) {
    const std::size_t before = held_count();
    client.send("GET /held " + kHead + "\r\n");
    EXPECT_TRUE(comes_true([&] { return held_count() > before; }));
    const std::lock_guard lock(mutex_);
    return held_.at(before);
  }
  std::size_t held_count() const {
    const std::lock_guard lock(mutex_);
    return held_.size();
  }
  void forget_held() {
    const std::lock_guard lock(mutex_);
    held_.clear();
  }

  OpenPolicy policy_;
  Workers workers_{2};
  std::atomic<int> gone_{0};
  mutable std::mutex mutex_;
  std::vector<Exchange> held_;
  std::unique_ptr<HttpServer> server_;
};

}  // namespace carat
