// What one client sees of the server: requests, replies, streams and timeouts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "server/http_server_fixture.h"

namespace carat {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST_F(HttpServerTest, AnswersWithLengthAndHeaders) {
  start();
  const std::string reply =
      reply_to(port(), "POST /echo " + kHead + "Connection: close\r\nContent-Length: 5\r\n\r\nhello");
  EXPECT_THAT(reply, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(reply, HasSubstr("content-length: 5\r\n"));
  EXPECT_THAT(reply, HasSubstr("connection: close\r\n"));
  EXPECT_THAT(reply, HasSubstr("x-seen: yes\r\n"));
  EXPECT_THAT(reply, EndsWith("\r\n\r\nhello"));
}

TEST_F(HttpServerTest, ServesPipelinedRequestsInOrderOnOneConnection) {
  start();
  HttpClient client(port());
  std::string requests;
  for (const char* body : {"one", "two", "six"})
    requests += "POST /echo " + kHead + "Content-Length: 3\r\n\r\n" + body;
  client.send(requests);
  for (const char* body : {"one", "two", "six"}) EXPECT_THAT(client.receive_reply(), EndsWith(body));
}

TEST_F(HttpServerTest, ReadsOnAfterUsingUpAllThatWasSentAhead) {
  start();
  HttpClient client(port()), other(port());
  const Exchange exchange = hold(client);
  // As many bytes as the server reads ahead.
  const std::size_t most = (64u << 10) + HttpOptions().most_header_bytes;
  std::string ahead = "POST /echo " + kHead + "Content-Length: 100000\r\nPadding: ";
  ahead += std::string(most - 100'000 - ahead.size() - 4, 'x') + "\r\n\r\n" + std::string(100'000, 'y');
  client.send(ahead);
  for (int i = 0; i < 100; ++i) {  // by then it has read them
    other.send("GET /target " + kHead + "\r\n");
    EXPECT_NE(other.receive_reply(), "");
  }
  exchange->respond({});
  EXPECT_THAT(client.receive_reply(), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(client.receive_reply(), EndsWith("yyy"));
  client.send("GET /target " + kHead + "\r\n");
  EXPECT_THAT(client.receive_reply(), HasSubstr("/target|"));
}

TEST_F(HttpServerTest, TakesRequestsByteByByteAndChunkedBodies) {
  start();
  HttpClient client(port());
  for (const char c :
       "POST /echo " + kHead + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\n\r\n")
    client.send({&c, 1});
  EXPECT_THAT(client.receive_reply(), EndsWith("\r\n\r\nabcdefg"));
}

TEST_F(HttpServerTest, StreamsInChunks) {
  start();
  const std::string reply = get("/stream");
  EXPECT_THAT(reply, HasSubstr("transfer-encoding: chunked\r\n"));
  EXPECT_THAT(reply, Not(HasSubstr("content-length")));
  EXPECT_THAT(reply, EndsWith("0\r\n\r\n"));
}

TEST_F(HttpServerTest, StreamsToOldClientsUntilTheConnectionEnds) {
  start();
  const std::string reply = reply_to(port(), "GET /stream HTTP/1.0\r\n\r\n");
  EXPECT_THAT(reply, Not(HasSubstr("chunked")));
  EXPECT_THAT(reply, EndsWith("\r\n\r\nabc"));
}

TEST_F(HttpServerTest, HeadHasTheHeadOfGetAndNoBody) {
  start();
  HttpClient client(port());
  client.send("HEAD /target " + kHead + "\r\nHEAD /stream " + kHead + "\r\nGET /target " + kHead +
              "Connection: close\r\n\r\n");
  const std::string replies = client.receive_all();
  EXPECT_THAT(replies, HasSubstr("transfer-encoding: chunked\r\n"));
  EXPECT_THAT(replies, Not(HasSubstr("\r\n\r\n3\r\n")));
  EXPECT_EQ(replies.find("/target|"), replies.rfind("/target|"));
  EXPECT_THAT(replies, HasSubstr("/target|"));
}

TEST_F(HttpServerTest, SplitsAndDecodesTheTarget) {
  start();
  EXPECT_THAT(get("/%74arget?a=%20b#c"), HasSubstr("/target|a=%20b|req_"));
  EXPECT_THAT(get("http://example.org/target?q"), HasSubstr("/target|q|"));
  for (const char* bad : {"/%zz", "/%0", "/%00", "target", "*"})
    EXPECT_THAT(get(bad), StartsWith("HTTP/1.1 400 ")) << bad;
}

TEST_F(HttpServerTest, KeepsSaneRequestIdsAndReplacesOthers) {
  start();
  EXPECT_THAT(get("/target", "X-Request-Id: my-id.7\r\n"), HasSubstr("x-request-id: my-id.7\r\n"));
  EXPECT_THAT(get("/target", "X-Request-Id: a b\"<\r\n"), HasSubstr("x-request-id: req_"));
}

TEST_F(HttpServerTest, SaysWhatIsWrongInOpenAisBody) {
  start();
  const auto expect = [&](const std::string& request, const std::string& status) {
    const std::string reply = reply_to(port(), request);
    EXPECT_THAT(reply, StartsWith("HTTP/1.1 " + status)) << request;
    EXPECT_THAT(reply, HasSubstr("{\"error\":{\"message\":\"")) << request;
    EXPECT_THAT(reply, HasSubstr("x-request-id: ")) << request;
  };
  expect("GET /nowhere HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "404");
  expect("DELETE /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "405");
  expect("nonsense\r\n\r\n", "400");
  expect("GET /target HTTP/1.1\r\n\r\n", "400");  // no Host
  expect("GET /target HTTP/2.0\r\nHost: x\r\n\r\n", "505");
  expect("POST /echo " + kHead + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc", "400");
  expect("POST /echo " + kHead + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400");
  expect("POST /echo " + kHead + "Content-Length: -1\r\n\r\n", "400");
  expect("POST /echo " + kHead + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", "400");
  expect("POST /echo " + kHead + "Expect: magic\r\nContent-Length: 1\r\n\r\na", "417");
  expect("GET /" + std::string(100'000, 'a') + " " + kHead + "\r\n", "414");
  expect("GET /target " + kHead + "A: " + std::string(100'000, 'a') + "\r\n\r\n", "431");
  expect("GET /silent " + kHead + "Connection: close\r\n\r\n", "500");
  expect("GET /throws " + kHead + "Connection: close\r\n\r\n", "500");
  EXPECT_THAT(get("/throws"), Not(HasSubstr("inner")));
  EXPECT_THAT(get("/echo"), HasSubstr("allow: POST, OPTIONS\r\n"));
}

TEST_F(HttpServerTest, OptionsNamesTheMethods) {
  start();
  const std::string reply = reply_to(port(), "OPTIONS /target " + kHead + "Connection: close\r\n\r\n");
  EXPECT_THAT(reply, StartsWith("HTTP/1.1 204 "));
  EXPECT_THAT(reply, HasSubstr("allow: GET, HEAD, OPTIONS\r\n"));
}

TEST_F(HttpServerTest, AsksForTheBodyOnlyWhenItWantsIt) {
  start();
  HttpClient client(port());
  client.send("POST /echo " + kHead + "Expect: 100-continue\r\nContent-Length: 3\r\n\r\n");
  ASSERT_TRUE(client.receive_until("HTTP/1.1 100 Continue\r\n\r\n"));
  client.send("abc");
  EXPECT_TRUE(client.receive_until("\r\n\r\nabc"));
  const std::string refused =
      reply_to(port(), "POST /secret " + kHead + "Expect: 100-continue\r\nContent-Length: 3\r\n\r\n");
  EXPECT_THAT(refused, StartsWith("HTTP/1.1 401 "));
}

TEST_F(HttpServerTest, RefusesALargeBodyWithoutReadingIt) {
  start();
  HttpClient client(port());
  client.send("POST /echo " + kHead + "Content-Length: 104857600\r\n\r\n");
  const std::string piece(1 << 20, 'x');
  for (int i = 0; i < 100 && client.send(piece); ++i) {
  }
  EXPECT_THAT(client.receive_reply(), StartsWith("HTTP/1.1 413 "));
  HttpOptions small;
  small.most_body_bytes = 1000;
  start(small);
  const std::string chunked = "POST /echo " + kHead + "Transfer-Encoding: chunked\r\n\r\n400\r\n";
  EXPECT_THAT(reply_to(port(), chunked + std::string(1024, 'x') + "\r\n0\r\n\r\n"),
              StartsWith("HTTP/1.1 413 "));
}

TEST_F(HttpServerTest, ARefusalWithTheWholeBodyThereKeepsTheConnection) {
  start();
  HttpClient client(port());
  client.send("POST /nowhere " + kHead + "Content-Length: 3\r\n\r\nabcPOST /echo " + kHead +
              "Content-Length: 2\r\n\r\nok");
  EXPECT_THAT(client.receive_reply(), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(client.receive_reply(), EndsWith("ok"));
}

TEST_F(HttpServerTest, SlowHeadsAndBodiesEndWith408) {
  HttpOptions options;
  options.header_timeout = options.body_timeout = 1s;
  start(options);
  EXPECT_THAT(reply_to(port(), "GET /targ"), StartsWith("HTTP/1.1 408 "));
  EXPECT_THAT(reply_to(port(), "POST /echo " + kHead + "Content-Length: 9\r\n\r\nabc"),
              StartsWith("HTTP/1.1 408 "));
  for (const char* nothing : {"", "\r\n"})  // one that says nothing hears nothing
    EXPECT_EQ(reply_to(port(), nothing), "");
}

TEST_F(HttpServerTest, IdleConnectionsEnd) {
  HttpOptions options;
  options.idle_timeout = 100ms;
  start(options);
  HttpClient client(port());
  client.send("GET /target " + kHead + "\r\n");
  EXPECT_NE(client.receive_reply(), "");
  EXPECT_EQ(client.receive_all(), "");
}

TEST_F(HttpServerTest, TellsTheRouteWhenTheClientLeaves) {
  start();
  for (const bool reset : {false, true}) {
    const int before = gone_;
    HttpClient client(port());
    const Exchange exchange = hold(client);
    reset ? client.reset() : client.close();
    EXPECT_TRUE(comes_true([&] { return gone_ == before + 1; }));
    bool late = false;
    exchange->on_disconnect([&] { late = true; });
    EXPECT_TRUE(late);
    exchange->respond({.body = "nobody hears this"});
  }
}

TEST_F(HttpServerTest, AnAbortedStreamIsNotWhole) {
  start();
  HttpClient client(port());
  const Exchange exchange = hold(client);
  exchange->begin_stream({.body = "part"});
  ASSERT_TRUE(client.receive_until("part"));
  exchange->abort();
  EXPECT_THAT(client.receive_all(), Not(HasSubstr("\r\n0\r\n")));
  ASSERT_TRUE(comes_true([&] { return !policy_.outcomes().empty(); }));
  EXPECT_FALSE(policy_.outcomes().back().whole);
  EXPECT_EQ(gone_, 0);
}

TEST_F(HttpServerTest, WhatWasWrittenBeforeAnAbortArrives) {
  start();
  for (int i = 0; i < 20; ++i) {
    HttpClient client(port());
    const Exchange exchange = hold(client);
    exchange->begin_stream({});
    exchange->write("last words");
    exchange->abort();
    EXPECT_THAT(client.receive_all(), EndsWith("\r\na\r\nlast words\r\n"));
  }
}

TEST_F(HttpServerTest, PingsStreamsThatAreSilent) {
  HttpOptions options;
  options.ping_interval = 20ms;
  start(options);
  HttpClient client(port());
  hold(client)->begin_stream({.status = 200, .body = {}, .headers = {}, .ping = ": ping\n\n"});
  EXPECT_TRUE(client.receive_until(": ping\n\n\r\n8\r\n: ping\n\n"));
}

TEST_F(HttpServerTest, DropsAClientThatReadsTooSlowly) {
  HttpOptions options;
  options.most_unsent_bytes = 1 << 20;
  start(options);
  HttpClient client(port());
  const Exchange exchange = hold(client);
  exchange->begin_stream({});
  const std::string piece(64 << 10, 'x');
  EXPECT_TRUE(comes_true([&] {
    exchange->write(piece);
    return gone_ == 1;
  }));
  EXPECT_EQ(exchange->unsent_bytes(), 0u);
}

TEST_F(HttpServerTest, DropsAClientThatReadsNothing) {
  HttpOptions options;
  options.write_timeout = 100ms;
  start(options);
  HttpClient client(port());
  hold(client)->respond({.status = 200, .body = std::string(64 << 20, 'x')});
  EXPECT_TRUE(comes_true([&] { return server_->connections() == 0; }));
}

TEST_F(HttpServerTest, RepliesThatTakeTooLongEnd) {
  HttpOptions options;
  options.request_timeout = 1s;
  start(options);
  EXPECT_THAT(get("/held"), StartsWith("HTTP/1.1 504 "));
  EXPECT_EQ(gone_, 1);
  HttpClient client(port());
  hold(client)->begin_stream({.body = "data: x\n\n", .failure = [](const HttpError& error) {
                                return "error " + std::to_string(error.status);
                              }});
  EXPECT_THAT(client.receive_all(), EndsWith("\r\nerror 504\r\n"));
  EXPECT_EQ(gone_, 2);
}

}  // namespace
}  // namespace carat
