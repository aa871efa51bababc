#include "server/responses_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/demo_api.h"

namespace carat {
namespace {

using testing::HasSubstr;

TEST(ResponsesRequest, NumbersComeBackAsTheyWereWritten) {
  const DemoApi api;
  const std::string body = R"({"input": "x", "max_output_tokens": 1, "temperature": 0.8, "top_p": 0.15})";
  const std::string reply = api.call("POST", "/v1/responses", body)->reply().body;
  EXPECT_THAT(reply, HasSubstr(R"("temperature":0.8,)"));
  EXPECT_THAT(reply, HasSubstr(R"("top_p":0.15,)"));
}

}  // namespace
}  // namespace carat
