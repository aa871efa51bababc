// The engine among its callers: handles, cancelling, limits, shutdown and a device that fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "engine/alone.h"
#include "engine/engine.h"
#include "engine/scripted_runner.h"
#include "support/expect_error.h"

namespace carat {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr int kVocab = 61, kContext = 400;
constexpr std::array<KvGroup, kKvGroups> kGroups{KvGroup{1, 1, 1, 0}, KvGroup{2, 1, 1, 8}};

/// Lets a test say when steps may run.
class Gate {
 public:
  void open(int steps = 1) { permits_.release(steps); }
  void open_for_good() {
    wide_open_ = true;
    permits_.release(1);
  }
  void pass() {
    if (!wide_open_) permits_.acquire();
  }

 private:
  std::counting_semaphore<> permits_{0};
  std::atomic<bool> wide_open_{false};
};

struct Setup {
  int sequences = 4, step_tokens = 16;
  EngineOptions options = {};
  std::function<void()> before_step = {};
};

std::unique_ptr<Engine> make_engine(const Setup& setup = {}) {
  auto runner = std::make_unique<ScriptedRunner>(
      kGroups, size_kv(kGroups, kContext, setup.sequences, setup.step_tokens), kVocab);
  runner->before_each_step(setup.before_step);
  EngineOptions options = setup.options;
  options.max_positions = kContext;
  return std::make_unique<Engine>(std::move(runner), nullptr, options);
}

Reply alone(const Request& request, int sample = 0) {
  ScriptedRunner runner(kGroups, size_kv(kGroups, kContext, 1, 32), kVocab);
  return reply_alone(runner, request, {}, kContext, sample);
}

/// Reads to the end; gives up after a while, so that a stuck engine fails the test.
std::vector<int32_t> read_tokens(RequestHandle& handle, std::optional<Finish>* finish = nullptr) {
  std::vector<int32_t> tokens;
  while (const auto event = handle.next(20000ms)) {
    if (event->token >= 0) tokens.push_back(event->token);
    if (event->finish && finish) *finish = event->finish;
  }
  EXPECT_TRUE(handle.finished());
  return tokens;
}

void expect_idle(const Engine& engine) {
  const EngineStats stats = engine.stats();
  EXPECT_EQ(stats.free_pages, stats.total_pages);
  EXPECT_EQ(stats.running + stats.waiting, 0);
}

TEST(EngineSubmit, EventsArriveInOrderAndEndWithHowTheReplyEnded) {
  const auto engine = make_engine();
  const Request request{.prompt = random_tokens(1, 30, kVocab), .max_tokens = 12};
  RequestHandle handle = engine->submit(request);
  std::optional<Finish> finish;
  EXPECT_EQ(read_tokens(handle, &finish), alone(request).tokens);
  ASSERT_TRUE(finish);
  EXPECT_EQ(finish->reason, FinishReason::length);
  EXPECT_EQ(finish->usage.prompt_tokens, 30);
  EXPECT_EQ(finish->usage.reply_tokens, 12);
  EXPECT_GE(finish->first_token_s, finish->queued_s);
  EXPECT_GE(finish->total_s, finish->first_token_s);
  EXPECT_FALSE(handle.next());
  expect_idle(*engine);
}

TEST(EngineSubmit, DroppingTheHandleCancelsWithinAStep) {
  Gate gate;
  const auto engine = make_engine({.before_step = [&] { gate.pass(); }});
  {
    RequestHandle handle = engine->submit({.prompt = {1}, .max_tokens = 300});
    gate.open(3);
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(handle.next(20000ms));
  }
  gate.open(2);  // one step may have begun before
  EXPECT_TRUE(engine->drain(20000ms));
  EXPECT_LE(engine->stats().steps, 4);
  expect_idle(*engine);
  gate.open_for_good();
}

TEST(EngineSubmit, AReaderThatDoesNotReadHoldsNobodyUp) {
  const auto engine = make_engine();
  const Request lazy{.prompt = {1}, .max_tokens = 200}, eager{.prompt = {2}, .max_tokens = 300};
  RequestHandle unread = engine->submit(lazy), read = engine->submit(eager);
  EXPECT_EQ(read_tokens(read), alone(eager).tokens);
  EXPECT_EQ(read_tokens(unread), alone(lazy).tokens);
}

TEST(EngineSubmit, RefusesMoreThanMayWaitAndTakesThemLater) {
  Gate gate;
  const auto engine =
      make_engine({.sequences = 1, .options = {.max_waiting = 1}, .before_step = [&] { gate.pass(); }});
  const Request request{.prompt = {1}, .max_tokens = 5};
  RequestHandle running = engine->submit(request), waiting = engine->submit(request);
  for (int i = 0; i < 4; ++i) {
    try {
      engine->submit(request);
      FAIL() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::unavailable);
      EXPECT_THAT(error.what(),
                  HasSubstr("2 replies are running or waiting, 1 more would exceed the limit of 2"));
    }
  }
  gate.open_for_good();
  EXPECT_EQ(read_tokens(running).size(), 5u);
  EXPECT_EQ(read_tokens(waiting).size(), 5u);
  RequestHandle later = engine->submit(request);
  EXPECT_EQ(read_tokens(later).size(), 5u);
}

TEST(EngineSubmit, ARequestIsCancelledWhileItWaits) {
  Gate gate;
  const auto engine = make_engine({.sequences = 1, .before_step = [&] { gate.pass(); }});
  RequestHandle running = engine->submit({.prompt = {1}, .max_tokens = 5}),
                waiting = engine->submit({.prompt = {2}, .max_tokens = 5});
  waiting.cancel();
  gate.open_for_good();
  std::optional<Finish> finish;
  EXPECT_TRUE(read_tokens(waiting, &finish).empty());
  EXPECT_EQ(finish->reason, FinishReason::cancelled);
  EXPECT_EQ(read_tokens(running).size(), 5u);
  expect_idle(*engine);
}

TEST(EngineSubmit, DrainFinishesWhatRunsAndRefusesWhatComes) {
  Gate gate;
  const auto engine = make_engine({.before_step = [&] { gate.pass(); }});
  RequestHandle handle = engine->submit({.prompt = {1}, .max_tokens = 20});
  EXPECT_FALSE(engine->drain(1ms));
  EXPECT_THROW(engine->submit(Request{.prompt = {1}}), Error);
  gate.open_for_good();
  EXPECT_TRUE(engine->drain(20000ms));
  EXPECT_EQ(read_tokens(handle).size(), 20u);
}

TEST(EngineSubmit, AnEngineThatGoesAwayEndsItsReplies) {
  RequestHandle handle;
  {
    const auto engine = make_engine({.before_step = [] { std::this_thread::sleep_for(1ms); }});
    handle = engine->submit(
        std::vector<Request>{{.prompt = {1}, .max_tokens = 390}, {.prompt = {2}, .samples = 6}});
    ASSERT_TRUE(handle.next(20000ms));
  }
  int ended = 0;
  while (const auto event = handle.next(0ms)) ended += event->finish ? 1 : 0;
  EXPECT_EQ(ended, 7);
  EXPECT_TRUE(handle.finished());
}

TEST(EngineSubmit, ADeviceThatFailsEndsAllRepliesWithItsError) {
  int steps = 0;
  const auto engine = make_engine({.sequences = 2, .before_step = [&] {
                                     if (++steps == 6) fail(ErrorKind::device, "out of order");
                                   }});
  std::vector<Request> requests(4, Request{.prompt = {1}, .max_tokens = 20});
  RequestHandle handle = engine->submit(requests);
  int failed = 0;
  while (const auto event = handle.next(20000ms)) {
    if (!event->finish) continue;
    EXPECT_EQ(event->finish->reason, FinishReason::error);
    EXPECT_EQ(event->finish->error, "out of order");
    ++failed;
  }
  EXPECT_EQ(failed, 4);
  EXPECT_EQ(engine->failure(), "out of order");
  for (const bool wait : {false, true}) {
    try {
      if (wait)
        engine->generate(requests[0], {});
      else
        engine->submit(requests[0]);
      FAIL() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::device);
      EXPECT_THAT(error.what(), HasSubstr("the engine has failed: out of order"));
    }
  }
}

TEST(EngineSubmit, NotifiesAfterEachEvent) {
  std::atomic<int> notified{0};
  const auto engine = make_engine();
  RequestHandle handle = engine->submit(Request{.prompt = {1}, .max_tokens = 9}, [&] { ++notified; });
  int events = 0;
  while (handle.next(20000ms)) ++events;
  EXPECT_TRUE(engine->drain(20000ms));
  while (notified < events) std::this_thread::yield();
  EXPECT_EQ(events, 9);
}

TEST(EngineSubmit, SamplesShareThePromptAndDifferByTheirSeed) {
  const auto engine = make_engine({.sequences = 5});
  Request request{
      .prompt = random_tokens(3, 50, kVocab), .sampling = {.temperature = 1.f, .seed = 9}, .max_tokens = 20};
  request.samples = 4;
  const std::vector<Reply> replies = engine->generate(std::span(&request, 1), {});
  ASSERT_EQ(replies.size(), 4u);
  for (int sample = 0; sample < 4; ++sample) {
    EXPECT_EQ(replies[sample].tokens, alone(request, sample).tokens);
    EXPECT_EQ(replies[sample].usage.cached_tokens, sample == 0 ? 0 : 49);
  }
  EXPECT_NE(replies[0].tokens, replies[1].tokens);
  EXPECT_EQ(engine->stats().prompt_tokens, 50 + 3);
  request.samples = 1;
  request.sampling.seed = sample_seed(9, 2);
  EXPECT_EQ(engine->generate(request, {}).tokens, replies[2].tokens);
  expect_idle(*engine);
}

TEST(EngineSubmit, OneSampleIsCancelledAndTheOthersFinish) {
  const auto engine = make_engine();
  Request request{.prompt = {5, 6}, .sampling = {.temperature = 1.f, .seed = 4}, .max_tokens = 300};
  request.samples = 3;
  RequestHandle handle = engine->submit(request);
  std::array<std::vector<int32_t>, 3> tokens;
  std::array<FinishReason, 3> reasons{};
  while (const std::optional<Event> event = handle.next()) {
    const auto sample = static_cast<std::size_t>(event->sample);
    if (event->token >= 0) tokens[sample].push_back(event->token);
    if (event->finish) reasons[sample] = event->finish->reason;
    if (sample == 1 && tokens[1].size() == 2) handle.cancel(0, 1);
  }
  EXPECT_EQ(reasons, (std::array{FinishReason::length, FinishReason::cancelled, FinishReason::length}));
  EXPECT_LT(tokens[1].size(), 300u);
  EXPECT_EQ(tokens[0], alone(request, 0).tokens);
  EXPECT_EQ(tokens[2], alone(request, 2).tokens);
  expect_idle(*engine);
}

TEST(EngineSubmit, RefusesAVocabularyTooLargeToDrawFrom) {
  expect_error(ErrorKind::unsupported, {"a vocabulary of 600000", "up to 524288"}, [] {
    Engine(std::make_unique<ScriptedRunner>(kGroups, size_kv(kGroups, kContext, 1, 8), 600000), nullptr, {});
  });
}

TEST(EngineSubmit, RefusesParametersThatCannotBe) {
  const auto engine = make_engine();
  const auto error_of = [&](const std::function<void(Request&)>& change) -> std::string {
    Request request{.prompt = {1}, .max_tokens = 5};
    change(request);
    try {
      engine->submit(request);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(error_of([](Request& r) { r.samples = 0; }), "samples is 0, must be between 1 and 128");
  EXPECT_EQ(error_of([](Request& r) { r.samples = 1 << 30; }),
            "samples is 1073741824, must be between 1 and 128");
  EXPECT_EQ(error_of([](Request& r) { r.min_tokens = 6; }), "min_tokens is 6, must be between 0 and 5");
  EXPECT_EQ(error_of([](Request& r) { r.logprobs = 21; }), "logprobs is 21, must be between 0 and 20");
  EXPECT_EQ(error_of([](Request& r) { r.priority = -1001; }),
            "priority is -1001, must be between -1000 and 1000");
  EXPECT_EQ(error_of([](Request& r) { r.stop_tokens = {-1}; }),
            "stop_tokens: token id -1 is not in the model's vocabulary of 61");
  EXPECT_EQ(error_of([](Request& r) { r.sampling.logit_bias = {{61, 1.f}}; }),
            "logit_bias: token id 61 is not in the model's vocabulary of 61");
  EXPECT_EQ(error_of([](Request& r) { r.sampling.logit_bias = {{6, 101.f}}; }),
            "logit_bias of token 6 is 101, must be between -100 and 100");
  EXPECT_EQ(error_of([](Request& r) { r.sampling.presence_penalty = 3.f; }),
            "presence_penalty is 3, must be between -2 and 2");
  EXPECT_EQ(error_of([](Request&) {}), "accepted");
}

TEST(EngineSubmit, AMaskThatThrowsEndsItsRequestAlone) {
  struct Broken final : TokenMask {
    void allow_after(std::span<const int32_t>, std::span<uint32_t>) override {
      throw std::runtime_error("no grammar");
    }
  };
  const auto engine = make_engine();
  const std::vector<Request> requests{{.prompt = {1}, .max_tokens = 5, .mask = std::make_shared<Broken>()},
                                      {.prompt = {2}, .max_tokens = 5}};
  const std::vector<Reply> replies = engine->generate(requests, {});
  EXPECT_EQ(replies[0].finish, FinishReason::error);
  EXPECT_EQ(replies[0].error, "no grammar");
  EXPECT_EQ(replies[1].tokens, alone(requests[1]).tokens);
}

// For ThreadSanitizer above all: callers on several threads that submit, read, cancel and drop.
TEST(EngineSubmit, ManyCallersAtOnceGetWhatEachGetsAlone) {
  const auto engine = make_engine({.options = {.prefix_cache = true, .draft = DraftMethod::ngram}});
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&, caller] {
      for (int i = 0; i < 12; ++i) {
        Request request{.prompt = random_tokens(i % 3, 20 + caller, kVocab), .max_tokens = 25};
        RequestHandle handle = engine->submit(request);
        if ((i + caller) % 4 == 0) continue;
        if ((i + caller) % 4 == 1) handle.cancel();
        const std::vector<int32_t> tokens = read_tokens(handle), expected = alone(request).tokens;
        if ((i + caller) % 4 == 1)
          EXPECT_LE(tokens.size(), expected.size());
        else
          EXPECT_EQ(tokens, expected);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_TRUE(engine->drain(20000ms));
  expect_idle(*engine);
}

}  // namespace
}  // namespace carat
