// Random loads for the engine's step loop, made from a seed: requests of every kind that arrive and are
// cancelled at chosen steps, on page pools that are mostly too small. Each reply must be what its request
// gives alone.
#pragma once
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "engine/alone.h"
#include "engine/step_loop.h"

namespace carat {

/// Allows, after each reply, a third to all of the vocabulary: any function of the reply will do.
class HashMask final : public TokenMask {
 public:
  explicit HashMask(uint64_t seed) : seed_(seed) {}
  void allow_after(std::span<const int32_t> reply, std::span<uint32_t> allowed) override {
    uint64_t hash = seed_;
    for (const int32_t token : reply) hash = random_bits(hash, static_cast<uint64_t>(token));
    for (std::size_t word = 0; word < allowed.size(); ++word) {
      allowed[word] = static_cast<uint32_t>(random_bits(hash, word) | random_bits(hash, word + 99));
    }
  }

 private:
  uint64_t seed_;
};

class Workload {
 public:
  using MakeRunner = std::function<std::unique_ptr<Runner>(const RunnerOptions&)>;

  struct Shape {
    std::array<KvGroup, kKvGroups> groups;
    int vocab = 0;
    std::vector<int> page_tokens;
  };
  Workload(const Shape& shape, uint64_t seed) : shape_(shape), seed_(seed) {
    const int window = this->window();
    const int chunks[] = {1, 3, window - 1, window, window + 1, 2 * window};
    limits_.page_tokens = shape.page_tokens[below(static_cast<int>(shape.page_tokens.size()))];
    limits_.max_step_tokens = chunks[below(6)];
    limits_.max_sequences = 1 + below(6);
    context_ = window * (2 + below(5)) + below(3);
    const KvPages arithmetic(shape.groups, limits_);
    // Room for one to three of the longest sequences, and sometimes for what the cache would like to keep.
    const int sequences = 1 + below(3), spare = below(3) == 0 ? 40 : 0;
    for (int g = 0; g < kKvGroups; ++g) {
      limits_.pages[g] =
          arithmetic.reserved_pages(g, context_) * sequences + arithmetic.step_pages(g) + spare;
    }
    options_ = {.eos_tokens = {5, 6},
                .suppressed_tokens = {7},
                .max_positions = context_,
                .prefix_cache = below(3) > 0,
                .slowdown = 0,  // follows the clock, and these loads must not
                .draft = static_cast<DraftMethod>(below(4)),
                .draft_tokens = 1 + below(9),
                .draft_batch = 1 + below(6)};
    const int texts = 1 + below(3);
    for (int i = 0; i < texts; ++i) texts_.push_back(random_text());
    for (int left = 1 + below(7); left > 0; --left) add_request();
  }

  /// Runs all to its end.
  void run(const MakeRunner& make_runner) {
    const std::unique_ptr<Runner> runner = make_runner(limits_);
    StepLoop loop(*runner, nullptr, options_, context_);
    int steps = 0;
    for (std::size_t ended = 0; ended < replies_; ++steps) {
      ASSERT_LT(steps, 20000) << "stuck";
      for (Arrival& arrival : arrivals_) {
        if (arrival.step == steps) loop.add(arrival.submission);
        if (arrival.cancel_step != steps) continue;
        Submission& submission = *arrival.submission;
        const int sample = arrival.cancel_sample;
        (sample < 0 ? submission.cancelled : submission.cancelled_samples.at(sample)) = true;
      }
      loop.step();
      for (const auto& [outbox, events] : loop.take_events())
        ended += std::ranges::count_if(events, [&](const Event& event) { return receive(event); });
    }
    const EngineStats stats = loop.stats();
    EXPECT_TRUE(loop.idle());
    EXPECT_EQ(stats.free_pages, stats.total_pages) << "a page is lost";
    preemptions = stats.preemptions;
    accepted = stats.accepted_tokens;
    cached = stats.cached_tokens;
  }

  /// Compares with each request alone.
  void check(const MakeRunner& make_runner) {
    const std::unique_ptr<Runner> alone =
        make_runner(size_kv(shape_.groups, context_, 1, 2 * window() + 1, limits_.page_tokens));
    for (const Arrival& arrival : arrivals_) {
      const Request& request = arrival.submission->request;
      for (int sample = 0; sample < request.samples; ++sample) {
        SCOPED_TRACE("request " + std::to_string(arrival.submission->index) + ", sample " +
                     std::to_string(sample));
        const Reply expected = reply_alone(*alone, request, options_, context_, sample);
        compare(replies_by_.at({arrival.submission->index, sample}), expected, request);
      }
    }
  }

  int64_t preemptions = 0, accepted = 0, cached = 0;
  int cancelled = 0;

 private:
  struct Arrival {
    std::shared_ptr<Submission> submission;
    int step, cancel_step, cancel_sample;  // the last one -1: all of them
  };

  int below(int bound) { return static_cast<int>(random_bits(seed_, counter_++) % bound); }
  int window() const { return shape_.groups[kSlidingGroup].window; }

  std::vector<int32_t> random_text() {
    std::vector<int32_t> text;
    const int period = below(2) == 0 ? 1 + below(12) : context_;  // some texts repeat, for the drafts' sake
    for (int i = 0; i < context_; ++i)
      text.push_back(i < period ? below(shape_.vocab) : text[static_cast<std::size_t>(i - period)]);
    return text;
  }

  int random_length() {
    const int w = window(), p = limits_.page_tokens;
    const int edges[] = {1, p, p + 1, 2 * p, w - 1, w, w + 1, 2 * w, context_ - 1};
    return std::clamp(below(2) == 0 ? edges[below(9)] : 1 + below(context_ - 1), 1, context_ - 1);
  }

  void add_request() {
    Request request;
    request.prompt = texts_[below(static_cast<int>(texts_.size()))];
    request.prompt.resize(random_length());
    if (below(3) == 0)  // the texts part here
      request.prompt[below(static_cast<int>(request.prompt.size()))] = below(shape_.vocab);
    request.max_tokens = below(3 * window());
    request.ignore_eos = below(2) == 0;
    if (below(4) == 0) request.stop_tokens = {below(shape_.vocab)};
    if (below(4) == 0) request.min_tokens = below(request.max_tokens + 1);
    if (below(3) == 0) request.samples = 2 + below(3);
    if (below(4) == 0) request.priority = below(5) - 2;
    if (below(6) == 0) request.logprobs = below(4);
    if (below(4) == 0) request.cache_salt = "tenant";
    if (below(6) == 0) request.mask = std::make_shared<HashMask>(counter_);
    choose_sampling(request.sampling);
    replies_ += static_cast<std::size_t>(request.samples);
    const int step = below(2) == 0 ? 0 : below(60);
    const int cancel_step = below(5) == 0 ? step + below(40) : -1;
    const int cancel_sample = below(2) == 0 ? below(request.samples) : -1;
    arrivals_.push_back({std::make_shared<Submission>(std::move(request), arrivals_.size(), nullptr), step,
                         cancel_step, cancel_sample});
  }

  void choose_sampling(SamplingParams& sampling) {
    if (below(2) == 0)
      sampling = {.temperature = 0.8f, .top_k = 20, .top_p = 0.9f, .seed = random_bits(seed_, counter_++)};
    if (below(5) == 0) sampling.repetition_penalty = 1.3f;
    if (below(5) == 0) sampling.presence_penalty = 0.5f;
    if (below(5) == 0) sampling.frequency_penalty = 0.7f;
    if (below(5) == 0) sampling.logit_bias = {{below(shape_.vocab), 3.f}, {below(shape_.vocab), -100.f}};
  }

  /// True for the last event of a reply.
  bool receive(const Event& event) {
    Reply& reply = replies_by_[{event.request, event.sample}];
    if (event.token >= 0) reply.tokens.push_back(event.token);
    if (event.logprobs) reply.logprobs.push_back(*event.logprobs);
    if (!event.finish) return false;
    reply.finish = event.finish->reason;
    reply.usage = event.finish->usage;
    return true;
  }

  void compare(const Reply& reply, const Reply& expected, const Request& request) {
    const int prompt = static_cast<int>(request.prompt.size());
    EXPECT_EQ(reply.usage.prompt_tokens, prompt);
    EXPECT_EQ(reply.usage.reply_tokens, std::ssize(reply.tokens));
    EXPECT_LT(reply.usage.cached_tokens, prompt);
    EXPECT_LE(reply.usage.accepted_tokens, reply.usage.drafted_tokens);
    if (reply.finish == FinishReason::cancelled) {
      ++cancelled;
      ASSERT_LE(reply.tokens.size(), expected.tokens.size());
      EXPECT_TRUE(std::ranges::equal(reply.tokens, std::span(expected.tokens).first(reply.tokens.size())));
      return;
    }
    EXPECT_EQ(reply.tokens, expected.tokens);
    EXPECT_EQ(reply.finish, expected.finish);
    ASSERT_EQ(reply.logprobs.size(), expected.logprobs.size());
    for (std::size_t i = 0; i < reply.logprobs.size(); ++i) {
      EXPECT_EQ(reply.logprobs[i].drawn, expected.logprobs[i].drawn);
      EXPECT_EQ(reply.logprobs[i].best.size(), expected.logprobs[i].best.size());
    }
  }

  const Shape& shape_;
  const uint64_t seed_;
  uint64_t counter_ = 0;
  RunnerOptions limits_;
  EngineOptions options_;
  int context_ = 0;
  std::vector<std::vector<int32_t>> texts_;
  std::vector<Arrival> arrivals_;
  std::size_t replies_ = 0;
  std::map<std::pair<std::size_t, int>, Reply> replies_by_;
};

}  // namespace carat
