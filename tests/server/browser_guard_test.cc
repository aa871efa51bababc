#include "server/browser_guard.h"

#include <gtest/gtest.h>

namespace carat {
namespace {

HttpRequest request(std::vector<HttpHeader> headers) {
  HttpRequest request;
  request.headers = std::move(headers);
  return request;
}

TEST(BrowserGuard, LetsProgramsAndItsOwnPageIn) {
  const Cors cors;
  const BrowserGuard guard(cors, std::vector<std::string>());
  EXPECT_FALSE(guard.objection(request({{"host", "localhost:8080"}})));
  EXPECT_FALSE(guard.objection(request({{"host", "[::1]:8080"}})));
  EXPECT_FALSE(guard.objection(request(
      {{"host", "127.0.0.1:8080"}, {"origin", "http://127.0.0.1:8080"}, {"sec-fetch-site", "same-origin"}})));
  EXPECT_FALSE(guard.objection(request({{"host", "192.168.1.5"}, {"origin", "http://192.168.1.5"}})));
  EXPECT_FALSE(guard.objection(request({{"host", "localhost"}, {"sec-fetch-site", "none"}})));
}

TEST(BrowserGuard, RefusesPagesOfOtherOrigins) {
  const Cors cors;
  const BrowserGuard guard(cors, std::nullopt);
  EXPECT_TRUE(guard.objection(request({{"host", "localhost:8080"}, {"sec-fetch-site", "cross-site"}})));
  EXPECT_TRUE(guard.objection(request({{"host", "localhost:8080"}, {"sec-fetch-site", "same-site"}})));
  EXPECT_TRUE(guard.objection(request({{"host", "localhost:8080"}, {"origin", "http://localhost:3000"}})));
  EXPECT_TRUE(guard.objection(request({{"host", "localhost:8080"}, {"origin", "null"}})));
}

TEST(BrowserGuard, LetsAllowedOriginsIn) {
  const Cors cors({"https://chat.example.org"});
  const BrowserGuard guard(cors, std::nullopt);
  EXPECT_FALSE(guard.objection(
      request({{"host", "a"}, {"origin", "https://chat.example.org"}, {"sec-fetch-site", "cross-site"}})));
  EXPECT_TRUE(guard.objection(
      request({{"host", "a"}, {"origin", "https://example.org"}, {"sec-fetch-site", "cross-site"}})));
}

TEST(BrowserGuard, KnowsItsNames) {
  const Cors cors;
  const BrowserGuard guard(cors, std::vector<std::string>{"Gemma.example.org"});
  EXPECT_FALSE(guard.objection(request({{"host", "gemma.example.org:443"}})));
  EXPECT_FALSE(guard.objection(request({{"host", "app.localhost"}})));
  for (const char* host : {"evil.example.org", "localhost.example.org", "127.0.0.1.example.org", "1.example"})
    EXPECT_TRUE(guard.objection(request({{"host", host}}))) << host;
}

TEST(BrowserGuard, LoopbackIsThisMachineAlone) {
  for (const char* address : {"127.0.0.1", "127.1.2.3", "::1", "localhost"})
    EXPECT_TRUE(is_loopback(address));
  for (const char* address : {"0.0.0.0", "::", "10.0.0.1", "unix:/tmp/s"}) EXPECT_FALSE(is_loopback(address));
}

}  // namespace
}  // namespace carat
