#include "base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace carat {
namespace {

using ::testing::MatchesRegex;
using ::testing::internal::CaptureStderr;
using ::testing::internal::GetCapturedStderr;

class LogTest : public ::testing::Test {
 protected:
  ~LogTest() override { set_log(LogLevel::warning, LogFormat::text); }
};

TEST_F(LogTest, WritesOneLinePerMessage) {
  CaptureStderr();
  log(LogLevel::warning, "layer ", 3, " is odd");
  EXPECT_EQ(GetCapturedStderr(), "warning: layer 3 is odd\n");
}

TEST_F(LogTest, DropsWhatIsBelowTheLevel) {
  CaptureStderr();
  log(LogLevel::info, "quiet");
  set_log(LogLevel::debug, LogFormat::text);
  log(LogLevel::debug, "loud");
  set_log(LogLevel::off, LogFormat::text);
  log(LogLevel::error, "never");
  EXPECT_EQ(GetCapturedStderr(), "debug: loud\n");
}

TEST_F(LogTest, JsonLinesCarryTimeLevelAndMessage) {
  EXPECT_THAT(
      format_log_line(LogLevel::info, "ready", LogFormat::json),
      MatchesRegex(
          "\\{\"time\":\"20..-..-..T..:..:..\\....Z\",\"level\":\"info\",\"message\":\"ready\"\\}\n"));
}

TEST_F(LogTest, JsonStringsAreAlwaysValid) {
  const std::string line = format_log_line(LogLevel::error, "a\"b\\c\n\xff\u20ac", LogFormat::json);
  EXPECT_THAT(line, ::testing::HasSubstr("\"message\":\"a\\\"b\\\\c\\u000a\\ufffd\u20ac\"}"));
}

}  // namespace
}  // namespace carat
