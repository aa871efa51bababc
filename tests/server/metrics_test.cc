#include "server/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace carat {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Event token_at(double drawn_s, std::size_t request = 0, int sample = 0) {
  Event event;
  event.request = request;
  event.sample = sample;
  event.token = 1;
  event.drawn_s = drawn_s;
  return event;
}

TEST(Metrics, TellFirstTokensFromTheOthers) {
  Metrics metrics;
  ReplyMetrics reply(metrics, 2);
  reply.observe(token_at(3));
  reply.observe(token_at(3.5));
  reply.observe(token_at(2, 0, 1));
  Event last = token_at(4.5);
  last.finish.emplace();
  last.finish->reason = FinishReason::stop;
  last.finish->total_s = 4.5;
  reply.observe(last);
  const std::string text = metrics.text("carat", "m", nullptr);
  EXPECT_THAT(text, HasSubstr("carat:time_to_first_token_seconds_count{model_name=\"m\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("carat:time_to_first_token_seconds_sum{model_name=\"m\"} 5\n"));
  EXPECT_THAT(text, HasSubstr("carat:inter_token_latency_seconds_count{model_name=\"m\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("carat:inter_token_latency_seconds_sum{model_name=\"m\"} 1.5\n"));
  EXPECT_THAT(text, HasSubstr("carat:e2e_request_latency_seconds_sum{model_name=\"m\"} 4.5\n"));
  EXPECT_THAT(text, HasSubstr("request_success_total{model_name=\"m\",finished_reason=\"stop\"} 1\n"));
}

TEST(Metrics, AReplyThatNobodyReadToItsEndWasAborted) {
  Metrics metrics;
  {
    ReplyMetrics reply(metrics, 2);
  }
  EXPECT_THAT(metrics.text("vllm", "m", nullptr),
              HasSubstr("vllm:request_success_total{model_name=\"m\",finished_reason=\"abort\"} 2\n"));
}

TEST(Metrics, BucketsAreCumulativeAndALimitBelongsToItsBucket) {
  constexpr double limits[] = {1, 2};
  Histogram histogram(limits);
  for (const double value : {0.5, 1., 1.5, 99.}) histogram.observe(value);
  EXPECT_EQ(histogram.text("h", "a=\"b\""),
            "h_bucket{a=\"b\",le=\"1\"} 2\nh_bucket{a=\"b\",le=\"2\"} 3\nh_bucket{a=\"b\",le=\"+Inf\"} 4\n"
            "h_sum{a=\"b\"} 102\nh_count{a=\"b\"} 4\n");
}

TEST(Metrics, ShowTheEnginesNumbersUnderVllmsNames) {
  EngineStats stats;
  stats.running = 3;
  stats.waiting = 2;
  stats.total_pages = {10, 4};
  stats.free_pages = {5, 1};
  stats.prompt_tokens = 60;
  stats.cached_tokens = 40;
  const std::string text = Metrics().text("carat", "m", &stats);
  EXPECT_THAT(text, HasSubstr("# TYPE carat:num_requests_running gauge\n"));
  EXPECT_THAT(text, HasSubstr("carat:num_requests_running{model_name=\"m\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("carat:num_requests_waiting{model_name=\"m\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("carat:kv_cache_usage_perc{model_name=\"m\"} 0.75\n"));
  EXPECT_THAT(text, HasSubstr("carat:prompt_tokens_total{model_name=\"m\"} 100\n"));
  EXPECT_THAT(text, HasSubstr("carat:prefix_cache_hits_total{model_name=\"m\"} 40\n"));
  EXPECT_THAT(Metrics().text("carat", "m", nullptr), Not(HasSubstr("num_requests_running")));
}

TEST(Metrics, LabelsMayHoldAnything) {
  EXPECT_THAT(Metrics().text("carat", "a\"b\\c\nd", nullptr), HasSubstr("{model_name=\"a\\\"b\\\\c\\nd\","));
}

}  // namespace
}  // namespace carat
