#include "api/backend.h"

#include <gtest/gtest.h>

#include <utility>

#include "api/demo_model.h"
#include "api/loaded_model.h"

namespace carat {
namespace {

TEST(Backend, KnowsWhatAKeyOrValueTakes) {
  const ModelPlan plan = load_model(kDemoModel, {}).plan;
  const auto bytes = [&](const char* device, const char* type) {
    DeviceOptions options;
    options.device = device;
    options.kv_type = type;
    return std::pair(kv_value_bytes(plan, options), kv_scale_bytes(options));
  };
  using Bytes = std::pair<std::size_t, std::size_t>;
  EXPECT_EQ(bytes("ref", "int8"), Bytes(4, 0));
  EXPECT_EQ(bytes("cpu", ""), Bytes(4, 0));
  EXPECT_EQ(bytes("cpu", "f16"), Bytes(2, 0));
  EXPECT_EQ(bytes("cpu", "int8"), Bytes(1, 4));
  EXPECT_EQ(bytes("cuda:0", ""), Bytes(4, 0));
  EXPECT_EQ(bytes("cuda:0", "f16"), Bytes(2, 0));
  EXPECT_EQ(bytes("cuda:0", "int8"), Bytes(1, 8));
}

}  // namespace
}  // namespace carat
