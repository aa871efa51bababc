// The C API. examples/generate.c shows that it is C.
#include "carat/c.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <string>

#include "api/demo_model.h"

namespace carat {
namespace {

using testing::HasSubstr;

struct Free {
  void operator()(carat_model* model) const { carat_free_model(model); }
  void operator()(carat_reply* reply) const { carat_free_reply(reply); }
};
using ModelHandle = std::unique_ptr<carat_model, Free>;
using ReplyHandle = std::unique_ptr<carat_reply, Free>;

carat_generation_options greedy(int max_tokens) {
  carat_generation_options options;
  carat_init_generation_options(&options, sizeof options);
  options.max_tokens = max_tokens;
  options.temperature = 0;
  return options;
}

std::string read(carat_reply* reply) {
  std::string text;
  while (carat_reply_next(reply, -1) == CARAT_MORE) text += carat_reply_text(reply);
  return text;
}

class CApi : public ::testing::Test {
 protected:
  ModelHandle model_{carat_load(kDemoModel.c_str(), nullptr)};
};

TEST_F(CApi, StreamsAReplyAndSaysWhatItTook) {
  ASSERT_TRUE(model_) << carat_last_error();
  const auto options = greedy(10);
  const ReplyHandle reply(carat_complete(model_.get(), "Once upon a time", &options));
  ASSERT_TRUE(reply) << carat_last_error();
  EXPECT_NE(read(reply.get()), "");
  EXPECT_EQ(carat_reply_next(reply.get(), -1), CARAT_END);
  EXPECT_EQ(carat_reply_finish(reply.get()), CARAT_LENGTH);
  EXPECT_STREQ(carat_reply_error(reply.get()), "");
  EXPECT_STREQ(carat_reply_tool_calls(reply.get()), "[]");
  carat_usage usage;
  carat_reply_usage(reply.get(), &usage, sizeof usage);
  EXPECT_EQ(usage.size, sizeof usage);
  EXPECT_EQ(usage.reply_tokens, 10);
  EXPECT_GT(usage.total_s, 0);
}

TEST_F(CApi, TimesOutAndIsCancelled) {
  const auto options = greedy(5000);
  const ReplyHandle reply(carat_complete(model_.get(), "The king", &options));
  int timeouts = 0;
  for (carat_status status; (status = carat_reply_next(reply.get(), 0)) != CARAT_END;) {
    ASSERT_NE(status, CARAT_ERROR);
    if (status == CARAT_TIMEOUT) ++timeouts;
    if (status == CARAT_MORE) carat_reply_cancel(reply.get());
  }
  EXPECT_GT(timeouts, 0);
  EXPECT_EQ(carat_reply_finish(reply.get()), CARAT_CANCELLED);
}

TEST_F(CApi, FailuresLeaveALine) {
  EXPECT_FALSE(carat_load("/no/such/model", nullptr));
  EXPECT_THAT(carat_last_error(), HasSubstr("/no/such/model"));
  EXPECT_FALSE(carat_load(nullptr, nullptr));
  EXPECT_FALSE(carat_complete(model_.get(), nullptr, nullptr));
  EXPECT_FALSE(carat_complete(nullptr, "x", nullptr));
  EXPECT_FALSE(carat_chat(model_.get(), "[1]", nullptr));
  EXPECT_THAT(carat_last_error(), HasSubstr("messages[0]"));
  carat_generation_options wrong = greedy(5);
  wrong.top_p = 7;
  EXPECT_FALSE(carat_complete(model_.get(), "x", &wrong));
  EXPECT_THAT(carat_last_error(), HasSubstr("top_p"));
  carat_generation_options thinking = greedy(5), calling = greedy(5);
  thinking.think = 1;
  calling.tools = R"([{"type": "function", "function": {"name": "f"}}])";
  EXPECT_FALSE(carat_complete(model_.get(), "x", &thinking));
  EXPECT_THAT(carat_last_error(), HasSubstr("think is set"));
  EXPECT_FALSE(carat_complete(model_.get(), "x", &calling));
  EXPECT_THAT(carat_last_error(), HasSubstr("tools is set"));
  const carat_generation_options unfilled{};
  EXPECT_FALSE(carat_complete(model_.get(), "x", &unfilled));
  EXPECT_THAT(carat_last_error(), HasSubstr("carat_init_"));
  EXPECT_EQ(carat_reply_next(nullptr, 0), CARAT_ERROR);
}

TEST_F(CApi, ProgramsWithSmallerStructsGoOnWorking) {
  struct {  // as of a header that ended behind max_tokens
    std::size_t size;
    int max_tokens;
    unsigned char beyond[sizeof(carat_generation_options)];
  } old{};
  std::fill(std::begin(old.beyond), std::end(old.beyond), static_cast<unsigned char>(0xAB));
  auto* options = reinterpret_cast<carat_generation_options*>(&old);
  carat_init_generation_options(options, offsetof(carat_generation_options, temperature));
  EXPECT_EQ(old.size, offsetof(carat_generation_options, temperature));
  EXPECT_EQ(old.beyond[0], 0xAB) << "written beyond its size";
  old.max_tokens = 3;
  const ReplyHandle reply(carat_complete(model_.get(), "x", options));
  ASSERT_TRUE(reply) << carat_last_error();
  read(reply.get());
  carat_usage usage;
  carat_reply_usage(reply.get(), &usage, sizeof usage);
  EXPECT_EQ(usage.reply_tokens, 3);
}

TEST(CApiOfAChatModel, AnswersMessages) {
  const TempDirectory directory;
  const ModelHandle model(carat_load(make_chat_model(directory).c_str(), nullptr));
  ASSERT_TRUE(model) << carat_last_error();
  EXPECT_EQ(carat_is_chat_model(model.get()), 1);
  EXPECT_EQ(carat_max_context(model.get()), 8192);
  const auto options = greedy(6);
  const ReplyHandle reply(carat_chat(model.get(), R"([{"role": "user", "content": "Hi"}])", &options));
  ASSERT_TRUE(reply) << carat_last_error();
  EXPECT_NE(read(reply.get()), "");
  EXPECT_FALSE(carat_chat(model.get(), "{", nullptr));
  EXPECT_THAT(carat_last_error(), HasSubstr("messages"));
}

}  // namespace
}  // namespace carat
