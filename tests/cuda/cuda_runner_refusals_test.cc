// What make_cuda_runner() refuses, with and without a GPU.
#include <gtest/gtest.h>

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
