#include "server/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "server/http_server_fixture.h"

namespace carat {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST_F(HttpServerTest, TurnsConnectionsAwayBeyondTheLimit) {
  HttpOptions options;
  options.most_connections = 2;
  start(options);
  HttpClient first(port()), second(port());
  ASSERT_TRUE(comes_true([&] { return server_->connections() == 2; }));
  EXPECT_THAT(HttpClient(port()).receive_all(), StartsWith("HTTP/1.1 503 "));
  first.close();
  ASSERT_TRUE(comes_true([&] { return server_->connections() == 1; }));
  EXPECT_THAT(get("/target"), StartsWith("HTTP/1.1 200 "));
}

TEST_F(HttpServerTest, DrainLetsRepliesFinishAndTakesNoNewConnections) {
  start();
  HttpClient client(port());
  const Exchange exchange = hold(client);
  exchange->begin_stream({.body = "part"});
  EXPECT_FALSE(server_->drain(20ms));
  EXPECT_THROW(HttpClient{port()}, std::runtime_error);
  auto drained = std::async(std::launch::async, [&] { return server_->drain(20s); });
  exchange->write("rest");
  exchange->end();
  EXPECT_TRUE(drained.get());
  EXPECT_TRUE(client.receive_until("rest\r\n0\r\n\r\n"));
}

TEST_F(HttpServerTest, DrainWaitsForARequestThatIsHalfThere) {
  start();
  HttpClient client(port());
  client.send("GET /target " + kHead + "\r\nGET /tar");
  ASSERT_NE(client.receive_reply(), "");
  EXPECT_FALSE(server_->drain(20ms));
  auto drained = std::async(std::launch::async, [&] { return server_->drain(20s); });
  client.send("get " + kHead + "\r\n");
  EXPECT_THAT(client.receive_all(), HasSubstr("/target|"));
  EXPECT_TRUE(drained.get());
}

TEST_F(HttpServerTest, DrainDoesNotWaitForClientsThatAskNothing) {
  start();
  HttpClient silent(port()), idle(port());
  idle.send("GET /target " + kHead + "\r\n");
  ASSERT_NE(idle.receive_reply(), "");
  EXPECT_TRUE(server_->drain(HttpOptions().header_timeout / 2));
}

TEST_F(HttpServerTest, DrainServesWhatTheNetworkThreadHasNotSeenYet) {
  start();
  std::promise<void> open;
  policy_.hold_up(open.get_future());
  HttpClient first(port());
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int i = 0; i < 50; ++i) {
    clients.push_back(std::make_unique<HttpClient>(port()));
    clients.back()->send("GET /target " + kHead + "\r\n");
    ASSERT_NE(clients.back()->receive_reply(), "");
  }
  first.send("GET /hold-up " + kHead + "\r\n");
  ASSERT_TRUE(comes_true([&] { return policy_.is_held_up(); }));
  for (const auto& client : clients) client->send("GET /target " + kHead + "\r\n");
  // The only network thread can't accept more, nor read.
  for (int i = 0; i < 50; ++i) {
    clients.push_back(std::make_unique<HttpClient>(port()));
    clients.back()->send("GET /target " + kHead + "\r\n");
  }
  auto ended = std::async(std::launch::async, [&] {
    EXPECT_TRUE(server_->drain(20s));
    server_.reset();
  });
  open.set_value();
  ended.get();
  for (const auto& client : clients) EXPECT_THAT(client->receive_all(), HasSubstr("/target|"));
}

TEST_F(HttpServerTest, ExchangesMayOutliveTheServer) {
  start();
  HttpClient client(port());
  const Exchange exchange = hold(client);
  exchange->begin_stream({.body = "part"});
  server_.reset();
  EXPECT_EQ(gone_, 1);
  exchange->write("more");
  exchange->end();
}

TEST_F(HttpServerTest, ListensOnAPath) {
  const std::string path = ::testing::TempDir() + "carat-http-" + std::to_string(::getpid());
  HttpOptions options;
  options.host = "unix:" + path;
  start(options);
  EXPECT_EQ(server_->address(), "unix:" + path);
  EXPECT_THROW(HttpServer(options, workers_, policy_, std::make_shared<HttpRouter>()), std::exception);
  server_.reset();
  EXPECT_FALSE(std::filesystem::exists(path));
}

std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

TEST_F(HttpServerTest, AThousandResetsLeaveNothingBehind) {
  start();
  const std::size_t before = open_descriptors();
  for (int i = 0; i < 1000; ++i) {
    HttpClient client(port());
    const Exchange exchange = hold(client);
    if (i % 3 == 0) exchange->begin_stream({.body = "part"});
    forget_held();
    client.reset();
  }
  EXPECT_TRUE(comes_true([&] { return server_->connections() == 0; }));
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(HttpServerTest, ManyConnectionsStreamAtOnce) {
  start();
  std::vector<std::unique_ptr<HttpClient>> clients;
  std::vector<Exchange> exchanges;
  for (int i = 0; i < 400; ++i) {
    clients.push_back(std::make_unique<HttpClient>(port()));
    exchanges.push_back(hold(*clients.back()));
  }
  for (const Exchange& exchange : exchanges) exchange->begin_stream({});
  for (int event = 0; event < 5; ++event)
    for (const Exchange& exchange : exchanges) exchange->write("event");
  for (const Exchange& exchange : exchanges) exchange->end();
  for (const auto& client : clients) EXPECT_TRUE(client->receive_until("event\r\n0\r\n\r\n"));
}

TEST_F(HttpServerTest, SurvivesBytesThatAreNoHttp) {
  start();
  uint32_t state = 1;
  for (int i = 0; i < 300; ++i) {
    std::string bytes = i % 2 ? "POST /echo " + kHead + "Transfer-Encoding: chunked\r\n" : "";
    for (int n = 0; n < 200; ++n) bytes += static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
    HttpClient client(port());
    client.send(bytes + "\r\n\r\n");
    if (i % 5 == 0) client.reset();
  }
  EXPECT_THAT(get("/target"), StartsWith("HTTP/1.1 200 "));
}

}  // namespace
}  // namespace carat
