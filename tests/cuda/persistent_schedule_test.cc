// What the persistent kernel relies on in its schedule; runs without a GPU.
#include "cuda/persistent_schedule.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <string>
#include <vector>

#include "support/golden.h"

namespace carat::cuda {
namespace {

constexpr int kCtas = 132;

/// Of pointers that nobody follows.
PersistentSchedule schedule_of(const char* model) {
  const ModelPlan plan = load_test_plan(model);
  static std::array<uint64_t, 9> places;
  const auto floats = [](std::size_t i) { return reinterpret_cast<float*>(&places[i]); };
  const auto words = [](std::size_t i) { return reinterpret_cast<MarkedFloat*>(&places[i]); };
  const PersistentBuffers buffers{floats(0), floats(1), floats(2),           &places[3],
                                  words(4),  words(5),  {words(6), words(7)}};
  return persistent_schedule(plan, KvLayers(plan.layers.size()), buffers, kCtas);
}

int words_of(const TokenPhase& phase, const ModelPlan& plan) {
  if (phase.kind != PhaseKind::attention) return phase.outputs_each * kCtas + phase.outputs_rest;
  return phase.heads * plan.kv_groups[phase.window > 0 ? kSlidingGroup : kFullGroup].head_dim;
}

class PersistentScheduleOf : public testing::TestWithParam<const char*> {};

// Only then does the mark of every word change whenever it is written.
TEST_P(PersistentScheduleOf, MarkedWordsAreAllWrittenEachTime) {
  const ModelPlan plan = load_test_plan(GetParam());
  std::map<const float*, int> lengths;
  for (const TokenPhase& phase : schedule_of(GetParam()).phases) {
    if (!phase.writes_marked) continue;
    const int length = words_of(phase, plan);
    EXPECT_EQ(lengths.try_emplace(phase.output.out, length).first->second, length);
  }
  EXPECT_GE(lengths.size(), 2u);
}

TEST_P(PersistentScheduleOf, MarksCountTheWritesOfALaunch) {
  const PersistentSchedule schedule = schedule_of(GetParam());
  std::map<const float*, uint32_t> writes;
  for (const TokenPhase& phase : schedule.phases) {
    if (phase.writes_marked) {
      EXPECT_EQ(phase.output_mark.index, ++writes[phase.output.out]);
    }
  }
  for (const TokenPhase& phase : schedule.phases) {
    if (phase.writes_marked) {
      EXPECT_EQ(phase.output_mark.per_launch, writes[phase.output.out]);
    }
  }
}

TEST_P(PersistentScheduleOf, WhoReadsMarkedWordsExpectsThoseOfThePhaseBefore) {
  const PersistentSchedule schedule = schedule_of(GetParam());
  int readers = 0;
  for (const TokenPhase& phase : schedule.phases) {
    if (!phase.reads_marked) continue;
    ++readers;
    ASSERT_GE(phase.wait_for, 0);
    const TokenPhase& before = schedule.phases[static_cast<std::size_t>(phase.wait_for)];
    EXPECT_TRUE(before.writes_marked);
    EXPECT_EQ(before.output.out, phase.input.branch ? phase.input.branch : phase.input.in);
    EXPECT_EQ(before.output_mark.index, phase.input_mark.index);
    EXPECT_EQ(before.output_mark.per_launch, phase.input_mark.per_launch);
  }
  EXPECT_GT(readers, 0);
}

INSTANTIATE_TEST_SUITE_P(Models, PersistentScheduleOf, testing::Values("tiny", "tiny-dense", "demo"),
                         [](const auto& test) {
                           return std::string(test.param) == "tiny-dense" ? "tiny_dense" : test.param;
                         });

}  // namespace
}  // namespace carat::cuda
