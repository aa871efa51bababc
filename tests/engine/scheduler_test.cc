// Who gets on when not all can, seen through the step loop: order, priorities, sharing of steps, preemption.
#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "engine/scripted_runner.h"
#include "engine/step_loop.h"

namespace carat {
namespace {

constexpr int kVocab = 61, kContext = 400;
constexpr std::array<KvGroup, kKvGroups> kGroups{KvGroup{1, 1, 1, 0}, KvGroup{2, 1, 1, 8}};

/// A step loop and what has come out of it.
class Line {
 public:
  explicit Line(const RunnerOptions& limits, EngineOptions options = {.slowdown = 0})
      : options_(std::move(options)),
        runner_(kGroups, limits, kVocab),
        loop_(runner_, nullptr, options_, KvPages(kGroups, limits).longest_sequence(kContext)) {}

  std::size_t add(Request request) {
    submissions_.push_back(std::make_shared<Submission>(std::move(request), submissions_.size(), nullptr));
    loop_.add(submissions_.back());
    return submissions_.size() - 1;
  }
  void step() {
    loop_.step();
    for (const auto& [outbox, events] : loop_.take_events()) {
      for (const Event& event : events) {
        tokens_[event.request] += event.token >= 0 ? 1 : 0;
        if (event.finish) ended_.push_back(event.request), usage_[event.request] = event.finish->usage;
      }
    }
  }
  void run_to_the_end() {
    for (int steps = 0; !loop_.idle(); ++steps) {
      ASSERT_LT(steps, 10000) << "stuck";
      step();
    }
  }

  void cancel(std::size_t request) { submissions_[request]->cancelled = true; }

  const std::vector<std::size_t>& ended() const { return ended_; }
  int tokens(std::size_t request) { return tokens_[request]; }
  const Usage& usage(std::size_t request) { return usage_[request]; }
  EngineStats stats() const { return loop_.stats(); }

 private:
  EngineOptions options_;
  ScriptedRunner runner_;
  StepLoop loop_;
  std::vector<std::shared_ptr<Submission>> submissions_;
  std::vector<std::size_t> ended_;
  std::map<std::size_t, int> tokens_;
  std::map<std::size_t, Usage> usage_;
};

TEST(Scheduler, AShortPromptGetsThroughBesideALongOne) {
  Line line(size_kv(kGroups, kContext, 4, 16));
  const std::size_t longer = line.add({.prompt = random_tokens(1, 300, kVocab), .max_tokens = 1}),
                    shorter = line.add({.prompt = random_tokens(2, 30, kVocab), .max_tokens = 1});
  line.run_to_the_end();
  EXPECT_EQ(line.ended(), (std::vector<std::size_t>{shorter, longer}));
  EXPECT_LE(line.stats().steps, 330 / 16 + 2) << "steps were left half empty";
}

TEST(Scheduler, DecodingTakesPartInEveryStep) {
  Line line(size_kv(kGroups, kContext, 4, 8));
  const std::size_t decoding = line.add({.prompt = {1}, .max_tokens = 100});
  line.step();
  line.add({.prompt = random_tokens(1, 300, kVocab), .max_tokens = 1});
  line.add({.prompt = random_tokens(2, 300, kVocab), .max_tokens = 1});
  for (int step = 0; step < 60; ++step) {
    const int before = line.tokens(decoding);
    line.step();
    ASSERT_EQ(line.tokens(decoding), before + 1);
  }
}

TEST(Scheduler, OrderIsThatOfArrivalAndPriorityOvertakes) {
  Line line(size_kv(kGroups, kContext, 1, 16));
  const std::size_t first = line.add({.prompt = {1}, .max_tokens = 3});
  line.step();
  const std::size_t second = line.add({.prompt = {2}, .max_tokens = 3}),
                    urgent = line.add({.prompt = {3}, .max_tokens = 3, .priority = 1}),
                    patient = line.add({.prompt = {4}, .max_tokens = 3, .priority = -1}),
                    last = line.add({.prompt = {5}, .max_tokens = 3});
  line.run_to_the_end();
  EXPECT_EQ(line.ended(), (std::vector<std::size_t>{first, urgent, second, last, patient}));
}

TEST(Scheduler, PriorityOvertakesALimitedNumber) {
  Line line(size_kv(kGroups, kContext, 1, 16));
  line.add({.prompt = {9}, .max_tokens = 2});
  line.step();
  const std::size_t waiting = line.add({.prompt = {1}, .max_tokens = 1});
  for (int i = 0; i < 2 * kPriorityStep; ++i) line.add({.prompt = {2}, .max_tokens = 1, .priority = 1});
  line.run_to_the_end();
  const auto place = std::ranges::find(line.ended(), waiting) - line.ended().begin();
  EXPECT_LE(place, kPriorityStep + 1) << "it would wait for ever among urgent requests";
}

/// Room for the whole texts of two sequences, and four that grow to the limit.
TEST(Scheduler, TheLastInRankGivesWayAndAllEndWell) {
  RunnerOptions limits = size_kv(kGroups, 96, 2, 16, /*page_tokens=*/4);
  limits.pages[kSlidingGroup] = 40;
  limits.max_sequences = 4;
  for (const bool prefix_cache : {false, true}) {
    Line line(limits, {.prefix_cache = prefix_cache, .slowdown = 0});
    for (int i = 0; i < 4; ++i)
      line.add({.prompt = random_tokens(1 + static_cast<uint64_t>(i), 10, kVocab), .max_tokens = 80});
    line.run_to_the_end();
    EXPECT_EQ(line.ended().size(), 4u);
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(line.tokens(i), 80);
    EXPECT_EQ(line.usage(0).preemptions, 0);
    EXPECT_EQ(line.usage(1).preemptions, 0);
    EXPECT_GT(line.usage(3).preemptions, 0);
    EXPECT_EQ(line.stats().free_pages, line.stats().total_pages);
  }
}

TEST(Scheduler, AnAdmittedPromptIsNotPushedOutByTheNextOne) {
  RunnerOptions limits = size_kv(kGroups, 100, 1, 16, /*page_tokens=*/4);
  limits.max_sequences = 4;
  Line line(limits);
  for (int i = 0; i < 4; ++i)
    line.add({.prompt = random_tokens(1 + static_cast<uint64_t>(i), 60, kVocab), .max_tokens = 3});
  line.run_to_the_end();
  EXPECT_EQ(line.ended(), (std::vector<std::size_t>{0, 1, 2, 3}));
  EXPECT_EQ(line.stats().preemptions, 0) << "there was room for one prompt at a time";
}

TEST(Scheduler, SamplesBeyondTheRunningOnesFollowLater) {
  Line line(size_kv(kGroups, kContext, 2, 16), {.prefix_cache = true, .slowdown = 0});
  const std::size_t request =
      line.add({.prompt = random_tokens(1, 100, kVocab), .max_tokens = 4, .samples = 7});
  line.run_to_the_end();
  EXPECT_EQ(line.ended().size(), 7u);
  EXPECT_EQ(line.tokens(request), 28);
  EXPECT_LT(line.stats().prompt_tokens, 100 + 6 * 32) << "the prompt was computed again";
}

constexpr EngineOptions kCaching{.prefix_cache = true, .slowdown = 0};

TEST(Scheduler, PromptsThatBeginAlikeAndArriveTogetherAreComputedOnce) {
  Line line(size_kv(kGroups, kContext, 4, 16, /*page_tokens=*/4), kCaching);
  const std::vector<int32_t> text = random_tokens(1, 100, kVocab);
  std::vector<int32_t> longer = text, other = text;
  longer.resize(150, 3);
  other[50] = (other[50] + 1) % kVocab;
  line.add({.prompt = text, .max_tokens = 3});
  const std::size_t same = line.add({.prompt = text, .max_tokens = 3}),
                    goes_on = line.add({.prompt = longer, .max_tokens = 3}),
                    parts = line.add({.prompt = other, .max_tokens = 3});
  line.run_to_the_end();
  EXPECT_EQ(line.usage(0).cached_tokens, 0);
  EXPECT_EQ(line.usage(same).cached_tokens, 96) << "the last token's logits are wanted";
  EXPECT_EQ(line.usage(goes_on).cached_tokens, 100);
  EXPECT_EQ(line.usage(parts).cached_tokens, 48);
  EXPECT_EQ(line.stats().prompt_tokens, 100 + 4 + 50 + 52);
}

TEST(Scheduler, WhoWaitsForAPromptThatIsCancelledGoesOnFromThere) {
  Line line(size_kv(kGroups, kContext, 4, 16, /*page_tokens=*/4), kCaching);
  const std::vector<int32_t> text = random_tokens(1, 100, kVocab);
  for (int i = 0; i < 3; ++i) line.add({.prompt = text, .max_tokens = 3});
  line.step();
  line.step();
  line.cancel(0);
  line.run_to_the_end();
  EXPECT_EQ(line.ended().size(), 3u);
  EXPECT_EQ(line.usage(1).cached_tokens, 32) << "two steps were computed before";
  EXPECT_EQ(line.usage(2).cached_tokens, 96);
  EXPECT_EQ(line.stats().free_pages, line.stats().total_pages);
}

TEST(Scheduler, NobodyWaitsForAPromptThatComesLaterInLine) {
  Line line(size_kv(kGroups, kContext, 4, 16, /*page_tokens=*/4), kCaching);
  const std::vector<int32_t> text = random_tokens(1, 100, kVocab);
  const std::size_t patient = line.add({.prompt = text, .max_tokens = 1, .priority = -1});
  line.step();
  const std::size_t urgent = line.add({.prompt = text, .max_tokens = 1});
  line.run_to_the_end();
  EXPECT_EQ(line.usage(urgent).cached_tokens, 16) << "what was known when it came";
  EXPECT_EQ(line.ended().size(), 2u);
  EXPECT_EQ(line.tokens(patient), 1);
}

}  // namespace
}  // namespace carat
