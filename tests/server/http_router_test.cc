#include "server/http_router.h"

#include <gtest/gtest.h>

namespace carat {
namespace {

HttpRouter router_of(std::initializer_list<std::pair<const char*, const char*>> routes) {
  HttpRouter router;
  for (const auto& [method, pattern] : routes)
    router.add(method, pattern, [](std::shared_ptr<const HttpRequest>, std::shared_ptr<HttpExchange>) {});
  return router;
}

TEST(HttpRouter, FindsRoutesByMethodAndPath) {
  const HttpRouter router = router_of({{"GET", "/health"}, {"POST", "/v1/completions"}});
  EXPECT_NE(router.find("GET", "/health").route, nullptr);
  EXPECT_NE(router.find("POST", "/v1/completions").route, nullptr);
  EXPECT_EQ(router.find("GET", "/healthy").route, nullptr);
  EXPECT_EQ(router.find("GET", "/").allow, "");
}

TEST(HttpRouter, NamesTheMethodsOfAPath) {
  const HttpRouter router = router_of({{"GET", "/a"}, {"POST", "/a"}, {"POST", "/b"}});
  EXPECT_EQ(router.find("DELETE", "/a").route, nullptr);
  EXPECT_EQ(router.find("DELETE", "/a").allow, "GET, POST, HEAD, OPTIONS");
  EXPECT_EQ(router.find("GET", "/b").allow, "POST, OPTIONS");
}

TEST(HttpRouter, AGetRouteAnswersHead) {
  const HttpRouter router = router_of({{"GET", "/a"}, {"POST", "/b"}});
  EXPECT_EQ(router.find("HEAD", "/a").route, router.find("GET", "/a").route);
  EXPECT_EQ(router.find("HEAD", "/b").route, nullptr);
}

TEST(HttpRouter, KeepsTheThreadOfARoute) {
  HttpRouter router = router_of({{"GET", "/a"}});
  router.add("GET", "/b", [](const auto&, const auto&) {}, RouteThread::network);
  EXPECT_EQ(router.find("GET", "/a").thread, RouteThread::worker);
  EXPECT_EQ(router.find("HEAD", "/b").thread, RouteThread::network);
}

TEST(HttpRouter, AWholePathGoesBeforeAPattern) {
  const HttpRouter router = router_of({{"GET", "/v1/models/*"}, {"POST", "/v1/models/load"}});
  EXPECT_NE(router.find("GET", "/v1/models/google/gemma").route, nullptr);
  EXPECT_EQ(router.find("GET", "/v1/models/load").route, nullptr);
  EXPECT_EQ(router.find("GET", "/v1/models/").route, nullptr);
  EXPECT_EQ(router.find("GET", "/v1/models").route, nullptr);
}

}  // namespace
}  // namespace carat
