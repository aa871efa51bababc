#include "engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "engine/scripted_runner.h"

namespace carat {
namespace {

using testing::HasSubstr;

constexpr int kVocab = 61;

std::array<KvGroup, kKvGroups> groups_with(int window) {
  return {KvGroup{1, 1, 1, 0}, KvGroup{2, 1, 1, window}};
}

/// What the engine must reply, computed on the token list alone.
Reply expected_reply(const Request& request, const EngineOptions& options, int window, int max_context) {
  Reply reply;
  ScriptedSequence sequence(groups_with(window));
  std::vector<int32_t> tokens = request.prompt;
  std::vector<float> logits;
  for (const int32_t token : tokens) logits = sequence.push(token, kVocab);
  while (static_cast<int>(reply.tokens.size()) < request.max_tokens &&
         static_cast<int>(tokens.size()) < max_context) {
    const int32_t token = sample(
        logits, {&request.sampling, static_cast<int32_t>(tokens.size()), tokens, options.suppressed_tokens});
    tokens.push_back(token);
    reply.tokens.push_back(token);
    if (!request.ignore_eos && std::ranges::count(options.eos_tokens, token) > 0) {
      reply.finish = FinishReason::stop;
      break;
    }
    logits = sequence.push(token, kVocab);
  }
  return reply;
}

class EngineTest : public testing::Test {
 protected:
  static constexpr int kWindow = 8;

  /// An engine of four sequences of `context` tokens; keeps the runner at hand.
  Engine make_engine(int context = 100, int step_tokens = 16, EngineOptions options = {}) {
    const auto groups = groups_with(kWindow);
    auto runner = std::make_unique<ScriptedRunner>(groups, size_kv(groups, context, 4, step_tokens), kVocab);
    runner_ = runner.get();
    options.max_positions = context;
    return Engine(std::move(runner), nullptr, std::move(options));
  }

  static void expect_all_pages_free(const Engine& engine) {
    const EngineStats stats = engine.stats();
    EXPECT_EQ(stats.free_pages, stats.total_pages);
  }

  ScriptedRunner* runner_ = nullptr;
};

std::string error_of(Engine& engine, const Request& request) {
  try {
    engine.generate(request, {});
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
    return error.what();
  }
  return "accepted";
}

TEST_F(EngineTest, EmitsOneEventPerToken) {
  Engine engine = make_engine();
  const std::vector<Request> requests{{.prompt = {1, 2, 3}, .max_tokens = 7},
                                      {.prompt = {4}, .max_tokens = 9}};
  std::vector<std::vector<int32_t>> seen(2);
  const std::vector<Reply> replies = engine.generate(requests, [&](const TokenEvent& event) {
    seen.at(event.request).push_back(event.token);
    EXPECT_EQ(event.text, "");
    return true;
  });
  for (int i : {0, 1}) {
    EXPECT_EQ(replies[i].tokens, seen[i]);
    EXPECT_EQ(static_cast<int>(seen[i].size()), requests[i].max_tokens);
    EXPECT_EQ(replies[i].finish, FinishReason::length);
    EXPECT_GT(replies[i].first_token_s, 0);
    EXPECT_GE(replies[i].total_s, replies[i].first_token_s);
  }
}

TEST_F(EngineTest, StopsOnAnyEosTokenUnlessToldOtherwise) {
  Engine plain = make_engine();
  Request request{.prompt = {1, 2}, .max_tokens = 20};
  const std::vector<int32_t> all = plain.generate(request, {}).tokens;
  Engine engine = make_engine(100, 16, {.eos_tokens = {-5, all[6]}, .suppressed_tokens = {}});
  const auto first = std::ranges::find(all, all[6]) - all.begin();
  const Reply reply = engine.generate(request, {});
  EXPECT_EQ(reply.tokens, std::vector<int32_t>(all.begin(), all.begin() + first + 1));
  EXPECT_EQ(reply.finish, FinishReason::stop);
  request.ignore_eos = true;
  EXPECT_EQ(engine.generate(request, {}).tokens, all);
}

TEST_F(EngineTest, NeverDrawsSuppressedTokens) {
  const Request request{.prompt = {1, 2}, .max_tokens = 30};
  Engine plain = make_engine();
  const std::vector<int32_t> banned = plain.generate(request, {}).tokens;
  Engine engine = make_engine(100, 16, {.eos_tokens = {}, .suppressed_tokens = banned});
  const std::vector<int32_t> drawn = engine.generate(request, {}).tokens;
  EXPECT_EQ(drawn.size(), 30u);
  for (const int32_t token : drawn) EXPECT_EQ(std::ranges::count(banned, token), 0);
}

TEST_F(EngineTest, CancelsOneRequestAndFinishesTheOthers) {
  Engine engine = make_engine();
  const std::vector<Request> requests{{.prompt = {1}, .max_tokens = 12}, {.prompt = {2}, .max_tokens = 12}};
  const std::vector<Reply> alone{engine.generate(requests[0], {}), engine.generate(requests[1], {})};
  int left = 3;
  const std::vector<Reply> replies =
      engine.generate(requests, [&](const TokenEvent& event) { return event.request == 1 || --left > 0; });
  EXPECT_EQ(replies[0].finish, FinishReason::cancelled);
  EXPECT_EQ(replies[0].tokens, std::vector<int32_t>(alone[0].tokens.begin(), alone[0].tokens.begin() + 3));
  EXPECT_EQ(replies[1].finish, FinishReason::length);
  EXPECT_EQ(replies[1].tokens, alone[1].tokens);
  expect_all_pages_free(engine);
}

TEST_F(EngineTest, CallbackThatThrowsLeavesAUsableEngine) {
  Engine engine = make_engine();
  const Request request{.prompt = random_tokens(1, 20, kVocab), .max_tokens = 5};
  const std::vector<int32_t> tokens = engine.generate(request, {}).tokens;
  EXPECT_THROW(engine.generate(request, [](const TokenEvent&) -> bool { throw std::runtime_error("stop"); }),
               std::runtime_error);
  expect_all_pages_free(engine);
  EXPECT_EQ(engine.generate(request, {}).tokens, tokens);
}

TEST_F(EngineTest, LogitsThatAreNotFiniteEndTheirRequestAlone) {
  Engine engine = make_engine();
  const std::vector<Request> requests{{.prompt = {1}, .max_tokens = 9}, {.prompt = {7, 59}, .max_tokens = 4}};
  const Reply other = engine.generate(requests[0], {});
  runner_->poison(59);
  ASSERT_EQ(std::ranges::count(other.tokens, 59), 0);
  const std::vector<Reply> replies = engine.generate(requests, {});
  EXPECT_EQ(replies[0].tokens, other.tokens);
  EXPECT_EQ(replies[1].finish, FinishReason::error);
  EXPECT_TRUE(replies[1].tokens.empty());
  EXPECT_THAT(replies[1].error, HasSubstr("logits after 2 tokens are not finite"));
  expect_all_pages_free(engine);
}

TEST_F(EngineTest, EndsWithLengthWhenTheContextIsFull) {
  Engine engine = make_engine(/*context=*/40);
  EXPECT_EQ(engine.max_context(), 40);
  const std::vector<Request> requests{{.prompt = random_tokens(1, 30, kVocab), .max_tokens = 1 << 30},
                                      {.prompt = random_tokens(2, 39, kVocab), .max_tokens = 5},
                                      {.prompt = {3}, .max_tokens = 39}};
  const std::vector<Reply> replies = engine.generate(requests, {});
  EXPECT_EQ(replies[0].tokens.size(), 10u);
  EXPECT_EQ(replies[1].tokens.size(), 1u);
  EXPECT_EQ(replies[2].tokens.size(), 39u);
  for (const Reply& reply : replies) EXPECT_EQ(reply.finish, FinishReason::length);
}

TEST_F(EngineTest, RefusesWhatItCannotRunAndNamesTheReason) {
  Engine engine = make_engine(/*context=*/40);
  EXPECT_THAT(error_of(engine, {}), HasSubstr("the prompt is empty"));
  EXPECT_THAT(error_of(engine, {.prompt = random_tokens(1, 40, kVocab)}),
              HasSubstr("has 40 tokens; the context of 40"));
  EXPECT_THAT(error_of(engine, {.prompt = {1, kVocab}}), HasSubstr("token id 61 at position 1"));
  EXPECT_THAT(error_of(engine, {.prompt = {-1}}), HasSubstr("token id -1"));
  EXPECT_THAT(error_of(engine, {.prompt = {1}, .max_tokens = -1}), HasSubstr("max_tokens is -1"));
  EXPECT_THAT(error_of(engine, {.prompt = {1}, .stop = {"x"}}), HasSubstr("need a tokenizer"));
  EXPECT_THAT(error_of(engine, {.prompt = {1}, .sampling = {.top_p = 2.f}}), HasSubstr("top_p is 2"));
  const std::vector<Request> second_is_bad{{.prompt = {1}}, {}};
  int events = 0;
  try {
    engine.generate(second_is_bad, [&](const TokenEvent&) { return ++events > 0; });
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("request 1: the prompt is empty"));
  }
  EXPECT_EQ(events, 0);
  EXPECT_EQ(error_of(engine, {.prompt = {1}, .max_tokens = 2}), "accepted");
}

TEST_F(EngineTest, ZeroTokensGiveAnEmptyReplyWithoutAStep) {
  Engine engine = make_engine();
  const std::vector<Request> requests{{.prompt = {1}, .max_tokens = 0}, {.prompt = {1}, .max_tokens = 0}};
  for (const Reply& reply : engine.generate(requests, {})) {
    EXPECT_TRUE(reply.tokens.empty());
    EXPECT_EQ(reply.finish, FinishReason::length);
  }
  EXPECT_EQ(runner_->largest_step(), 0);
  EXPECT_TRUE(engine.generate(std::vector<Request>{}, {}).empty());
}

TEST_F(EngineTest, RefusesARunnerWithoutMemoryForAStep) {
  const auto groups = groups_with(kWindow);
  RunnerOptions limits = size_kv(groups, 100, 1, 64);
  limits.pages[kSlidingGroup] = 1;
  EXPECT_THROW(Engine(std::make_unique<ScriptedRunner>(groups, limits, kVocab), nullptr, {}), Error);
  limits.max_sequences = 0;
  EXPECT_THROW(Engine(std::make_unique<ScriptedRunner>(groups, limits, kVocab), nullptr, {}), Error);
}

TEST_F(EngineTest, DecodingGoesOnWhileALongPromptArrives) {
  Engine engine = make_engine(/*context=*/400, /*step_tokens=*/4);
  const std::vector<Request> requests{{.prompt = {1}, .max_tokens = 60},
                                      {.prompt = random_tokens(1, 150, kVocab), .max_tokens = 1}};
  int decoded_before_prompt_was_read = 0;
  bool prompt_was_read = false;
  engine.generate(requests, [&](const TokenEvent& event) {
    prompt_was_read |= event.request == 1;
    decoded_before_prompt_was_read += prompt_was_read ? 0 : 1;
    return true;
  });
  EXPECT_EQ(decoded_before_prompt_was_read,
            51);  // 3 prompt tokens go with each but the first, which is measured
  EXPECT_EQ(runner_->largest_step(), 4);
}

/// Random requests on tight page pools: every reply equals the one computed without any pages.
class EngineSchedules : public testing::TestWithParam<std::tuple<int, int, int>> {};

TEST_P(EngineSchedules, EveryReplyEqualsTheRequestAlone) {
  const auto [window, page_tokens, chunk_kind] = GetParam();
  const int chunks[] = {1, 3, window - 1, window, window + 1, 2 * window};
  const auto groups = groups_with(window);
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    uint64_t counter = 0;
    const auto random = [&](int below) { return static_cast<int>(random_bits(seed, counter++) % below); };
    RunnerOptions limits;
    limits.page_tokens = page_tokens;
    limits.max_step_tokens = chunks[chunk_kind];
    limits.max_sequences = 1 + random(6);
    const int context = window * (2 + random(5)) + random(3);
    const KvPages arithmetic(groups, limits);
    for (int g = 0; g < kKvGroups; ++g) {  // room for one to three of the longest sequences
      limits.pages[g] = arithmetic.reserved_pages(g, context) * (1 + random(3)) + arithmetic.step_pages(g);
    }
    EngineOptions options{.eos_tokens = {5, 6}, .suppressed_tokens = {7}, .max_positions = context};
    Engine engine(std::make_unique<ScriptedRunner>(groups, limits, kVocab), nullptr, options);
    ASSERT_EQ(engine.max_context(), context);

    std::vector<Request> requests(1 + random(8));
    for (Request& request : requests) {
      const int edges[] = {1, page_tokens, page_tokens + 1, window - 1, window, window + 1, context - 1};
      const int length = random(2) == 0 ? edges[random(7)] : 1 + random(context - 1);
      request.prompt = random_tokens(counter++, std::min(length, context - 1), kVocab);
      request.max_tokens = random(3 * window);
      request.ignore_eos = random(2) == 0;
      if (random(2) == 0)
        request.sampling = {.temperature = 0.8f, .top_k = 20, .top_p = 0.9f, .seed = counter++};
      if (random(4) == 0) request.sampling.repetition_penalty = 1.3f;
    }
    const std::vector<Reply> replies = engine.generate(requests, {});
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const Reply expected = expected_reply(requests[i], options, window, context);
      EXPECT_EQ(replies[i].tokens, expected.tokens) << "request " << i;
      EXPECT_EQ(replies[i].finish, expected.finish) << "request " << i;
    }
    EXPECT_EQ(engine.stats().free_pages, limits.pages);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(, EngineSchedules,
                         testing::Combine(testing::Values(8, 16), testing::Values(1, 4, 5, 8, 32),
                                          testing::Range(0, 6)));

}  // namespace
}  // namespace carat
