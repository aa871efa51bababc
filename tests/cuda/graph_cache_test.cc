#include "cuda/graph_cache.h"

#include <gtest/gtest.h>

#include <optional>

namespace carat::cuda {
namespace {

class GraphCaches : public testing::Test {
 protected:
  void SetUp() override {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) GTEST_SKIP() << "no GPU";
    stream_.emplace();
    queue_.stream = *stream_;
  }

  /// How often that enqueues launches by hand, rather than a graph.
  int launches(int key) {
    int count = 0;
    graphs_.run(queue_, key, [&] { ++count; });
    check(queue_.status, "launch");
    check(cudaStreamSynchronize(queue_.stream), "cudaStreamSynchronize");
    return count;
  }

  std::optional<Stream> stream_;
  Queue queue_;
  GraphCache<int> graphs_;
};

TEST_F(GraphCaches, CaptureTheSecondTime) {
  EXPECT_EQ(launches(1), 1);
  EXPECT_EQ(launches(1), 1);  // into the graph
  EXPECT_EQ(launches(1), 0);
  EXPECT_EQ(launches(2), 1);
  EXPECT_EQ(launches(1), 0);
  graphs_.clear();
  EXPECT_EQ(launches(1), 1);
}

TEST_F(GraphCaches, ForgetWhatHasNotBeenUsedForLongest) {
  constexpr int kMore = 100;
  for (int i = 0; i < 2; ++i) launches(0);
  for (int key = 1; key < kMore; ++key) {
    launches(key);
    EXPECT_EQ(launches(0), 0) << key;
  }
  for (int key = 1; key < kMore; ++key) launches(key);
  EXPECT_EQ(launches(0), 1);
}

}  // namespace
}  // namespace carat::cuda
