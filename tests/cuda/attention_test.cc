// Attention of prompts: Hopper's kernel against the one for every GPU, and both against exact sums. Attention
// of single tokens from raw q, k and v against rope_kv() and attention one after the other.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "cuda/cuda_runner.h"
#include "cuda/device.h"
#include "cuda/kernels.h"
#include "engine/runner.h"
#include "support/largest_difference.h"

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

/// Whether it is one, and the kernels here have been compiled for it.
bool is_hopper() { return cuda_capability({}) == 90; }

std::string suffix(KvType type) {
  return type == KvType::automatic ? "" : type == KvType::f16 ? "_f16" : "_int8";
}

/// The keys and values of one KV head in one layer, at random, the tokens in order.
class Pages {
 public:
  Pages(KvType type, int head_dim, int tokens)
      : type_(type),
        head_dim_(static_cast<std::size_t>(head_dim)),
        tokens_(static_cast<std::size_t>(tokens)),
        host_(random_halves(tokens_ * token_size(), 1.f, 2)) {
    if (type == KvType::int8) fill_records();
    device_ = upload(host_);
  }

  KvLayer layer() const {
    const bool int8 = type_ == KvType::int8;
    return {device_.data(),
            kPageTokens * (int8 ? token_size() : head_dim_),
            int8 ? head_dim_ / 2 : tokens_ * head_dim_,
            type_ == KvType::automatic ? 2 * tokens_ * head_dim_ : 0,
            kPageTokens,
            1,
            static_cast<int>(head_dim_),
            0,
            int8};
  }
  /// What was there at first, element `i` of a token's key or value.
  float at(std::size_t token, bool of_value, std::size_t i) const {
    if (type_ != KvType::int8) {
      const std::size_t at = (of_value ? tokens_ + token : token) * head_dim_ + i;
      return __half2float(host_[at]) +
             (type_ == KvType::automatic ? __half2float(host_[2 * tokens_ * head_dim_ + at]) : 0.f);
    }
    const auto* record = reinterpret_cast<const int8_t*>(host_.data() + token * token_size());
    float scales[2];
    std::memcpy(scales, record + 2 * head_dim_, sizeof scales);
    return scales[of_value] * static_cast<float>(record[of_value * head_dim_ + i]);
  }
  /// All there is now: the elements of each token's key, then of its value.
  std::vector<float> values() {
    check(cudaMemcpy(host_.data(), device_.data(), device_.bytes(), cudaMemcpyDeviceToHost), "download");
    std::vector<float> all;
    for (std::size_t token = 0; token < tokens_; ++token)
      for (const bool of_value : {false, true})
        for (std::size_t i = 0; i < head_dim_; ++i) all.push_back(at(token, of_value, i));
    return all;
  }

 private:
  std::size_t token_size() const {
    if (type_ == KvType::int8) return static_cast<std::size_t>(kv_stride(static_cast<int>(head_dim_), true));
    return (type_ == KvType::automatic ? 4 : 2) * head_dim_;
  }
  void fill_records() {
    std::mt19937 random(4);
    std::uniform_int_distribution<int> byte(-127, 127);
    std::uniform_real_distribution<float> scale(0.5f / 80, 1.5f / 80);
    for (std::size_t token = 0; token < tokens_; ++token) {
      auto* record = reinterpret_cast<int8_t*>(host_.data() + token * token_size());
      for (std::size_t i = 0; i < 2 * head_dim_; ++i) record[i] = static_cast<int8_t>(byte(random));
      const float scales[2] = {scale(random), scale(random)};
      std::memcpy(record + 2 * head_dim_, scales, sizeof scales);
    }
  }

  KvType type_;
  std::size_t head_dim_, tokens_;
  std::vector<float16> host_;
  DeviceArray<float16> device_;
};

/// A prompt of `count` tokens after `past` others, one KV head, pages in order.
struct Prompt {
  int head_dim, past, count, window;
  KvType kv_type = KvType::f16;

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

  /// What a launch depends on besides its arguments.
  struct Kernel {
    bool warpgroups;
    int splits, shared_bytes, tile_rows = 64;
  };

  /// [count, heads * head_dim]
  std::vector<float> context(const Kernel& kernel) {
    const int splits = kernel.splits;
    const Prompt p = GetParam();
    const int pages = (p.keys() + kPageTokens - 1) / kPageTokens;
    q_ = random_halves(static_cast<std::size_t>(p.count) * p.width(), 0.1f, 1);
    pages_.emplace(p.kv_type, p.head_dim, pages * kPageTokens);
    const auto q = upload(q_);
    std::vector<int32_t> table;
    for (int i = 0; i < pages; ++i) table.push_back(i);
    std::vector<AttentionTile> tiles;
    const int tile_tokens = kernel.tile_rows / kHeads;
    for (int i = 0; i < p.count; i += tile_tokens)
      tiles.push_back({i, std::min(tile_tokens, p.count - i), p.past + i, 0});
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
    args.kv = pages_->layer();
    args.tables = {device_table.data(), offset.data(), stride.data()};
    args.tiles = device_tiles.data();
    args.tile_count = static_cast<int>(tiles.size());
    args.tile_rows = kernel.tile_rows;
    args.most_splits = splits;
    args.rows = p.count;
    args.partial = {partial.data(), partial.size()};
    Stream stream;
    Queue queue{stream,
                false,
                properties_.multiProcessorCount,
                cudaSuccess,
                {},
                kernel.warpgroups,
                kernel.shared_bytes};
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
    for (int at = first; at <= position; ++at) {
      const auto key = static_cast<std::size_t>(at);
      double score = 0;
      for (std::size_t i = 0; i < d; ++i) score += double{__half2float(q[i])} * pages_->at(key, false, i);
      const double weight = std::exp(score);
      total += weight;
      for (std::size_t i = 0; i < d; ++i) sum[i] += weight * pages_->at(key, true, i);
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

  int most_shared_bytes() const { return static_cast<int>(properties_.sharedMemPerBlockOptin); }

  cudaDeviceProp properties_{};
  std::vector<float16> q_;
  std::optional<Pages> pages_;
};

// With the largest blocks of keys, those of GPUs with 163 KB of shared memory, and those that fit every GPU.
TEST_P(AttentionOf, OnAnyGpuIsExact) {
  constexpr int kAmpereBytes = 163 * 1024;
  const bool int8 = GetParam().kv_type == KvType::int8;
  for (const int shared_bytes : {most_shared_bytes(), kAmpereBytes, kFewestSharedBytes}) {
    if (shared_bytes > most_shared_bytes()) continue;
    for (const int tile_rows : {16, 64}) {
      if (!attention_fits(GetParam().head_dim, tile_rows, int8, shared_bytes)) continue;
      SCOPED_TRACE(std::to_string(tile_rows) + " rows, " + std::to_string(shared_bytes) + " bytes");
      for (int splits : {1, 3}) expect_exact(context({false, splits, shared_bytes, tile_rows}));
    }
  }
}

TEST_P(AttentionOf, OnHopperIsExact) {
  if (!is_hopper()) GTEST_SKIP() << "not a Hopper GPU";
  for (int splits : {1, 3}) expect_exact(context({true, splits, most_shared_bytes()}));
}

TEST(Attention, FitsEveryGpuInTilesOf16Rows) {
  for (int head_dim = 16; head_dim <= 512; head_dim *= 2)
    for (const bool int8 : {false, true}) {
      EXPECT_TRUE(attention_fits(head_dim, 16, int8, kFewestSharedBytes)) << head_dim;
      EXPECT_EQ(attention_fits(head_dim, 64, int8, kFewestSharedBytes), !int8 || head_dim < 512) << head_dim;
    }
}

INSTANTIATE_TEST_SUITE_P(
    Prompts, AttentionOf,
    testing::Values(Prompt{128, 0, 70, 0}, Prompt{256, 0, 100, 0}, Prompt{256, 300, 33, 100},
                    Prompt{512, 0, 90, 0}, Prompt{512, 200, 17, 0}, Prompt{16, 0, 70, 0, KvType::int8},
                    Prompt{64, 40, 90, 50, KvType::int8}, Prompt{128, 0, 70, 0, KvType::int8},
                    Prompt{256, 300, 33, 100, KvType::int8}, Prompt{512, 0, 90, 0, KvType::int8},
                    Prompt{512, 200, 17, 0, KvType::int8}),
    [](const auto& prompt) {
      const Prompt& p = prompt.param;
      return "heads_of_" + std::to_string(p.head_dim) + "_after_" + std::to_string(p.past) +
             (p.kv_type == KvType::int8 ? "_int8" : "");
    });

/// Rows of one token each, behind `past` others of its sequence.
struct Tokens {
  int head_dim, past, window, splits;
  bool writes_kv;
  bool cluster = false;  // splits are a cluster where the GPU has clusters
  int heads = kHeads;    // of the one KV head
  KvType kv_type = KvType::automatic;
};

class RawAttentionOf : public testing::TestWithParam<Tokens> {
 protected:
  static constexpr int kRows = 3;

  void SetUp() override {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) GTEST_SKIP() << "no GPU";
    check(cudaGetDeviceProperties(&properties_, 0), "cudaGetDeviceProperties");
    if (GetParam().cluster && !is_hopper()) GTEST_SKIP() << "not a Hopper GPU";
    KvLayer kv{};
    kv.head_dim = GetParam().head_dim;
    kv.int8 = GetParam().kv_type == KvType::int8;
    Queue queue;
    queue.shared_bytes = static_cast<int>(properties_.sharedMemPerBlockOptin);
    if (!raw_attention_fits(queue, kv, GetParam().heads)) GTEST_SKIP() << "too little shared memory";
  }

  /// Contexts, and what the pages hold then.
  struct Result {
    std::vector<float> context, pages;
  };

  static Result download(const DeviceArray<bfloat16>& hi, const DeviceArray<bfloat16>& lo, Pages& kv) {
    std::vector<bfloat16> high(hi.size()), low(lo.size());
    check(cudaMemcpy(high.data(), hi.data(), hi.bytes(), cudaMemcpyDeviceToHost), "download");
    check(cudaMemcpy(low.data(), lo.data(), lo.bytes(), cudaMemcpyDeviceToHost), "download");
    Result result;
    result.pages = kv.values();
    for (std::size_t i = 0; i < high.size(); ++i)
      result.context.push_back(__bfloat162float(high[i]) + __bfloat162float(low[i]));
    return result;
  }

  RopeKvArgs shape() const {
    const Tokens p = GetParam();
    RopeKvArgs rope{};
    rope.heads = p.heads;
    rope.width = (p.heads + (p.writes_kv ? 2 : 0)) * p.head_dim;
    rope.writes_kv = rope.has_v = p.writes_kv;
    rope.rotary_pairs = p.head_dim / 4;
    rope.eps = 1e-6f;
    return rope;
  }

  AttentionArgs attention_shape(const RopeKvArgs& rope) const {
    AttentionArgs args{};
    args.heads = rope.heads;
    args.window = GetParam().window;
    args.kv = rope.kv;
    args.tables = rope.tables;
    args.tile_count = args.rows = kRows;
    args.tile_rows = kRawTileRows;
    args.most_splits = GetParam().splits;
    args.most_keys = GetParam().past + 1;
    return args;
  }

  Result run(bool raw) {
    const Tokens p = GetParam();
    const int pages = p.past / kPageTokens + 1, width = (p.heads + (p.writes_kv ? 2 : 0)) * p.head_dim;
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    std::uniform_real_distribution<float> uniform(0.5f, 1.5f);
    const auto floats = [&](int size, auto& distribution) {
      std::vector<float> values(static_cast<std::size_t>(size));
      for (float& v : values) v = distribution(random);
      return upload(values);
    };
    constexpr int kParts = 3;
    const auto sums = floats(kParts * kRows * width, normal);
    const auto q_norm = floats(p.head_dim, uniform), k_norm = floats(p.head_dim, uniform);
    const auto frequencies = floats(p.head_dim / 4, uniform);
    Pages kv(p.kv_type, p.head_dim, kRows * pages * kPageTokens);
    std::vector<int32_t> table, positions, sequences;
    std::vector<AttentionTile> tiles;
    for (int i = 0; i < kRows; ++i) {
      for (int page = 0; page < pages; ++page) table.push_back(i * pages + page);
      positions.push_back(p.past);
      sequences.push_back(i);
      tiles.push_back({i, 1, p.past, i});
    }
    const auto device_table = upload(table), places = upload(positions), rows = upload(sequences),
               offset = upload(std::vector<int32_t>{0, 0}),
               stride = upload(std::vector<int32_t>{pages, pages});
    const auto device_tiles = upload(tiles);
    const std::size_t heads = static_cast<std::size_t>(kRows * p.heads * p.head_dim);
    DeviceArray<bfloat16> hi(heads), lo(heads);
    DeviceArray<float16> q(heads);
    DeviceArray<float> partial(static_cast<std::size_t>(kRows * p.heads * p.splits * (p.head_dim + 2)));
    RopeKvArgs rope = shape();
    rope.sums = {sums.data(), kParts, static_cast<std::size_t>(kRows * width)};
    rope.q_norm = q_norm.data();
    rope.k_norm = k_norm.data();
    rope.frequencies = frequencies.data();
    rope.q = q.data();
    rope.kv = kv.layer();
    rope.tables = {device_table.data(), offset.data(), stride.data()};
    rope.places = {nullptr, places.data(), rows.data()};
    AttentionArgs args = attention_shape(rope);
    args.q = q.data();
    args.context = {hi.data(), lo.data()};
    args.tiles = device_tiles.data();
    args.partial = {partial.data(), partial.size()};
    Stream stream;
    Queue queue{
        stream, false, 132, cudaSuccess, {}, p.cluster, static_cast<int>(properties_.sharedMemPerBlockOptin)};
    if (!raw) rope_kv(queue, rope, kRows);
    attention(queue, args, raw ? &rope : nullptr);
    check(queue.status, "launch");
    check(cudaStreamSynchronize(stream), "attention");
    return download(hi, lo, kv);
  }

  cudaDeviceProp properties_{};
};

// The compiler may contract other products in the one than in the other.
TEST_P(RawAttentionOf, EqualsTheTwoKernels) {
  const Result expected = run(false), got = run(true);
  const KvType type = GetParam().kv_type;
  // A unit of the last place of what the pages keep: 22 bits of 8, 11, or 7 and a sign.
  const float unit = type == KvType::automatic ? 1e-5f : type == KvType::f16 ? 4e-3f : 8.f / 127;
  EXPECT_LE(largest_difference(got.pages, expected.pages), unit);
  EXPECT_LE(largest_difference(got.context, expected.context), 5e-3f);  // q in float16 may round otherwise
}

TEST_P(RawAttentionOf, TwoRunsGiveTheSameBits) {
  const Result first = run(true), second = run(true);
  EXPECT_EQ(first.context, second.context);
  EXPECT_EQ(first.pages, second.pages);
}

INSTANTIATE_TEST_SUITE_P(
    Rows, RawAttentionOf,
    testing::Values(Tokens{256, 100, 512, 1, true}, Tokens{256, 100, 512, 1, false},
                    Tokens{256, 0, 512, 1, true}, Tokens{256, 128, 512, 1, true},
                    Tokens{256, 128, 512, 1, false}, Tokens{256, 700, 512, 2, true},
                    Tokens{512, 90, 0, 1, true}, Tokens{512, 90, 0, 1, false}, Tokens{512, 1000, 0, 4, true},
                    Tokens{512, 1000, 0, 4, false}, Tokens{64, 200, 128, 1, true},
                    Tokens{16, 40, 16, 1, true}, Tokens{128, 300, 0, 1, true, false, 3},
                    Tokens{256, 140, 512, 1, true, false, 16}, Tokens{256, 129, 512, 1, true, true},
                    Tokens{256, 700, 512, 2, false, true}, Tokens{512, 64, 0, 1, true, true},
                    Tokens{512, 90, 0, 1, false, true}, Tokens{512, 128, 0, 1, true, true, 16},
                    Tokens{512, 1000, 0, 4, true, true},
                    Tokens{256, 140, 512, 1, true, false, kHeads, KvType::f16},
                    Tokens{512, 1000, 0, 4, true, true, kHeads, KvType::f16},
                    Tokens{16, 40, 16, 1, true, false, kHeads, KvType::int8},
                    Tokens{32, 200, 0, 2, true, false, kHeads, KvType::int8},
                    Tokens{64, 200, 128, 1, true, false, kHeads, KvType::int8},
                    Tokens{128, 300, 0, 1, true, false, 3, KvType::int8},
                    Tokens{256, 100, 512, 1, false, false, kHeads, KvType::int8},
                    Tokens{256, 140, 512, 1, true, false, 16, KvType::int8},
                    Tokens{256, 700, 512, 2, true, false, kHeads, KvType::int8},
                    Tokens{512, 90, 0, 1, false, false, kHeads, KvType::int8},
                    Tokens{512, 128, 0, 1, true, true, 16, KvType::int8},
                    Tokens{512, 1000, 0, 4, true, true, kHeads, KvType::int8},
                    Tokens{512, 0, 0, 1, true, false, kHeads, KvType::int8}),
    [](const auto& tokens) {
      const Tokens& p = tokens.param;
      return "heads_of_" + std::to_string(p.head_dim) + "_after_" + std::to_string(p.past) +
             (p.writes_kv ? "" : "_shared") + (p.cluster ? "_clusters" : "") +
             (p.heads == kHeads ? "" : "_" + std::to_string(p.heads) + "_heads") + suffix(p.kv_type);
    });

}  // namespace
}  // namespace carat::cuda
