#include "server/reply_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/http_server_fixture.h"

namespace carat {
namespace {

using ::testing::EndsWith;

class Words final : public EventSink {
 public:
  using EventSink::EventSink;
  void add(ReplyDelta delta) override { send(delta.content); }
  void finish() override { end_stream(); }
};

class EventSinkOnASocket : public HttpServerTest {};

TEST_F(EventSinkOnASocket, AReplyThatFailsEndsWithAnErrorEventAndNoLastChunk) {
  start();
  for (int i = 0; i < 20; ++i) {
    HttpClient client(port());
    Words sink(hold(client));
    sink.begin();
    ReplyDelta delta;
    delta.content = "word";
    sink.add(std::move(delta));
    sink.fail({500, "", "", "the device has failed"});
    const std::string error = openai_error_json({500, "", "", "the device has failed"});
    EXPECT_THAT(client.receive_all(), EndsWith("data: word\n\ndata: " + error + "\n\n\r\n"));
  }
}

}  // namespace
}  // namespace carat
