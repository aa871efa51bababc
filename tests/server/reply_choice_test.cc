#include "server/reply_choice.h"

#include <gtest/gtest.h>

#include "chat/chat_tokenizer.h"

namespace carat {
namespace {

/// How a reply ends that has nothing but the token "thought".
ReplyDelta reply_of_one_token(const std::vector<std::string>& stops, bool is_chat) {
  const auto tokenizer = chat_tokenizer();
  ReplyChoice choice(0, {tokenizer, {.tool_calls = true, .stop_strings = stops}, is_chat, true, true}, {});
  Event event;
  event.token = tokenizer->find("thought");
  event.finish = Finish{.reason = FinishReason::length, .error = {}, .usage = {}};
  return choice.read(std::move(event)).value();
}

TEST(ReplyChoice, TheStopStringIsTheOneThatEndedTheText) {
  for (const bool is_chat : {false, true}) {
    for (const auto& stops : {std::vector<std::string>{"ou", "gh"}, {"gh", "ou"}, {"ought", "ou"}}) {
      const ReplyDelta delta = reply_of_one_token(stops, is_chat);
      EXPECT_EQ(delta.content, "th");
      EXPECT_EQ(delta.end.value().stop_string, "ou");
      EXPECT_EQ(delta.end->reason, ReplyEndReason::stop);
    }
    EXPECT_EQ(reply_of_one_token({"never"}, is_chat).end.value().stop_string, "");
  }
}

}  // namespace
}  // namespace carat
