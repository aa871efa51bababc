#include "server/cors.h"

#include <gtest/gtest.h>

namespace carat {
namespace {

HttpRequest preflight_from(const std::string& origin) {
  HttpRequest request;
  request.method = "OPTIONS";
  request.headers = {{"Origin", origin},
                     {"Access-Control-Request-Method", "POST"},
                     {"Access-Control-Request-Headers", "x-own"}};
  return request;
}

std::string header(const HttpResponse& response, const std::string& name) {
  for (const HttpHeader& h : response.headers)
    if (h.name == name) return h.value;
  return {};
}

TEST(Cors, IsOffByDefault) {
  const Cors cors;
  EXPECT_FALSE(cors.answer_preflight(preflight_from("https://a.org")).has_value());
  HttpResponse reply;
  cors.complete(preflight_from("https://a.org"), reply);
  EXPECT_TRUE(reply.headers.empty());
}

TEST(Cors, AllowsTheNamedOriginsAlone) {
  const Cors cors({"https://a.org", "https://b.org"});
  const auto reply = cors.answer_preflight(preflight_from("https://b.org"));
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->status, 204);
  EXPECT_EQ(header(*reply, "access-control-allow-headers"), "x-own");
  EXPECT_FALSE(cors.answer_preflight(preflight_from("https://b.org.evil")).has_value());
  HttpResponse mine, theirs;
  cors.complete(preflight_from("https://a.org"), mine);
  cors.complete(preflight_from("https://c.org"), theirs);
  EXPECT_EQ(header(mine, "access-control-allow-origin"), "https://a.org");
  EXPECT_EQ(header(mine, "vary"), "Origin");
  EXPECT_EQ(header(theirs, "access-control-allow-origin"), "");
}

TEST(Cors, AStarAllowsAll) {
  EXPECT_TRUE(Cors({"*"}).answer_preflight(preflight_from("https://any.org")).has_value());
}

TEST(Cors, AnOrdinaryOptionsRequestIsNoPreflight) {
  HttpRequest request = preflight_from("https://a.org");
  request.headers.resize(1);
  EXPECT_FALSE(Cors({"*"}).answer_preflight(request).has_value());
}

}  // namespace
}  // namespace carat
