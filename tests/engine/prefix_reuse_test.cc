// The prefix cache as a caller sees it, on the real model: texts are those of a cold run, and cached_tokens
// says what was saved.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/tiny_plan.h"
#include "ref/ref_runner.h"

namespace carat {
namespace {

constexpr int kVocab = 41, kPage = 4, kContext = 120;

class PrefixReuse : public testing::TestWithParam<int> {
 protected:
  Engine make_engine(bool prefix_cache) const {
    RunnerOptions limits = size_kv(plan_.kv_groups, kContext, 4, 32, kPage);
    for (int& pages : limits.pages) pages *= 3;
    return Engine(make_ref_runner(plan_, limits), nullptr,
                  {.max_positions = kContext, .prefix_cache = prefix_cache});
  }
  Reply cold(const Request& request) const { return make_engine(false).generate(request, {}); }
  static std::vector<int32_t> text(int count, uint64_t seed = 1) {
    std::vector<int32_t> tokens;
    for (int i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>(random_bits(seed, i) % kVocab));
    return tokens;
  }
  static int whole_pages(int tokens) { return tokens / kPage * kPage; }

  int window() const { return GetParam(); }
  const ModelPlan plan_ = TinyPlan::make(kVocab, GetParam(), 11);
};

TEST_P(PrefixReuse, TheSamePromptTwiceBelowAtAndAboveTheWindow) {
  Engine engine = make_engine(true);
  for (const int length : {3, window() - 1, window(), window() + 1, 2 * window(), 5 * window() + 3}) {
    SCOPED_TRACE(length);
    const Request request{.prompt = text(length, static_cast<uint64_t>(length)), .max_tokens = 10};
    const Reply expected = cold(request), first = engine.generate(request, {}),
                second = engine.generate(request, {});
    EXPECT_EQ(first.tokens, expected.tokens);
    EXPECT_EQ(second.tokens, expected.tokens);
    EXPECT_EQ(first.usage.cached_tokens, 0);
    EXPECT_EQ(second.usage.cached_tokens, whole_pages(length - 1));
  }
}

TEST_P(PrefixReuse, ASharedBeginningThenAnotherEnd) {
  Engine engine = make_engine(true);
  const int shared = 4 * window();
  engine.generate({.prompt = text(shared + 1), .max_tokens = 1}, {});
  for (const int tail : {1, window() - 1, window(), 2 * window()}) {
    SCOPED_TRACE(tail);
    Request request{.prompt = text(shared), .max_tokens = 8};
    const std::vector<int32_t> end = text(tail, 100 + static_cast<uint64_t>(tail));
    request.prompt.insert(request.prompt.end(), end.begin(), end.end());
    const Reply reply = engine.generate(request, {});
    EXPECT_EQ(reply.tokens, cold(request).tokens);
    EXPECT_GE(reply.usage.cached_tokens, tail > 1 ? shared : 0);
  }
}

TEST_P(PrefixReuse, AnEditedFirstMessageIsComputedAgain) {
  Engine engine = make_engine(true);
  Request request{.prompt = text(5 * window()), .max_tokens = 8};
  engine.generate(request, {});
  request.prompt[1] = (request.prompt[1] + 1) % kVocab;
  const Reply reply = engine.generate(request, {});
  EXPECT_EQ(reply.tokens, cold(request).tokens);
  EXPECT_EQ(reply.usage.cached_tokens, 0);
}

TEST_P(PrefixReuse, AConversationReusesItsReplies) {
  Engine engine = make_engine(true);
  Request turn{.prompt = text(window() + 3), .max_tokens = 10};
  for (int i = 0; i < 4; ++i) {
    const int known = static_cast<int>(turn.prompt.size()) + 9;  // the last token of a reply is never run
    const Reply reply = engine.generate(turn, {});
    EXPECT_EQ(reply.tokens, cold(turn).tokens) << "turn " << i;
    turn.prompt.insert(turn.prompt.end(), reply.tokens.begin(), reply.tokens.end());
    const std::vector<int32_t> question = text(5, 50 + static_cast<uint64_t>(i));
    turn.prompt.insert(turn.prompt.end(), question.begin(), question.end());
    EXPECT_EQ(engine.generate({.prompt = turn.prompt, .max_tokens = 1}, {}).usage.cached_tokens,
              whole_pages(known));
  }
}

TEST_P(PrefixReuse, OtherTenantsTextsAreNotFound) {
  Engine engine = make_engine(true);
  Request request{.prompt = text(3 * window()), .max_tokens = 4, .cache_salt = "a"};
  engine.generate(request, {});
  request.cache_salt = "b";
  EXPECT_EQ(engine.generate(request, {}).usage.cached_tokens, 0);
  request.cache_salt = "a";
  EXPECT_GT(engine.generate(request, {}).usage.cached_tokens, 0);
}

INSTANTIATE_TEST_SUITE_P(Windows, PrefixReuse, testing::Values(8, 16), testing::PrintToStringParamName());

}  // namespace
}  // namespace carat
