// The public C++ API, as a program that links the library sees it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <thread>

#include "api/demo_model.h"
#include "carat/engine.h"

namespace carat {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

template <class Action>
void expect_code(ErrorCode code, const std::string& part, Action&& action) {
  try {
    action();
    ADD_FAILURE() << "nothing was thrown, expected: " << part;
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(static_cast<int>(error_code(error)), static_cast<int>(code)) << error.what();
    EXPECT_THAT(error.what(), HasSubstr(part));
  }
}

ReplyOptions greedy(int max_tokens) {
  ReplyOptions options;
  options.max_tokens = max_tokens;
  options.temperature = 0.f;
  return options;
}

const Model& demo() {
  static const Model model = Model::load(kDemoModel, {.context = 1024});
  return model;
}

class ChatModel : public ::testing::Test {
 protected:
  TempDirectory directory_;
  const Model model_ = Model::load(make_chat_model(directory_), {.context = 1024});
};

TEST(Model, ChunksAreTheReply) {
  Generation reply = demo().complete("Once upon a time", greedy(20));
  std::string text;
  std::vector<int32_t> tokens;
  while (const auto chunk = reply.next()) {
    text += chunk->text;
    tokens.insert(tokens.end(), chunk->tokens.begin(), chunk->tokens.end());
  }
  ASSERT_TRUE(reply.finished());
  const Completion& all = reply.so_far();
  EXPECT_EQ(text, all.text);
  EXPECT_EQ(tokens, all.tokens);
  EXPECT_EQ(tokens.size(), 20u);
  EXPECT_EQ(all.finish, FinishReason::length);
  EXPECT_EQ(all.usage.reply_tokens, 20);
  EXPECT_EQ(all.usage.prompt_tokens, static_cast<int>(demo().tokenize("Once upon a time").size()) + 1);
  EXPECT_GT(all.total_s, 0);
  EXPECT_EQ(demo().complete("Once upon a time", greedy(20)).wait().text, text);
}

TEST(Model, TokenIdsAndLogprobs) {
  std::vector<int32_t> prompt = demo().tokenize("<bos>The fox", true);
  EXPECT_EQ(demo().detokenize(prompt), "<bos>The fox");
  ReplyOptions options = greedy(5);
  options.logprobs = 2;
  const Completion reply = demo().generate(prompt, options).wait();
  ASSERT_EQ(reply.logprobs.size(), 5u);
  for (std::size_t i = 0; i < 5; ++i) {
    ASSERT_EQ(reply.logprobs[i].best.size(), 2u);
    EXPECT_EQ(reply.logprobs[i].best[0].token, reply.tokens[i]);
    EXPECT_EQ(reply.logprobs[i].best[0].logprob, reply.logprobs[i].drawn);
  }
  EXPECT_EQ(demo().complete("The fox", greedy(5)).wait().tokens, reply.tokens);
}

TEST(Model, ManyThreadsAskAtOnceAndEachGetsItsOwn) {
  std::map<int, std::string> alone;
  for (int i = 0; i < 6; ++i)
    alone[i] = demo().complete("There were " + std::to_string(i), greedy(12)).wait().text;
  std::vector<std::thread> threads;
  std::atomic<int> same = 0;
  for (int i = 0; i < 6; ++i)
    threads.emplace_back([&, i] {
      same += demo().complete("There were " + std::to_string(i), greedy(12)).wait().text == alone.at(i);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(same, 6);
}

TEST(Model, NextWaitsNoLongerThanItIsToldAndNotifyRings) {
  auto rings = std::make_shared<std::atomic<int>>(0);
  ReplyOptions options = greedy(4);
  options.notify = [rings] { ++*rings; };
  Generation reply = demo().complete("The king", options);
  int empty = 0;
  while (!reply.finished()) {
    if (!reply.next(1ms)) ++empty;
    ASSERT_LT(empty, 100'000);
  }
  EXPECT_EQ(reply.so_far().usage.reply_tokens, 4);
  EXPECT_GE(*rings, 1);
}

TEST(Model, CancelledRepliesEndAndTheModelGoesOn) {
  Generation reply = demo().complete("The king", greedy(1000));
  ASSERT_TRUE(reply.next());
  reply.cancel();
  EXPECT_EQ(reply.wait().finish, FinishReason::cancelled);
  EXPECT_LT(reply.so_far().usage.reply_tokens, 900);
  {
    const Generation dropped = demo().complete("The king", greedy(1000));
  }
  EXPECT_EQ(demo().complete("The king", greedy(3)).wait().usage.reply_tokens, 3);
}

TEST(Model, AReplyOutlivesItsModel) {
  auto model = std::make_unique<Model>(Model::load(kDemoModel, {.context = 512}));
  Generation reply = model->complete("The king", greedy(400));
  model.reset();
  EXPECT_EQ(reply.wait().finish, FinishReason::cancelled);
}

TEST(Model, WhatCannotBeIsRefusedWithItsReason) {
  expect_code(ErrorCode::not_found, "/no/such/model", [] { Model::load("/no/such/model"); });
  expect_code(ErrorCode::invalid_argument, "tpu", [] { Model::load(kDemoModel, {.device = "tpu"}); });
  expect_code(ErrorCode::invalid_argument, "neither a share",
              [] { Model::load(kDemoModel, {.kv_memory = "much"}); });
  expect_code(ErrorCode::unsupported, "tools: this model only continues text", [] {
    demo().chat({{"user", "Hi"}}, {.tools = R"([{"type": "function", "function": {"name": "f"}}])"});
  });
  expect_code(ErrorCode::invalid_argument, "top_p", [] { demo().complete("Hi", {.top_p = 2.f}); });
  expect_code(ErrorCode::invalid_argument, "think is set", [] { demo().complete("Hi", {.think = true}); });
  expect_code(ErrorCode::invalid_argument, "tools is set", [] { demo().generate({2, 5}, {.tools = "[]"}); });
  expect_code(ErrorCode::invalid_argument, "context of 1024",
              [] { demo().generate(std::vector<int32_t>(2000, 5)); });
  expect_code(ErrorCode::other, "", [] { throw std::runtime_error("not ours"); });
}

TEST(Model, AModelWithoutTurnsContinuesTheTextsOfAConversation) {
  const std::string text =
      demo().chat({{"system", "Once upon a time"}, {"user", "there was"}}, greedy(20)).wait().text;
  EXPECT_EQ(text, demo().complete("Once upon a time\nthere was", greedy(20)).wait().text);
  EXPECT_FALSE(text.empty());
}

TEST(Model, SaysWhatItIs) {
  EXPECT_EQ(demo().max_context(), 1024);
  EXPECT_EQ(demo().max_sequences(), 16);
  EXPECT_EQ(demo().device(), "cpu");
  EXPECT_EQ(demo().failure(), "");
  EXPECT_FALSE(demo().is_chat_model());
  EXPECT_STREQ(version(), CARAT_VERSION);
}

TEST_F(ChatModel, TheNextTurnFindsTheOneBeforeInTheCache) {
  std::vector<Message> conversation{
      {"user",
       "Tell me of a fox and of all that it did on the day when it met the king and his three sons, "
       "who had gone into the wood to look for the golden bird that their father had lost"}};
  const Completion first = model_.chat(conversation, greedy(60)).wait();
  EXPECT_EQ(first.usage.cached_tokens, 0);
  conversation.push_back({"assistant", first.text});
  conversation.push_back({"user", "Go on"});
  const Completion second = model_.chat(conversation, greedy(5)).wait();
  EXPECT_GE(second.usage.cached_tokens, 32);
  EXPECT_LT(second.usage.cached_tokens, second.usage.prompt_tokens);
  const Model cold = Model::load(directory_.path(), {.context = 1024, .prefix_cache = false});
  const Completion computed = cold.chat(conversation, greedy(5)).wait();
  EXPECT_EQ(computed.usage.cached_tokens, 0);
  EXPECT_EQ(computed.text, second.text);
}

TEST_F(ChatModel, MessagesAsJsonAreTheSame) {
  const std::string text = model_.chat({{"user", "Hi"}}, greedy(8)).wait().text;
  EXPECT_EQ(model_.chat_json(R"([{"role": "user", "content": "Hi"}])", greedy(8)).wait().text, text);
  expect_code(ErrorCode::invalid_argument, "messages", [&] { model_.chat_json("[1]"); });
  expect_code(ErrorCode::invalid_argument, "no thinking",
              [&] { model_.chat({{"user", "Hi"}}, {.think = true}); });
}

TEST_F(ChatModel, WithoutToolsACallIsText) {
  ReplyOptions options = greedy(8);
  const std::string text = model_.chat({{"user", "Hi"}}, options).wait().text;
  // Draws nothing but the marker of a call.
  options.logit_bias = {{model_.tokenize("<|tool_call>", /*special=*/true).at(0), 100.f}};
  const std::string call = model_.chat({{"user", "Hi"}}, options).wait().text;
  options.tools = "[]";
  EXPECT_EQ(model_.chat({{"user", "Hi"}}, options).wait().text, call);
}

TEST_F(ChatModel, AStopStringEndsTheAnswerAndIsNoPartOfIt) {
  const Completion whole = model_.chat({{"user", "Tell me of a fox"}}, greedy(40)).wait();
  ASSERT_GT(whole.text.size(), 12u);
  ReplyOptions options = greedy(40);
  options.stop = {whole.text.substr(8, 3)};
  const Completion cut = model_.chat({{"user", "Tell me of a fox"}}, options).wait();
  EXPECT_EQ(cut.finish, FinishReason::stop);
  EXPECT_EQ(cut.text, whole.text.substr(0, whole.text.find(options.stop[0])));
  EXPECT_EQ(cut.usage.reply_tokens, static_cast<int>(cut.tokens.size()));
}

}  // namespace
}  // namespace carat
