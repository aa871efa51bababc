// What make_cuda_runner() refuses, with and without a GPU, and what it tells of loading.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "base/error.h"
#include "cuda/cuda_runner.h"
#include "engine/kv_pages.h"
#include "model/gemma4_plan.h"
#include "support/golden.h"

namespace carat {
namespace {

TEST(CudaRunner, KeysAndValuesInFloat32AreRefused) {
  const ModelPlan plan = load_test_plan("tiny");
  RunnerOptions limits = size_kv(plan.kv_groups, 64, 1, 16);
  limits.kv_type = KvType::f32;
  try {
    make_cuda_runner(plan, limits, {});
    FAIL() << "f32 was accepted";
  } catch (const Error& error) {
    EXPECT_TRUE(error.kind() == ErrorKind::unsupported || error.kind() == ErrorKind::unavailable);
  }
}

// Whoever sizes K and V first hears of it then, before the device is asked for its memory.
TEST(CudaRunner, KeysAndValuesInFloat32AreRefusedBeforeTheyAreSized) {
  RunnerOptions limits;
  limits.kv_type = KvType::f32;
  try {
    free_cuda_bytes_for_kv(load_test_plan("tiny"), limits, {99});
    FAIL() << "f32 was accepted";
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::unavailable) {
      EXPECT_THAT(error.what(), testing::HasSubstr("no CUDA backend"));
    } else {
      EXPECT_THAT(error.what(), testing::HasSubstr("use f16 or int8"));
    }
  }
}

TEST(CudaRunner, ReportsProgressUpToTheEnd) {
  std::vector<double> fractions;
  const auto caller = std::this_thread::get_id();
  CudaOptions options;
  options.progress = [&](double fraction) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    fractions.push_back(fraction);
  };
  const ModelPlan plan = load_test_plan("tiny");
  try {
    make_cuda_runner(plan, size_kv(plan.kv_groups, 64, 1, 16), options);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::unavailable) throw;
    GTEST_SKIP() << "no GPU";
  }
  ASSERT_FALSE(fractions.empty());
  EXPECT_TRUE(std::ranges::is_sorted(fractions));
  EXPECT_EQ(fractions.back(), 1.0);
}

TEST(CudaRunner, AMissingDeviceIsNamed) {
  const ModelPlan plan = load_test_plan("tiny");
  try {
    make_cuda_runner(plan, size_kv(plan.kv_groups, 64, 1, 16), {99});
    FAIL() << "device 99 was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unavailable);
  }
}

}  // namespace
}  // namespace carat
