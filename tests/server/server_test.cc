// The whole server on a socket, with the demo model.
#include "server/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "server/demo_api.h"
#include "server/http_client.h"
#include "support/comes_true.h"

namespace carat {
namespace {

using namespace std::chrono_literals;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class ServerTest : public ::testing::Test {
 protected:
  void start(ServerOptions options = {}) {
    options.http.port = 0;
    server_ = std::make_unique<Server>(options, log_);
  }
  void load(EngineOptions options = demo_options()) {
    model_ = load_demo_model(std::move(options));
    server_->set_model(model_);
  }

  std::string get(const std::string& path, const std::string& headers = "") const {
    return reply_to_get(server_->port(), path, headers);
  }
  /// A request whose reply goes on until the context is full.
  static std::string long_request() {
    const std::string body = R"({"prompt": "Once", "max_tokens": 500, "ignore_eos": true, "stream": true})";
    return "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
           "application/json\r\nContent-Length: " +
           std::to_string(body.size()) + "\r\n\r\n" + body;
  }
  /// Whether the engine comes to hold so many replies.
  bool comes_to(int running, int waiting) const {
    return comes_true([&] {
      const EngineStats stats = model_->engine->stats();
      return stats.running == running && stats.waiting == waiting;
    });
  }

  AccessLog log_{LogLevel::quiet, false, [](const std::string&) {}};
  std::unique_ptr<Server> server_;
  std::shared_ptr<ServedModel> model_;
};

TEST_F(ServerTest, SaysThatItIsLoadingThenServes) {
  start();
  EXPECT_THAT(get("/health"), StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(get("/v1/models"), HasSubstr("the model is being loaded"));
  EXPECT_THAT(get("/v1/models"), HasSubstr("retry-after: "));
  EXPECT_THAT(get("/version"), HasSubstr(R"({"version":")"));
  EXPECT_THAT(get("/metrics"), StartsWith("HTTP/1.1 200 "));
  load();
  EXPECT_THAT(get("/health"), EndsWith(R"({"status":"ok"})"));
  EXPECT_THAT(get("/v1/models"), HasSubstr(R"("id":"demo")"));
}

TEST_F(ServerTest, KeysProtectEverythingButHealth) {
  ServerOptions options;
  options.api_keys = {"secret"};
  start(options);
  load();
  EXPECT_THAT(get("/health"), StartsWith("HTTP/1.1 200 "));
  for (const char* path : {"/v1/models", "/metrics", "/version", "/generate?prompt=a", "/nowhere", "/"}) {
    EXPECT_THAT(get(path), StartsWith("HTTP/1.1 401 ")) << path;
    const std::string scheme = path == std::string("/") ? "Basic realm=" : "Bearer\r\n";
    EXPECT_THAT(get(path), HasSubstr("www-authenticate: " + scheme)) << path;
    EXPECT_THAT(get(path, "Authorization: Bearer secret\r\n"), Not(StartsWith("HTTP/1.1 401 "))) << path;
  }
  EXPECT_THAT(get("/version", "x-api-key: secret\r\n"), StartsWith("HTTP/1.1 200 "));
}

TEST_F(ServerTest, EveryRefusalHasTheShapeOfItsApi) {
  ServerOptions options;
  options.api_keys = {"secret"};
  options.http.most_body_bytes = 10;
  start(options);
  const std::string key = "x-api-key: secret\r\n", large = "Content-Length: 11\r\n\r\n";
  const auto ask = [&](const std::string& method, const std::string& path, const std::string& rest) {
    return reply_to(server_->port(), method + " " + path + " HTTP/1.1\r\nHost: localhost\r\n" + rest);
  };
  const auto expect = [&](const std::string& request, const std::string& path, const std::string& rest,
                          const std::string& status, const std::string& type) {
    const std::string messages = ask(request, "/v1/messages" + path, rest);
    EXPECT_THAT(messages, StartsWith("HTTP/1.1 " + status)) << rest;
    EXPECT_THAT(messages, HasSubstr(R"({"type":"error","error":{"type":")" + type)) << rest;
    EXPECT_THAT(ask(request, "/v1/responses" + path, rest), HasSubstr(R"({"error":{"message":")")) << rest;
  };
  const std::string end = "Connection: close\r\n\r\n";
  expect("POST", "", end, "401", "authentication_error");
  expect("POST", "", "Sec-Fetch-Site: cross-site\r\n" + end, "403", "permission_error");
  expect("POST", "", key + end, "503", "overloaded_error");  // the model is being loaded
  load();
  expect("GET", "", key + end, "405", "invalid_request_error");
  expect("POST", "/nowhere", key + end, "404", "not_found_error");
  expect("POST", "", key + large, "413", "request_too_large");
  expect("POST", "/count_tokens", key + "Content-Length: x\r\n\r\n", "400", "invalid_request_error");
}

TEST_F(ServerTest, PagesElsewhereCanOnlyOpenTheChat) {
  start();
  load();
  const std::string elsewhere = "Sec-Fetch-Site: cross-site\r\n";
  for (const char* path : {"/generate?prompt=a", "/v1/models", "/metrics", "/nowhere"})
    EXPECT_THAT(get(path, elsewhere), StartsWith("HTTP/1.1 403 ")) << path;
  EXPECT_THAT(get("/", elsewhere), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(get("/v1/models", "Sec-Fetch-Site: same-origin\r\n"), StartsWith("HTTP/1.1 200 "));
}

TEST_F(ServerTest, WithoutKeysALocalServerHasOnlyLocalNames) {
  start();
  const auto version_at = [&](const std::string& host) {
    return reply_to(server_->port(),
                    "GET /version HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n");
  };
  EXPECT_THAT(version_at("rebound.example.org"), StartsWith("HTTP/1.1 403 "));
  EXPECT_THAT(version_at("localhost:1"), StartsWith("HTTP/1.1 200 "));
}

TEST_F(ServerTest, GenerateStreamsPlainText) {
  start();
  load();
  const std::string reply = get("/generate?prompt=Once%20upon&max_tokens=8&temperature=0");
  EXPECT_THAT(reply, HasSubstr("transfer-encoding: chunked\r\n"));
  EXPECT_THAT(reply, HasSubstr("content-type: text/plain"));
  EXPECT_THAT(reply, EndsWith("\r\n0\r\n\r\n"));
  const std::string metrics = get("/metrics");
  EXPECT_THAT(metrics, HasSubstr("carat:generation_tokens_total{model_name=\"demo\"} 8\n"));
  EXPECT_THAT(metrics,
              HasSubstr("carat:request_success_total{model_name=\"demo\",finished_reason=\"length\"} 1\n"));
  EXPECT_THAT(metrics, HasSubstr("carat:time_to_first_token_seconds_count{model_name=\"demo\"} 1\n"));
}

TEST_F(ServerTest, PagesOfAllowedOriginsMayCall) {
  ServerOptions options;
  options.cors_origins = {"https://a.org"};
  options.api_keys = {"secret"};
  start(options);
  const std::string asked = reply_to(server_->port(),
                                     "OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: "
                                     "localhost\r\nConnection: close\r\nOrigin: https://a.org\r\n"
                                     "Access-Control-Request-Method: POST\r\n\r\n");
  EXPECT_THAT(asked, StartsWith("HTTP/1.1 204 "));
  EXPECT_THAT(asked, HasSubstr("access-control-allow-origin: https://a.org\r\n"));
  EXPECT_THAT(get("/v1/models", "Origin: https://a.org\r\n"), HasSubstr("access-control-allow-origin: "));
}

TEST_F(ServerTest, ClientsThatLeaveFreeTheirPlaces) {
  start();
  load();
  for (int round = 0; round < 20; ++round) {
    std::vector<std::unique_ptr<HttpClient>> clients;
    for (int i = 0; i < 12; ++i) {  // 8 run, 4 wait
      clients.push_back(std::make_unique<HttpClient>(server_->port()));
      clients.back()->send(long_request());
    }
    ASSERT_TRUE(clients.front()->receive_until("data: "));
    for (const auto& client : clients) client->reset();
    ASSERT_TRUE(comes_to(0, 0));
  }
  EXPECT_THAT(get("/metrics"), HasSubstr("carat:kv_cache_usage_perc{model_name=\"demo\"} 0\n"));
  EXPECT_THAT(get("/generate?prompt=a&max_tokens=2"), StartsWith("HTTP/1.1 200 "));
}

TEST_F(ServerTest, SaysHowItIsWhileAllWorkersAreBusy) {
  ServerOptions options;
  options.workers = 1;
  start(options);
  load();
  std::promise<void> end;
  model_->post([until = end.get_future().share()] { until.wait(); });
  HttpClient waiting(server_->port());
  waiting.send("GET /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  for (const char* path : {"/health", "/metrics", "/version", "/"})
    EXPECT_THAT(get(path), StartsWith("HTTP/1.1 200 ")) << path;
  EXPECT_FALSE(waiting.receive(0ms));
  end.set_value();
  EXPECT_THAT(waiting.receive_all(), StartsWith("HTTP/1.1 200 "));
}

TEST_F(ServerTest, AFullQueueIsSaidAtOnce) {
  start();
  EngineOptions options = demo_options();
  options.max_waiting = 1;
  load(options);
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int i = 0; i < 9; ++i) {
    clients.push_back(std::make_unique<HttpClient>(server_->port()));
    clients.back()->send(long_request());
  }
  ASSERT_TRUE(comes_to(8, 1));
  HttpClient late(server_->port());
  late.send(long_request());
  const std::string reply = late.receive_reply();
  EXPECT_THAT(reply, StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(reply, HasSubstr("retry-after: "));
}

TEST_F(ServerTest, DrainFinishesRepliesAndServesWhatComesOnOpenConnections) {
  start();
  load();
  HttpClient streaming(server_->port()), waiting(server_->port()), patient(server_->port());
  HttpClient slow(server_->port()), late(server_->port());
  slow.send("GET /v1/models HTTP/1.1\r\nHo");
  streaming.send(long_request());
  ASSERT_TRUE(streaming.receive_until("data: "));
  auto drained = std::async(std::launch::async, [&] { return server_->drain(60s); });
  const std::string ask = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
  std::string reply;
  while (reply.find("connection: close\r\n") == reply.npos) {
    waiting.send(ask);
    reply = waiting.receive_reply();
    ASSERT_NE(reply, "");
  }
  if (reply.starts_with("HTTP/1.1 200 ")) {  // found out just before, sent just after drain() had begun
    patient.send(ask);
    reply = patient.receive_reply();
  }
  EXPECT_THAT(reply, StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(reply, HasSubstr("the server is shutting down"));
  slow.send("st: localhost\r\n\r\n");
  EXPECT_THAT(slow.receive_all(), StartsWith("HTTP/1.1 200 "));
  late.send("GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(late.receive_all(), StartsWith("HTTP/1.1 200 "));
  EXPECT_TRUE(streaming.receive_until("data: [DONE]\n\n"));
  EXPECT_TRUE(drained.get());
}

TEST_F(ServerTest, EndsWhileRepliesAreUnderWay) {
  start();
  load();
  HttpClient client(server_->port());
  client.send(long_request());
  ASSERT_TRUE(client.receive_until("data: "));
  EXPECT_FALSE(server_->drain(0ms));
  server_.reset();
  EXPECT_THAT(client.receive_all(), Not(HasSubstr("[DONE]")));
}

}  // namespace
}  // namespace carat
