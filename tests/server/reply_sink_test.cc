#include "server/reply_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/chat_reply.h"
#include "server/http_server_fixture.h"
#include "server/messages_reply.h"
#include "server/responses_reply.h"

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

/// What the clients of streams are sent whose reply takes longer than the server allows.
TEST_F(EventSinkOnASocket, AReplyThatTakesTooLongEndsWithTheErrorEventOfItsApi) {
  HttpOptions options;
  options.request_timeout = 300ms;
  start(options);
  const auto model = std::make_shared<ServedModel>();
  model->names = {"m"};
  ResponsesRequest responses;
  responses.chat.options.stream = true;
  const auto sent = [&](const auto& make_sink) {
    HttpClient client(port());
    {
      const std::unique_ptr<ReplySink> sink = make_sink(hold(client));
      sink->begin();
    }
    return client.receive_all();
  };
  const std::string message = R"("message":"the reply took longer than this server allows")";
  EXPECT_THAT(
      sent([&](Exchange to) { return make_responses_sink(responses, model, std::move(to)); }),
      EndsWith("\nevent: error\ndata: {\"type\":\"error\",\"sequence_number\":2,\"code\":\"server_error\"," +
               message + ",\"param\":null}\n\n\r\n"));
  EXPECT_THAT(sent([&](Exchange to) { return make_messages_sink(responses.chat, 1, *model, std::move(to)); }),
              EndsWith(R"(event: error
data: {"type":"error","error":{"type":"timeout_error",)" +
                       message + "}}\n\n\r\n"));
  EXPECT_THAT(sent([&](Exchange to) { return make_chat_sink(responses.chat, {}, model, std::move(to)); }),
              EndsWith("\r\ndata: {\"error\":{" + message +
                       R"(,"type":"server_error","param":null,"code":null}})" + "\n\n\r\n"));
}

}  // namespace
}  // namespace carat
