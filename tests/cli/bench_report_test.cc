#include "cli/bench_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace carat {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::size_t kMiB = std::size_t{1} << 20;

/// Steps of 100 ms over `weights_bytes`, where reading achieves 10 GB/s, at best 11.
Measurement measured(std::size_t weights_bytes, std::size_t cache_bytes) {
  Measurement m;
  m.prefill_s = 1;
  m.median_step_ms = m.mean_step_ms = 100;
  m.bytes_per_token = weights_bytes;
  m.read_bandwidth_bytes_s = 10e9;
  m.best_read_bandwidth_bytes_s = 11e9;
  m.cache_bytes = cache_bytes;
  m.device = "cpu";
  m.format = "bf16";
  return m;
}

TEST(BenchReport, WeightsBeyondTheCacheAreAFractionOfTheBandwidthAlsoAboveTheBestPlainRead) {
  const Measurement m = measured(1'150'000'000, 32 * kMiB);  // 11.5 GB/s
  EXPECT_THAT(text_report({}, m), HasSubstr("115 % of the read bandwidth"));
  EXPECT_THAT(text_report({}, m), Not(HasSubstr("cache")));
  EXPECT_DOUBLE_EQ(m.bandwidth_fraction().value(), 1.15);
}

TEST(BenchReport, WeightsThatFitIntoTheCacheAreNoFraction) {
  for (const Measurement& m : {measured(32 * kMiB, 32 * kMiB), measured(1000, 32 * kMiB)}) {
    EXPECT_THAT(text_report({}, m), HasSubstr("they fit into a cache"));
    EXPECT_FALSE(m.bandwidth_fraction());
  }
}

TEST(BenchReport, WhereTheCacheIsUnknownARateFarAboveTheBandwidthTellsOfOne) {
  EXPECT_FALSE(measured(1'150'000'000, 0).weights_in_cache());
  EXPECT_TRUE(measured(3'000'000'000, 0).weights_in_cache());
}

TEST(BenchReport, PhasesOfOneKernelSayHowLongTheyWait) {
  Measurement m = measured(1000, 0);
  PhaseTimes times{.steps = 2};
  times[Phase::down] = {.times = 70, .seconds = 0.5, .waiting_seconds = 0.25};
  m.phases = StepTimes{.decoding = times, .prompts = {}};
  EXPECT_THAT(text_report({}, m), HasSubstr("250.0000 ms  100.0 %, waiting  125.0000 ms"));
  EXPECT_THAT(json_report({}, m), HasSubstr("\"waiting_ms\": 125.0"));
  m.phases->decoding[Phase::down].waiting_seconds = 0;  // a kernel for each phase
  EXPECT_THAT(text_report({}, m), HasSubstr("250.0000 ms  100.0 %\n"));
  EXPECT_THAT(json_report({}, m), Not(HasSubstr("waiting")));
}

}  // namespace
}  // namespace carat
