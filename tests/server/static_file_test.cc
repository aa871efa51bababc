#include "server/static_file.h"

#include <gtest/gtest.h>

#include "server/recorded_exchange.h"

namespace carat {
namespace {

TEST(StaticFile, IsSentOnceAndThenOnlyConfirmed) {
  const HttpRoute route = static_file("<p>page</p>", "text/html");
  auto first = std::make_shared<HttpRequest>();
  auto exchange = std::make_shared<RecordedExchange>();
  route(first, exchange);
  const HttpResponse sent = exchange->reply();
  EXPECT_EQ(sent.body, "<p>page</p>");
  EXPECT_EQ(sent.content_type, "text/html");
  ASSERT_EQ(sent.headers.at(0).name, "etag");

  auto again = std::make_shared<HttpRequest>();
  again->headers.push_back({"If-None-Match", sent.headers.at(0).value});
  exchange = std::make_shared<RecordedExchange>();
  route(again, exchange);
  EXPECT_EQ(exchange->reply().status, 304);
  EXPECT_EQ(exchange->reply().body, "");
}

}  // namespace
}  // namespace carat
