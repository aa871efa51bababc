// Which engine gets a request.
#include "engine/engine_pool.h"

#include <gtest/gtest.h>

#include "engine/kv_pages.h"
#include "engine/scripted_runner.h"

namespace carat {
namespace {

constexpr int kVocab = 50, kContext = 400;
const std::array<KvGroup, kKvGroups> kGroups{KvGroup{1, 1, 4, 0}, KvGroup{1, 1, 4, 16}};

std::unique_ptr<EnginePool> make_pool(int engines) {
  std::vector<std::unique_ptr<Engine>> all;
  for (int i = 0; i < engines; ++i) {
    EngineOptions options;
    options.max_positions = kContext;
    all.push_back(std::make_unique<Engine>(
        std::make_unique<ScriptedRunner>(kGroups, size_kv(kGroups, kContext, 8, 64), kVocab), nullptr,
        options));
  }
  return std::make_unique<EnginePool>(std::move(all));
}

Request request_of(std::vector<int32_t> prompt) {
  Request request;
  request.prompt = std::move(prompt);
  request.max_tokens = 2;
  request.ignore_eos = true;
  return request;
}

RequestHandle submit(EnginePool& pool, const std::vector<int32_t>& prompt) {
  std::vector<Request> requests;
  requests.push_back(request_of(prompt));
  return pool.submit(std::move(requests));
}

void finish(RequestHandle& handle) {
  while (!handle.finished()) handle.next();
}

void run(EnginePool& pool, const std::vector<int32_t>& prompt) {
  RequestHandle handle = submit(pool, prompt);
  finish(handle);
}

std::vector<int64_t> prompt_tokens(const EnginePool& pool) {
  std::vector<int64_t> tokens;
  for (std::size_t i = 0; i < pool.size(); ++i) {
    const EngineStats stats = pool.engine(i).stats();
    tokens.push_back(stats.prompt_tokens + stats.cached_tokens);
  }
  return tokens;
}

TEST(EnginePool, RequestsGoToTheEngineWithTheLeastToDo) {
  const auto pool = make_pool(3);
  std::vector<RequestHandle> handles;  // nobody reads them, so none has ended for the pool
  for (int i = 0; i < 6; ++i) handles.push_back(submit(*pool, random_tokens(i, 100, kVocab)));
  for (RequestHandle& handle : handles) finish(handle);
  EXPECT_EQ(prompt_tokens(*pool), (std::vector<int64_t>{200, 200, 200}));
  EXPECT_EQ(pool->stats().reply_tokens, 12);
  EXPECT_EQ(pool->max_sequences(), 24);
  EXPECT_EQ(pool->max_context(), pool->engine(0).max_context());
  EXPECT_EQ(pool->failure(), "");
}

TEST(EnginePool, AConversationStaysWhereItsBeginningIs) {
  const auto pool = make_pool(2);
  std::vector<int32_t> conversation = random_tokens(2, 100, kVocab);
  {
    RequestHandle other = submit(*pool, random_tokens(1, 80, kVocab));
    run(*pool, conversation);  // where there is nothing to do: on the second engine
    finish(other);
  }
  RequestHandle first = submit(*pool, random_tokens(3, 80, kVocab)),
                second = submit(*pool, random_tokens(4, 80, kVocab));
  finish(first);
  first = RequestHandle();  // now the first engine has less to do
  for (int turn = 0; turn < 3; ++turn) {
    const std::vector<int32_t> more = random_tokens(10 + turn, 70, kVocab);
    conversation.insert(conversation.end(), more.begin(), more.end());
    run(*pool, conversation);
  }
  EXPECT_EQ(prompt_tokens(*pool)[0], 160);
  EXPECT_GT(pool->engine(1).stats().cached_tokens, 64 * 3);
}

TEST(EnginePool, AFamiliarEngineWithMuchToDoIsLeftAlone) {
  const auto pool = make_pool(2);
  std::vector<RequestHandle> handles;
  const std::vector<int32_t> same = random_tokens(5, 100, kVocab);
  for (int i = 0; i < 12; ++i) handles.push_back(submit(*pool, same));
  for (RequestHandle& handle : handles) finish(handle);
  for (const int64_t tokens : prompt_tokens(*pool)) EXPECT_GE(tokens, 400);
}

}  // namespace
}  // namespace carat
