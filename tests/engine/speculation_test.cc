// Drafts change how many steps a reply takes and nothing else.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/alone.h"
#include "engine/divergence.h"
#include "engine/engine.h"
#include "engine/tiny_plan.h"
#include "ref/ref_runner.h"

namespace carat {
namespace {

constexpr int kWindow = 8, kContext = 100;

Engine make_engine(const ModelPlan& plan, DraftMethod draft, std::vector<int32_t> eos = {},
                   int draft_tokens = 6) {
  EngineOptions options{.eos_tokens = std::move(eos),
                        .max_positions = kContext,
                        .slowdown = 0,  // steps are counted
                        .draft = draft,
                        .draft_tokens = draft_tokens};
  const RunnerOptions limits = size_kv(plan.kv_groups, kContext, 8, 64, /*page_tokens=*/4);
  return Engine(make_ref_runner(plan, limits), nullptr, options);
}

/// Prompts with repetitions of every length, up to several windows long.
std::vector<Request> repetitive_requests(int count, int vocab) {
  std::vector<Request> requests;
  for (int i = 0; i < count; ++i) {
    Request request;
    const int length = 1 + i % 55, period = 1 + i % 9;
    for (int t = 0; t < length; ++t)
      request.prompt.push_back(
          static_cast<int32_t>(random_bits(i, t % period) % static_cast<uint64_t>(vocab)));
    request.max_tokens = 10 + i % 30;
    requests.push_back(request);
  }
  return requests;
}

class Speculation : public testing::TestWithParam<DraftMethod> {};

TEST_P(Speculation, GivesTheSameGreedyTextOfTwoHundredPrompts) {
  const ModelPlan plan = TinyPlan::make(23, kWindow, 3);
  const std::vector<Request> requests = repetitive_requests(200, plan.vocab);
  const std::vector<int32_t> eos{4, 9};
  Engine plain = make_engine(plan, DraftMethod::none, eos), drafting = make_engine(plan, GetParam(), eos);
  const std::vector<Reply> expected = plain.generate(requests, {}), replies = drafting.generate(requests, {});
  int ended_by_eos = 0, across_window = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    ASSERT_EQ(replies[i].tokens, expected[i].tokens) << "prompt " << i;
    ASSERT_EQ(replies[i].finish, expected[i].finish) << "prompt " << i;
    const bool accepted = replies[i].usage.accepted_tokens > 0;
    ended_by_eos += accepted && replies[i].finish == FinishReason::stop ? 1 : 0;
    across_window += accepted && requests[i].prompt.size() > 2 * kWindow ? 1 : 0;
  }
  // A drafter with random weights is right once in as many guesses as there are tokens.
  const bool guesses_well = GetParam() != DraftMethod::model;
  EXPECT_GT(ended_by_eos, 5);
  EXPECT_GT(across_window, guesses_well ? 20 : 5);
  const EngineStats stats = drafting.stats();
  EXPECT_GT(stats.accepted_tokens, guesses_well ? 500 : 20);
  EXPECT_LE(stats.accepted_tokens, stats.drafted_tokens);
  EXPECT_TRUE(!guesses_well || stats.steps < plain.stats().steps);
  EXPECT_EQ(stats.free_pages, stats.total_pages);
}

/// A draft whose last token is eos: the reply ends there, and nothing behind it is seen.
TEST_P(Speculation, EndsAtAnEosInsideADraft) {
  const ModelPlan plan = TinyPlan::make(23, kWindow, 3);
  Engine endless = make_engine(plan, DraftMethod::none);
  Request request{.prompt = {1, 2}, .max_tokens = 60};
  const std::vector<int32_t> tokens = endless.generate(request, {}).tokens;
  // What comes twice is drafted the second time; as a stop token it may only count from there on.
  request.prompt.insert(request.prompt.end(), tokens.begin(), tokens.begin() + 30);
  request.max_tokens = 30;
  for (int at = 1; at < 30; ++at) {
    if (std::ranges::count(tokens.begin() + 30, tokens.begin() + 30 + at, tokens[30 + at]) > 0) continue;
    Engine drafting = make_engine(plan, GetParam(), {tokens[30 + at]}, /*draft_tokens=*/16);
    const Reply reply = drafting.generate(request, {});
    EXPECT_EQ(reply.tokens, std::vector<int32_t>(tokens.begin() + 30, tokens.begin() + 30 + at + 1));
    EXPECT_EQ(reply.finish, FinishReason::stop);
    EXPECT_EQ(reply.usage.reply_tokens, at + 1);
  }
}

TEST_P(Speculation, SeededSamplingGivesTheSameTextWithAndWithoutDrafts) {
  const ModelPlan plan = TinyPlan::make(11, kWindow, 3);
  std::vector<Request> requests = repetitive_requests(60, plan.vocab);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i].sampling = {.temperature = 0.7f, .top_p = 0.9f, .repetition_penalty = 1.1f, .seed = i};
    requests[i].sampling.frequency_penalty = 0.1f;
  }
  Engine plain = make_engine(plan, DraftMethod::none), drafting = make_engine(plan, GetParam());
  const std::vector<Reply> expected = plain.generate(requests, {}), replies = drafting.generate(requests, {});
  for (std::size_t i = 0; i < requests.size(); ++i) EXPECT_EQ(replies[i].tokens, expected[i].tokens) << i;
  EXPECT_GT(drafting.stats().accepted_tokens, 20);
}

/// The first two tokens behind a text that repeats, over many seeds, against the product of the model's own
/// probabilities.
TEST_P(Speculation, DrawsTheModelsDistribution) {
  constexpr int kVocab = 6, kDraws = 6000;
  const ModelPlan plan = TinyPlan::make(kVocab, kWindow, 5);
  std::vector<int32_t> prompt{1,
                              2};  // and what the model likes to follow it, so that guesses are often right
  for (const int32_t token :
       make_engine(plan, DraftMethod::none).generate({.prompt = prompt, .max_tokens = 20}, {}).tokens)
    prompt.push_back(token);
  const auto probabilities = [&](const std::vector<int32_t>& tokens) {
    const RunnerOptions limits = size_kv(plan.kv_groups, kContext, 1, 64);
    const auto runner = make_ref_runner(plan, limits);
    KvPages pages(plan.kv_groups, limits);
    ScopedPages sequence(pages);
    const std::vector<float> logits = logits_after(*runner, pages, sequence, tokens, 0);
    std::vector<double> p;
    for (const float logit : logits) p.push_back(std::exp(logit - log_sum(logits)));
    return p;
  };
  Engine engine = make_engine(plan, GetParam());
  std::vector<Request> requests(kDraws);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i] = {.prompt = prompt, .sampling = {.temperature = 1.f, .seed = 1000 + i}, .max_tokens = 4};
  }
  std::map<std::pair<int32_t, int32_t>, double> counts;
  for (const Reply& reply : engine.generate(requests, {})) ++counts[{reply.tokens[0], reply.tokens[1]}];
  double chi_square = 0;
  int freedom = -1;
  const std::vector<double> first = probabilities(prompt);
  for (int32_t a = 0; a < kVocab; ++a) {
    std::vector<int32_t> longer = prompt;
    longer.push_back(a);
    const std::vector<double> second = probabilities(longer);
    for (int32_t b = 0; b < kVocab; ++b) {
      const double mean = kDraws * first[a] * second[b];
      if (mean < 5) continue;
      chi_square += (counts[{a, b}] - mean) * (counts[{a, b}] - mean) / mean;
      ++freedom;
    }
  }
  EXPECT_GT(freedom, 8);
  EXPECT_LT(chi_square, freedom + 5 * std::sqrt(2. * freedom));
  EXPECT_GT(engine.stats().accepted_tokens, 200) << "the drafts took no part";
}

std::string method_name(const testing::TestParamInfo<DraftMethod>& test) {
  return test.param == DraftMethod::ngram ? "ngram" : test.param == DraftMethod::suffix ? "suffix" : "model";
}

INSTANTIATE_TEST_SUITE_P(, Speculation,
                         testing::Values(DraftMethod::ngram, DraftMethod::suffix, DraftMethod::model),
                         method_name);

}  // namespace
}  // namespace carat
