// Thousands of random loads on the scripted runner and on the real model: whatever shares a step, the pages,
// a prefix or a draft with a request, its reply is the one it gives alone.
#include "engine/step_loop.h"

#include <gtest/gtest.h>

#include <string>

#include "cpu/cpu_runner.h"
#include "engine/scripted_runner.h"
#include "engine/tiny_plan.h"
#include "engine/workload.h"
#include "ref/ref_runner.h"

namespace carat {
namespace {

constexpr int kVocab = 29;

struct Totals {
  int64_t preemptions = 0, accepted = 0, cached = 0;
  int cancelled = 0;
};

Totals run_workloads(const Workload::Shape& shape, const Workload::MakeRunner& make_runner,
                     uint64_t first_seed, int count) {
  Totals totals;
  for (uint64_t seed = first_seed; seed < first_seed + static_cast<uint64_t>(count); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Workload workload(shape, seed);
    workload.run(make_runner);
    if (testing::Test::HasFailure()) break;
    workload.check(make_runner);
    if (testing::Test::HasFailure()) break;
    totals.preemptions += workload.preemptions;
    totals.accepted += workload.accepted;
    totals.cached += workload.cached;
    totals.cancelled += workload.cancelled;
  }
  return totals;
}

/// A load without any of these would have tested little.
void expect_varied(const Totals& totals) {
  EXPECT_GT(totals.preemptions, 20);
  EXPECT_GT(totals.accepted, 50);
  EXPECT_GT(totals.cached, 100);
  EXPECT_GT(totals.cancelled, 20);
}

class RandomLoads : public testing::TestWithParam<int> {};

TEST_P(RandomLoads, OnTheScriptedRunnerEqualEachRequestAlone) {
  const Workload::Shape shape{{KvGroup{1, 1, 1, 0}, KvGroup{2, 1, 1, GetParam()}}, kVocab, {1, 4, 5, 8, 32}};
  const auto make_runner = [&](const RunnerOptions& limits) {
    return std::make_unique<ScriptedRunner>(shape.groups, limits, shape.vocab);
  };
  expect_varied(run_workloads(shape, make_runner, 1000, 2500));
}

TEST_P(RandomLoads, OnTheReferenceEqualEachRequestAlone) {
  const ModelPlan plan = TinyPlan::make(kVocab, GetParam(), 7);
  const Workload::Shape shape{plan.kv_groups, plan.vocab, {1, 4, 5, 8, 32}};
  const auto make_runner = [&](const RunnerOptions& limits) { return make_ref_runner(plan, limits); };
  expect_varied(run_workloads(shape, make_runner, 5000, 300));
}

TEST_P(RandomLoads, OnTheCpuBackendEqualEachRequestAlone) {
  const ModelPlan plan = TinyPlan::make(kVocab, GetParam(), 7);
  const Workload::Shape shape{plan.kv_groups, plan.vocab, {32}};  // the kernels' page size
  CpuOptions options;
  options.threads = 1;
  const auto make_runner = [&](const RunnerOptions& limits) {
    return make_cpu_runner(plan, limits, options);
  };
  expect_varied(run_workloads(shape, make_runner, 9000, 300));
}

/// A position's scale comes from that position alone, so int8 changes nothing about any of this.
TEST_P(RandomLoads, WithInt8KvEqualEachRequestAlone) {
  const ModelPlan plan = TinyPlan::make(kVocab, GetParam(), 7);
  CpuOptions options;
  options.threads = 1;
  const auto with_int8 = [](RunnerOptions limits) {
    limits.kv_type = KvType::int8;
    return limits;
  };
  const auto cpu = [&](const RunnerOptions& l) { return make_cpu_runner(plan, with_int8(l), options); };
  expect_varied(run_workloads({plan.kv_groups, plan.vocab, {32}}, cpu, 9000, 300));
  const auto ref = [&](const RunnerOptions& l) { return make_ref_runner(plan, with_int8(l)); };
  run_workloads({plan.kv_groups, plan.vocab, {1, 4, 5, 8, 32}}, ref, 13000, 100);
}

INSTANTIATE_TEST_SUITE_P(Windows, RandomLoads, testing::Values(8, 16), testing::PrintToStringParamName());

}  // namespace
}  // namespace carat
