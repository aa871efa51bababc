// The text of replies: streaming, stop strings and what is held back, with the demo model's tokenizer and the
// whole engine around the stream.
#include "engine/reply_stream.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "engine/engine.h"
#include "engine/scripted_runner.h"

namespace carat {
namespace {

constexpr std::array<KvGroup, kKvGroups> kGroups{KvGroup{1, 1, 1, 0}, KvGroup{2, 1, 1, 8}};

class ReplyText : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    tokenizer_ = Tokenizer::load(CARAT_SOURCE_DIR "/models/demo/tokenizer.json");
  }
  static void TearDownTestSuite() { tokenizer_.reset(); }

  static Engine make_engine(EngineOptions options = {}) {
    const int vocab = tokenizer_->vocab_size();
    return Engine(std::make_unique<ScriptedRunner>(kGroups, size_kv(kGroups, 100, 8, 16), vocab), tokenizer_,
                  std::move(options));
  }
  /// A reply of text without order: words, bytes of characters and control tokens.
  static Request request(int first_token) {
    Request request;
    request.prompt = {2, first_token};
    request.max_tokens = 40;
    return request;
  }

  static inline std::shared_ptr<const Tokenizer> tokenizer_;
};

TEST_F(ReplyText, JoinedEventsAreTheReplyAndItsDecodedTokens) {
  Engine engine = make_engine();
  std::vector<Request> requests;
  for (int i = 0; i < 12; ++i) requests.push_back(request(300 + i));
  std::vector<std::string> streamed(requests.size());
  const std::vector<Reply> replies = engine.generate(requests, [&](const TokenEvent& event) {
    streamed[event.request] += event.text;
    return true;
  });
  for (std::size_t i = 0; i < replies.size(); ++i) {
    EXPECT_EQ(replies[i].text, streamed[i]);
    EXPECT_EQ(replies[i].text, tokenizer_->decode(replies[i].tokens, /*skip_special=*/true));
    EXPECT_EQ(replies[i].tokens.size(), 40u);
  }
}

/// Whether a character begins at `offset`.
bool starts_character(const std::string& text, std::size_t offset) { return (text[offset] & 0xc0) != 0x80; }

// Every stretch of the unrestrained text serves as a stop string once, most of them across token borders.
TEST_F(ReplyText, CutsAtAStopStringAcrossTokens) {
  Engine engine = make_engine();
  Request stopping = request(321);
  const std::string full = engine.generate(stopping, {}).text;
  std::vector<Request> requests;
  for (std::size_t begin = 0; begin + 9 < full.size(); ++begin) {
    const std::size_t length = 2 + begin % 7;
    if (!starts_character(full, begin) || !starts_character(full, begin + length)) continue;
    stopping.stop = {"never in any text", full.substr(begin, length)};
    requests.push_back(stopping);
  }
  ASSERT_GT(requests.size(), 30u);
  std::vector<std::string> streamed(requests.size());
  const std::vector<Reply> replies = engine.generate(requests, [&](const TokenEvent& event) {
    streamed[event.request] += event.text;
    return true;
  });
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const std::string expected = full.substr(0, full.find(requests[i].stop[1]));
    EXPECT_EQ(replies[i].text, expected) << "stop string " << requests[i].stop[1];
    EXPECT_EQ(streamed[i], expected);
    EXPECT_EQ(replies[i].finish, FinishReason::stop);
  }
}

TEST_F(ReplyText, RefusesStopStringsBeforeAnythingRuns) {
  Engine engine = make_engine();
  std::vector<Request> requests{request(300), request(301)};
  for (const char* bad : {"", "\xff"}) {
    requests[1].stop = {"fine", bad};
    int events = 0;
    EXPECT_THROW(engine.generate(requests, [&](const TokenEvent&) { return ++events > 0; }), Error);
    EXPECT_EQ(events, 0);
  }
}

TEST_F(ReplyText, HeldBackTextComesWithTheLastToken) {
  Engine engine = make_engine();
  Request held = request(330);
  const std::string full = engine.generate(held, {}).text;
  held.stop = {full + "and never more"};  // all of the reply may begin this stop string
  std::vector<std::string> texts;
  const Reply reply = engine.generate(held, [&](const TokenEvent& event) {
    texts.push_back(event.text);
    return true;
  });
  EXPECT_EQ(reply.finish, FinishReason::length);
  EXPECT_EQ(reply.text, full);
  ASSERT_EQ(texts.size(), 40u);
  EXPECT_EQ(texts.back(), full);
  EXPECT_EQ(texts.front(), "");
}

// Byte pieces are held back until their run ends, so only the end of the reply shows that the stop string is
// there.
TEST_F(ReplyText, FindsAStopStringInTheBytesOfTheLastTokens) {
  const int32_t q = tokenizer_->find("<0x51>");
  ASSERT_GE(q, 0);
  EngineOptions only_q;
  for (int32_t id = 0; id < tokenizer_->vocab_size(); ++id) {
    if (id != q) only_q.suppressed_tokens.push_back(id);
  }
  Engine engine = make_engine(only_q);
  const Reply reply = engine.generate({.prompt = {2}, .max_tokens = 3, .stop = {"QQ"}}, {});
  EXPECT_EQ(reply.tokens, (std::vector<int32_t>{q, q, q}));
  EXPECT_EQ(reply.text, "");
  EXPECT_EQ(reply.finish, FinishReason::stop);
}

TEST_F(ReplyText, CancelledReplyHasTheTextOfItsTokens) {
  Engine engine = make_engine();
  Request held = request(340);
  held.stop = {engine.generate(held, {}).text + "!"};
  int left = 10;
  const Reply reply = engine.generate(held, [&](const TokenEvent&) { return --left > 0; });
  EXPECT_EQ(reply.finish, FinishReason::cancelled);
  EXPECT_EQ(reply.tokens.size(), 10u);
  EXPECT_EQ(reply.text, tokenizer_->decode(reply.tokens, true));
}

TEST_F(ReplyText, EosIsNotPartOfTheText) {
  Engine plain = make_engine();
  const Request ending = request(350);
  const std::vector<int32_t> tokens = plain.generate(ending, {}).tokens;
  int at = 5;
  while (std::ranges::count(tokens.begin(), tokens.begin() + at, tokens[at]) > 0) ++at;
  ASSERT_LT(at, 40);
  Engine engine = make_engine({.eos_tokens = {tokens[at]}});
  const Reply reply = engine.generate(ending, {});
  EXPECT_EQ(reply.finish, FinishReason::stop);
  EXPECT_EQ(reply.tokens.back(), tokens[at]);
  EXPECT_EQ(reply.text, tokenizer_->decode(std::span(tokens).first(at), true));
}

}  // namespace
}  // namespace carat
