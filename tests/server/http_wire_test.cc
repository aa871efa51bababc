#include "server/http_wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace carat {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(HttpWire, AHeadersValueCantBeginAnotherHeader) {
  HttpResponse response;
  response.headers = {{"X-Name", "a\r\nset-cookie: b\r\n\r\nbody"}};
  const std::string head = reply_head(response, {.keep_alive = true, .length = 3});
  EXPECT_THAT(head, HasSubstr("\r\nx-name: aset-cookie: bbody\r\n"));
  EXPECT_EQ(head.find("\r\n\r\n"), head.size() - 4);
}

TEST(HttpWire, RepliesWithoutABodyHaveNoLength) {
  HttpResponse response{.status = 204, .body = {}, .content_type = {}};
  const std::string head = reply_head(response, {.keep_alive = false, .length = 0});
  EXPECT_THAT(head, StartsWith("HTTP/1.1 204 No Content\r\n"));
  EXPECT_THAT(head, Not(HasSubstr("content-")));
  EXPECT_THAT(head, HasSubstr("connection: close\r\n"));
}

TEST(HttpWire, ChunksSayTheirLengthAndNeverEndTheBody) {
  EXPECT_EQ(chunk("0123456789abcdef"), "10\r\n0123456789abcdef\r\n");
  EXPECT_EQ(chunk(""), "");
}

TEST(HttpWire, AWholeReplyEndsTheConnection) {
  const std::string reply = whole_reply({.status = 503, .body = "busy"});
  EXPECT_THAT(reply, HasSubstr("connection: close\r\n"));
  EXPECT_THAT(reply, HasSubstr("content-length: 4\r\n"));
  EXPECT_THAT(reply, EndsWith("\r\n\r\nbusy"));
}

}  // namespace
}  // namespace carat
