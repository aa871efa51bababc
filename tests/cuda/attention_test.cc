// Attention of prompts: Hopper's kernel against the one for every GPU, and both against exact sums.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "base/error.h"
#include "cuda/device.h"
#include "cuda/kernels.h"

namespace carat::cuda {
namespace {

constexpr int kHeads = 8, kPageTokens = 32;

template <class T>
DeviceArray<T> upload(const std::vector<T>& host) {
  DeviceArray<T> device(host.size());
  check(cudaMemcpy(device.data(), host.data(), device.bytes(), cudaMemcpyHostToDevice), "upload");
  return device;
}

std::vector<float16> random_halves(std::size_t size, float scale, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.f, scale);
  std::vector<float16> values;
  for (std::size_t i = 0; i < size; ++i) values.push_back(__float2half(normal(random)));
  return values;
}

/// A prompt of `count` tokens after `past` others, one KV head, pages in order.
struct Prompt {
  int head_dim, past, count, window;

  int keys() const { return past + count; }
  std::size_t width() const { return static_cast<std::size_t>(kHeads * head_dim); }
};

class AttentionOf : public testing::TestWithParam<Prompt> {
 protected:
  void SetUp() override {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) GTEST_SKIP() << "no GPU";
    check(cudaGetDeviceProperties(&properties_, 0), "cudaGetDeviceProperties");
  }

  /// [count, heads * head_dim]
  std::vector<float> context(bool warpgroups, int splits) {
    const Prompt p = GetParam();
    const int pages = (p.keys() + kPageTokens - 1) / kPageTokens;
    const std::size_t vectors = static_cast<std::size_t>(pages * kPageTokens * p.head_dim);
    q_ = random_halves(static_cast<std::size_t>(p.count) * p.width(), 0.1f, 1);
    kv_ = random_halves(2 * vectors, 1.f, 2);  // all keys, then all values
    const auto q = upload(q_);
    const auto kv = upload(kv_);
    std::vector<int32_t> table;
    for (int i = 0; i < pages; ++i) table.push_back(i);
    std::vector<AttentionTile> tiles;
    constexpr int kTileRows = 64, kTileTokens = kTileRows / kHeads;
    for (int i = 0; i < p.count; i += kTileTokens)
      tiles.push_back({i, std::min(kTileTokens, p.count - i), p.past + i, 0});
    const auto device_table = upload(table);
    const auto offset = upload(std::vector<int32_t>{0, 0}),
               stride = upload(std::vector<int32_t>{pages, pages});
    const auto device_tiles = upload(tiles);
    DeviceArray<bfloat16> hi(q_.size()), lo(q_.size());
    DeviceArray<float> partial(static_cast<std::size_t>(p.count * kHeads * splits * (p.head_dim + 2)));
    AttentionArgs args{};
    args.q = q.data();
    args.context = {hi.data(), lo.data()};
    args.heads = kHeads;
    args.window = p.window;
    args.kv = {
        kv.data(), static_cast<std::size_t>(kPageTokens * p.head_dim), vectors, 0, kPageTokens, 1, p.head_dim,
        0};
    args.tables = {device_table.data(), offset.data(), stride.data()};
    args.tiles = device_tiles.data();
    args.tile_count = static_cast<int>(tiles.size());
    args.tile_rows = kTileRows;
    args.most_splits = splits;
    args.rows = p.count;
    args.partial = {partial.data(), partial.size()};
    Stream stream;
    Queue queue{stream, false, properties_.multiProcessorCount, cudaSuccess, {}, warpgroups};
    attention(queue, args);
    check(queue.status, "launch");
    check(cudaStreamSynchronize(stream), "attention");
    std::vector<bfloat16> high(hi.size()), low(lo.size());
    check(cudaMemcpy(high.data(), hi.data(), hi.bytes(), cudaMemcpyDeviceToHost), "download");
    check(cudaMemcpy(low.data(), lo.data(), lo.bytes(), cudaMemcpyDeviceToHost), "download");
    std::vector<float> result;
    for (std::size_t i = 0; i < high.size(); ++i)
      result.push_back(__bfloat162float(high[i]) + __bfloat162float(low[i]));
    return result;
  }

  /// One head of one row, in double.
  std::vector<double> exact(int row, int head) const {
    const Prompt p = GetParam();
    const auto d = static_cast<std::size_t>(p.head_dim);
    const float16* q =
        q_.data() + static_cast<std::size_t>(row) * p.width() + static_cast<std::size_t>(head) * d;
    const int position = p.past + row, first = p.window > 0 ? std::max(0, position - p.window + 1) : 0;
    std::vector<double> sum(d);
    double total = 0;
    for (int key = first; key <= position; ++key) {
      const float16 *k = kv_.data() + static_cast<std::size_t>(key) * d, *v = k + kv_.size() / 2;
      double score = 0;
      for (std::size_t i = 0; i < d; ++i) score += double{__half2float(q[i])} * __half2float(k[i]);
      const double weight = std::exp(score);
      total += weight;
      for (std::size_t i = 0; i < d; ++i) sum[i] += weight * __half2float(v[i]);
    }
    for (double& v : sum) v /= total;
    return sum;
  }

  void expect_exact(const std::vector<float>& context) const {
    constexpr double kTolerance = 2e-3;  // weights have 11 bits
    const Prompt p = GetParam();
    for (int row = 0; row < p.count; row += 7) {
      for (int head : {0, 5}) {
        const std::vector<double> expected = exact(row, head);
        const float* got = context.data() + static_cast<std::size_t>(row) * p.width() + head * p.head_dim;
        double largest = 0;
        for (std::size_t i = 0; i < expected.size(); ++i)
          largest = std::max(largest, std::abs(expected[i] - double{got[i]}));
        EXPECT_LE(largest, kTolerance) << "row " << row << ", head " << head;
      }
    }
  }

  cudaDeviceProp properties_{};
  std::vector<float16> q_, kv_;
};

TEST_P(AttentionOf, OnAnyGpuIsExact) {
  for (int splits : {1, 3}) expect_exact(context(false, splits));
}

TEST_P(AttentionOf, OnHopperIsExact) {
  if (properties_.major != 9) GTEST_SKIP() << "not a Hopper GPU";
  for (int splits : {1, 3}) expect_exact(context(true, splits));
}

INSTANTIATE_TEST_SUITE_P(Prompts, AttentionOf,
                         testing::Values(Prompt{128, 0, 70, 0}, Prompt{256, 0, 100, 0},
                                         Prompt{256, 300, 33, 100}, Prompt{512, 0, 90, 0},
                                         Prompt{512, 200, 17, 0}),
                         [](const auto& prompt) {
                           const Prompt& p = prompt.param;
                           return "heads_of_" + std::to_string(p.head_dim) + "_after_" +
                                  std::to_string(p.past);
                         });

}  // namespace
}  // namespace carat::cuda
