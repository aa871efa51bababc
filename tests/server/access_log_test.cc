#include "server/access_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace carat {
namespace {

using ::testing::HasSubstr;

std::string line_of(LogLevel level, bool json, const HttpRequest& request, int status) {
  std::string line;
  const AccessLog log(level, json, [&](const std::string& text) { line = text; });
  log.request(request, {.status = status, .whole = false, .body_bytes = 12, .seconds = 0.5});
  return line;
}

HttpRequest request_for(const std::string& path) {
  HttpRequest request;
  request.method = "POST";
  request.path = path;
  request.id = "id-7";
  request.headers = {{"Traceparent", "00-ab-cd-01"}};
  return request;
}

TEST(AccessLog, JsonHasTheRequestIdAndTheTrace) {
  const auto line = nlohmann::json::parse(line_of(LogLevel::info, true, request_for("/v1/x"), 200));
  EXPECT_EQ(line["id"], "id-7");
  EXPECT_EQ(line["traceparent"], "00-ab-cd-01");
  EXPECT_EQ(line["status"], 200);
  EXPECT_EQ(line["bytes"], 12);
  EXPECT_EQ(line["whole"], false);
  EXPECT_EQ(line["level"], "info");
}

TEST(AccessLog, WhatAClientSendsStaysOnOneLine) {
  EXPECT_THAT(line_of(LogLevel::info, false, request_for("/a\n2026 forged\x1b[2J"), 404),
              HasSubstr("/a\\x0a2026 forged\\x1b[2J 404"));
}

TEST(AccessLog, ProbesAndTheLevelDecideWhatIsSaid) {
  EXPECT_EQ(line_of(LogLevel::info, false, request_for("/health"), 503), "");
  EXPECT_NE(line_of(LogLevel::debug, false, request_for("/health"), 503), "");
  EXPECT_EQ(line_of(LogLevel::error, false, request_for("/v1/x"), 404), "");
  EXPECT_NE(line_of(LogLevel::error, false, request_for("/v1/x"), 500), "");
}

}  // namespace
}  // namespace carat
