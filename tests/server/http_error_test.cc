#include "server/http_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "server/api_error.h"

namespace carat {
namespace {

using ::testing::HasSubstr;

TEST(HttpError, HasTheFourFieldsOfOpenAi) {
  const HttpResponse response = error_response(
      {.status = 404, .message = "no model \"x\"", .param = "model", .code = "model_not_found"});
  EXPECT_EQ(response.status, 404);
  EXPECT_EQ(response.content_type, "application/json");
  EXPECT_EQ(response.body, R"({"error":{"message":"no model \"x\"","type":"invalid_request_error",)"
                           R"("param":"model","code":"model_not_found"}})");
}

TEST(HttpError, OfOneStatusHaveOneTypeWhereverTheyComeFrom) {
  for (const int status : {400, 401, 403, 404, 413, 415, 500, 503, 504}) {
    const ApiError error(status, "", "", "m");
    EXPECT_EQ(openai_error_json(error), error_body({.status = status, .message = "m"})) << status;
    EXPECT_EQ(anthropic_error_json(error),
              error_body({.status = status, .message = "m"}, ErrorShape::anthropic));
  }
  const ApiError full = to_api_error(Error(ErrorKind::unavailable, "full"));
  EXPECT_EQ(full.status, 503);
  EXPECT_THAT(openai_error_json(full), HasSubstr(R"("type":"server_error")"));
  EXPECT_THAT(busy_response("full", 1).body, HasSubstr(R"("type":"server_error")"));
}

TEST(HttpError, WhatIsNotKnownIsNull) {
  EXPECT_EQ(error_body({.status = 400, .message = "m"}),
            R"({"error":{"message":"m","type":"invalid_request_error","param":null,"code":null}})");
}

TEST(HttpError, AMessageMayHoldAnyBytes) {
  const auto body = nlohmann::json::parse(error_body({.message = "caf\xe9 \x01"}));
  EXPECT_EQ(body["error"]["message"], "caf\xef\xbf\xbd \x01");
}

TEST(HttpError, BusySaysWhenToComeBack) {
  const HttpResponse response = busy_response("full", 2);
  EXPECT_EQ(response.status, 503);
  ASSERT_EQ(response.headers.size(), 1u);
  EXPECT_EQ(response.headers[0].name, "retry-after");
  EXPECT_EQ(response.headers[0].value, "2");
}

}  // namespace
}  // namespace carat
