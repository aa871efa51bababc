#include "server/auth.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace carat {
namespace {

HttpRequest with(const std::string& name, const std::string& value) {
  HttpRequest request;
  request.headers.push_back({name, value});
  return request;
}

TEST(ApiKeys, WithoutKeysEverybodyMay) { EXPECT_TRUE(ApiKeys().allow({})); }

TEST(ApiKeys, TakeBearerAndApiKeyHeaders) {
  const ApiKeys keys({"first", "second"});
  EXPECT_TRUE(keys.allow(with("Authorization", "Bearer first")));
  EXPECT_TRUE(keys.allow(with("authorization", "bearer  second ")));
  EXPECT_TRUE(keys.allow(with("X-Api-Key", "second")));
}

TEST(ApiKeys, TakeNothingElse) {
  const ApiKeys keys({"first", "second"});
  for (const char* value : {"", "Bearer", "Bearer ", "Bearer firs", "Bearer firstx", "Basic first", "first",
                            "Bearer First", "Bearer first second"})
    EXPECT_FALSE(keys.allow(with("authorization", value))) << value;
  EXPECT_FALSE(keys.allow(with("x-api-key", "Bearer first")));
  EXPECT_FALSE(keys.allow({}));
}

TEST(ApiKeys, TakeThePasswordThatABrowserSends) {
  const ApiKeys keys({"first", "key:with:colons"});
  EXPECT_TRUE(keys.allow(with("authorization", "Basic dXNlcjpmaXJzdA==")));          // user:first
  EXPECT_TRUE(keys.allow(with("authorization", "basic OmtleTp3aXRoOmNvbG9ucw==")));  // :key:with:colons
  for (const char* value : {"Basic", "Basic ", "Basic Zmlyc3Q=", "Basic dXNlcjo=", "Basic dXNlcjpmaXJzdHg="})
    EXPECT_FALSE(keys.allow(with("authorization", value))) << value;
}

TEST(ApiKeys, APasswordDoesNotCountForGenerate) {
  const ApiKeys keys({"first"});
  HttpRequest request = with("authorization", "Basic dXNlcjpmaXJzdA==");
  request.path = "/generate";
  EXPECT_FALSE(keys.allow(request));
  request.headers.front().value = "Bearer first";
  EXPECT_TRUE(keys.allow(request));
}

TEST(ApiKeys, FilesHaveOneKeyPerLine) {
  EXPECT_EQ(parse_api_keys("# ours\n a \r\n\nb", "keys"), (std::vector<std::string>{"a", "b"}));
  expect_error(ErrorKind::invalid_argument, {"keys", "no API key"},
               [] { parse_api_keys("\n# a\n", "keys"); });
  expect_error(ErrorKind::invalid_argument, {"keys", "API key 2"}, [] { parse_api_keys("a\nb c", "keys"); });
}

}  // namespace
}  // namespace carat
