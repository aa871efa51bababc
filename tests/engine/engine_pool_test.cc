// Which engine gets a request.
#include "engine/engine_pool.h"

#include <gtest/gtest.h>

#include <future>
#include <stdexcept>

#include "engine/kv_pages.h"
#include "engine/scripted_runner.h"
#include "support/expect_error.h"

namespace carat {
namespace {

constexpr int kVocab = 50, kContext = 400;
const std::array<KvGroup, kKvGroups> kGroups{KvGroup{1, 1, 4, 0}, KvGroup{1, 1, 4, 16}};

struct TestedPool {
  std::shared_ptr<std::promise<void>> begin = std::make_shared<std::promise<void>>();  // outlives the engines
  std::vector<const Engine*> engines;
  std::unique_ptr<EnginePool> pool;

  EnginePool* operator->() const { return pool.get(); }
  EnginePool& operator*() const { return *pool; }
};

/// `max_sequences` of each engine; those in `broken` fail with their first step. No step ends before
/// `begin` is set.
TestedPool make_held_pool(const std::vector<int>& max_sequences, int max_waiting = 1024,
                          const std::vector<bool>& broken = {}) {
  std::vector<std::unique_ptr<Engine>> all;
  TestedPool result;
  const std::shared_future<void> begin = result.begin->get_future().share();
  for (std::size_t i = 0; i < max_sequences.size(); ++i) {
    EngineOptions options;
    options.max_positions = kContext;
    options.max_waiting = max_waiting;
    auto runner =
        std::make_unique<ScriptedRunner>(kGroups, size_kv(kGroups, kContext, max_sequences[i], 64), kVocab);
    const bool fails = i < broken.size() && broken[i];
    runner->before_each_step([begin, fails] {
      begin.wait();
      if (fails) throw std::runtime_error("device lost");
    });
    all.push_back(std::make_unique<Engine>(std::move(runner), nullptr, options));
    result.engines.push_back(all.back().get());
  }
  result.pool = std::make_unique<EnginePool>(std::move(all));
  return result;
}

TestedPool make_pool(const std::vector<int>& max_sequences, int max_waiting = 1024,
                     const std::vector<bool>& broken = {}) {
  TestedPool pool = make_held_pool(max_sequences, max_waiting, broken);
  pool.begin->set_value();
  return pool;
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

std::vector<int64_t> prompt_tokens(const TestedPool& pool) {
  std::vector<int64_t> tokens;
  for (const Engine* engine : pool.engines) {
    const EngineStats stats = engine->stats();
    tokens.push_back(stats.prompt_tokens + stats.cached_tokens);
  }
  return tokens;
}

TEST(EnginePool, RequestsGoToTheEngineWithTheLeastToDo) {
  const auto pool = make_pool({8, 8, 8});
  std::vector<RequestHandle> handles;  // nobody reads them, so none has ended for the pool
  for (int i = 0; i < 6; ++i) handles.push_back(submit(*pool, random_tokens(i, 100, kVocab)));
  for (RequestHandle& handle : handles) finish(handle);
  EXPECT_EQ(prompt_tokens(pool), (std::vector<int64_t>{200, 200, 200}));
  EXPECT_EQ(pool->stats().reply_tokens, 12);
  EXPECT_EQ(pool->max_sequences(), 24);
  EXPECT_EQ(pool->max_context(), pool.engines[0]->max_context());
  EXPECT_EQ(pool->failure(), "");
}

TEST(EnginePool, AConversationStaysWhereItsBeginningIs) {
  const auto pool = make_pool({8, 8});
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
  EXPECT_EQ(prompt_tokens(pool)[0], 160);
  EXPECT_GT(pool.engines[1]->stats().cached_tokens, 64 * 3);
}

TEST(EnginePool, AFamiliarEngineWithMuchToDoIsLeftAlone) {
  const auto pool = make_pool({8, 8});
  std::vector<RequestHandle> handles;
  const std::vector<int32_t> same = random_tokens(5, 100, kVocab);
  for (int i = 0; i < 12; ++i) handles.push_back(submit(*pool, same));
  for (RequestHandle& handle : handles) finish(handle);
  for (const int64_t tokens : prompt_tokens(pool)) EXPECT_GE(tokens, 400);
}

TEST(EnginePool, AFailedEngineGetsNoRequests) {
  const auto pool = make_pool({8, 8, 8}, 1024, {true, false, true});
  const std::vector<int32_t> same = random_tokens(6, 100, kVocab);
  run(*pool, same);  // the first engine, which fails with it
  EXPECT_NE(pool->failure(), "");
  RequestHandle busy = submit(*pool, same);  // although the first engine has begun it before
  RequestHandle last = submit(*pool, random_tokens(7, 100, kVocab));  // the third, which fails with it
  finish(busy);
  finish(last);
  for (int i = 0; i < 5; ++i) run(*pool, random_tokens(10 + i, 100, kVocab));
  EXPECT_EQ(pool.engines[1]->stats().reply_tokens, 2 * 6);
  EXPECT_EQ(pool.engines[1]->failure(), "");
}

TEST(EnginePool, WhenAllEnginesHaveFailedTheirErrorIsSaid) {
  const auto pool = make_pool({8, 8}, 1024, {true, true});
  for (int i = 0; i < 2; ++i) run(*pool, random_tokens(i, 100, kVocab));
  expect_error(ErrorKind::device, {"the engine has failed: device lost"},
               [&] { submit(*pool, random_tokens(8, 100, kVocab)); });
}

TEST(EnginePool, AFullEngineGetsNoRequestsWhileAnotherHasRoom) {
  const auto pool = make_held_pool({2, 4}, /*max_waiting=*/0);
  const std::vector<int32_t> same = random_tokens(5, 100, kVocab);
  std::vector<RequestHandle> handles;
  for (int i = 0; i < 6; ++i) handles.push_back(submit(*pool, same));
  expect_error(ErrorKind::unavailable, {"busy"}, [&] { submit(*pool, same); });
  pool.begin->set_value();
  for (RequestHandle& handle : handles) finish(handle);
  EXPECT_EQ(prompt_tokens(pool), (std::vector<int64_t>{200, 400}));
}

TEST(EnginePool, RequestsOfOneCallAreOneLoad) {
  const auto pool = make_held_pool({4, 4}, /*max_waiting=*/0);
  const std::vector<int32_t> same = random_tokens(5, 100, kVocab);
  RequestHandle first = submit(*pool, same);
  std::vector<Request> requests(2, request_of(same));
  for (Request& request : requests) request.samples = 2;
  RequestHandle all = pool->submit(std::move(requests));  // 3 would have room beside the first
  pool.begin->set_value();
  finish(first);
  finish(all);
  EXPECT_EQ(pool.engines[1]->stats().reply_tokens, 2 * 4);
}

TEST(EnginePool, FullEnginesShareTheQueueOfOneBeginning) {
  const auto pool = make_pool({2, 2});
  const std::vector<int32_t> same = random_tokens(5, 100, kVocab);
  std::vector<RequestHandle> handles;
  for (int i = 0; i < 12; ++i) handles.push_back(submit(*pool, same));
  for (RequestHandle& handle : handles) finish(handle);
  EXPECT_EQ(prompt_tokens(pool), (std::vector<int64_t>{600, 600}));
}

}  // namespace
}  // namespace carat
