// Tokens drawn on the device against engine/sampler, row by row. Without a GPU every test skips.
#include "cuda/draw.h"

#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <limits>
#include <optional>

#include "base/error.h"
#include "base/random.h"
#include "cuda/device_sampler.h"

namespace carat::cuda {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Random numbers in a fixed order.
class Dice {
 public:
  explicit Dice(uint64_t seed) : seed_(seed) {}
  float uniform() { return random_uniform(seed_, next_++); }
  int below(int n) { return static_cast<int>(uniform() * static_cast<float>(n)); }
  float normal() {
    const float radius = std::sqrt(-2.f * std::log(uniform() + 1e-7f));
    return radius * std::cos(6.2831853f * uniform());
  }

 private:
  uint64_t seed_, next_ = 0;
};

/// What a row of logits looks like.
enum class Shape { normal, peaked, few_values, all_equal, zeros, descending, kCount };

std::vector<float> logits_of(Shape shape, int vocab, Dice& dice) {
  std::vector<float> logits(static_cast<std::size_t>(vocab));
  for (int id = 0; id < vocab; ++id) {
    float& logit = logits[static_cast<std::size_t>(id)];
    switch (shape) {
      case Shape::normal:
        logit = 2.f * dice.normal();
        break;
      case Shape::peaked:
        logit = dice.below(100) == 0 ? 8.f * dice.normal() : dice.normal() - 15.f;
        break;
      case Shape::few_values:
        logit = 0.25f * static_cast<float>(dice.below(40));
        break;
      case Shape::all_equal:
        logit = 3.5f;
        break;
      case Shape::zeros:
        logit = dice.below(2) == 0 ? 0.f : -0.f;
        break;
      default:
        logit = -1e-3f * static_cast<float>(id);
        break;
    }
  }
  return logits;
}

class Draw : public testing::Test {
 protected:
  void SetUp() override {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) GTEST_SKIP() << "no GPU";
    queue_.stream = stream_.emplace();
  }

  /// One row per element of `sampling`.
  std::vector<int32_t> draw(DeviceSampler& sampler, std::span<const float> logits,
                            std::span<const RowSampling> sampling) {
    DeviceArray<float> device(logits.size());
    DeviceArray<int32_t> drawn(sampling.size());
    check(cudaMemcpy(device.data(), logits.data(), logits.size_bytes(), cudaMemcpyHostToDevice), "logits");
    sampler.upload(queue_, 0, sampling);
    sampler.draw(queue_, device.data(), drawn.data());
    check(queue_.status, "draw");
    check(cudaStreamSynchronize(*stream_), "draw");
    std::vector<int32_t> tokens(sampling.size());
    check(cudaMemcpy(tokens.data(), drawn.data(), drawn.bytes(), cudaMemcpyDeviceToHost), "tokens");
    return tokens;
  }

  void expect_equal(int vocab, const std::vector<float>& logits, const std::vector<RowSampling>& sampling) {
    DeviceSampler sampler(vocab);
    const std::vector<int32_t> tokens = draw(sampler, logits, sampling);
    EXPECT_EQ(tokens, draw(sampler, logits, sampling)) << "a second run";
    for (std::size_t r = 0; r < sampling.size(); ++r) {
      const auto first = logits.begin() + static_cast<std::ptrdiff_t>(r) * vocab;
      std::vector<float> row(first, first + vocab);
      const SamplingParams& p = *sampling[r].params;
      EXPECT_EQ(tokens[r], sample(row, sampling[r]))
          << "row " << r << " of " << vocab << ": temperature " << p.temperature << ", top_k " << p.top_k
          << ", top_p " << p.top_p << ", min_p " << p.min_p;
    }
  }

  std::optional<Stream> stream_;
  Queue queue_;
};

/// Rows of all shapes with filters of all kinds.
void expect_filters_equal(int vocab, int rows, const auto& expect) {
  Dice dice(static_cast<uint64_t>(vocab));
  std::vector<float> logits;
  std::deque<SamplingParams> params;
  std::vector<RowSampling> sampling;
  const auto one_of = [&](auto... values) {
    const auto list = {values...};
    return *(list.begin() + dice.below(static_cast<int>(list.size())));
  };
  for (int r = 0; r < rows; ++r) {
    const auto shape = static_cast<Shape>(dice.below(static_cast<int>(Shape::kCount)));
    const std::vector<float> row = logits_of(shape, vocab, dice);
    logits.insert(logits.end(), row.begin(), row.end());
    params.push_back({.temperature = one_of(0.f, 0.01f, 0.3f, 0.7f, 1.f, 1.f, 1.f, 1.5f, 20.f),
                      .top_k = one_of(0, 0, 1, 20, 64, 64, 1000, 5000, 100000, 1 << 30),
                      .top_p = one_of(1.f, 1.f, 0.f, 0.3f, 0.8f, 0.95f, 0.95f, 0.999f),
                      .min_p = one_of(0.f, 0.f, 0.f, 0.05f, 0.5f, 1.f),
                      .seed = static_cast<uint64_t>(r)});
    sampling.push_back({&params.back(), r % 7, {}, {}});
  }
  expect(vocab, logits, sampling);
}

TEST_F(Draw, FiltersEqualTheHosts) {
  const auto expect = [&](const auto&... args) { expect_equal(args...); };
  for (const int vocab : {1, 37, 1000, 5001}) expect_filters_equal(vocab, 250, expect);
}

TEST_F(Draw, FiltersOfAFullVocabularyEqualTheHosts) {
  expect_filters_equal(262144, 60, [&](const auto&... args) { expect_equal(args...); });
}

TEST_F(Draw, PenaltiesBiasesAndMasksEqualTheHosts) {
  constexpr int kVocab = 3000, kRows = 200;
  Dice dice(5);
  std::vector<float> logits;
  std::deque<SamplingParams> params;
  std::deque<std::vector<int32_t>> histories, suppressed;
  std::deque<std::vector<uint32_t>> masks;
  std::vector<RowSampling> sampling;
  for (int r = 0; r < kRows; ++r) {
    const std::vector<float> row = logits_of(Shape::normal, kVocab, dice);
    logits.insert(logits.end(), row.begin(), row.end());
    SamplingParams& p = params.emplace_back();
    p.temperature = dice.below(3) == 0 ? 0.f : 0.8f;
    p.top_k = dice.below(2) * 40;
    p.seed = static_cast<uint64_t>(r);
    if (dice.below(2) == 0) p.repetition_penalty = 0.6f + dice.uniform();
    if (dice.below(2) == 0) p.presence_penalty = 4.f * dice.uniform() - 2.f;
    if (dice.below(2) == 0) p.frequency_penalty = 4.f * dice.uniform() - 2.f;
    for (int i = dice.below(2) * 40; i > 0; --i)
      p.logit_bias.push_back({dice.below(50) - 1, 20.f * dice.uniform() - 10.f});
    std::vector<int32_t>& history = histories.emplace_back();
    for (int i = 0; i < 400; ++i) history.push_back(dice.below(dice.below(2) == 0 ? 60 : kVocab + 9) - 3);
    std::vector<int32_t>& ids = suppressed.emplace_back();
    for (int i = dice.below(30); i > 0; --i) ids.push_back(dice.below(kVocab + 4) - 2);
    sampling.push_back({&p, r, history, ids, dice.below(400)});
    if (dice.below(3) > 0) continue;
    std::vector<uint32_t>& mask = masks.emplace_back(kVocab / 32 + 1);
    for (uint32_t& word : mask) word = static_cast<uint32_t>(random_bits(9, static_cast<uint64_t>(r)));
    sampling.back().allowed = mask;
  }
  expect_equal(kVocab, logits, sampling);
}

TEST_F(Draw, RefusesRowsThatAreNotFinite) {
  constexpr int kVocab = 300;
  const SamplingParams greedy, warm{.temperature = 1.f, .top_k = 5, .top_p = 0.9f};
  const std::vector<uint32_t> nothing(kVocab / 32 + 1);
  std::vector<float> logits;
  std::vector<RowSampling> sampling;
  for (const SamplingParams* params : {&greedy, &warm}) {
    for (const float bad : {std::nanf(""), kInfinity, -kInfinity}) {
      logits.resize(logits.size() + kVocab, bad == -kInfinity ? bad : 1.f);
      logits[logits.size() - 100] = bad;
      sampling.push_back({params, 0, {}, {}});
    }
    logits.resize(logits.size() + kVocab, 1.f);
    sampling.push_back({params, 0, {}, {}, 0, nothing});
  }
  expect_equal(kVocab, logits, sampling);
  DeviceSampler sampler(kVocab);
  EXPECT_EQ(draw(sampler, logits, sampling), std::vector<int32_t>(8, -1));
}

TEST_F(Draw, ExtremeTemperaturesAndLogitsEqualTheHosts) {
  constexpr float kBig = std::numeric_limits<float>::max();
  const SamplingParams cold{.temperature = 1e-38f}, hot{.temperature = kBig, .top_p = 0.9f},
      warm{.temperature = 1.f, .top_k = 2, .top_p = 0.99f};
  std::vector<float> logits;
  std::vector<RowSampling> sampling;
  for (const SamplingParams* params : {&cold, &hot, &warm}) {
    for (const std::vector<float>& row :
         {std::vector<float>{-kBig, kBig, 0.f}, {1.f, 1.5f, 1.f}, {5.f, -5.f, -kInfinity}}) {
      logits.insert(logits.end(), row.begin(), row.end());
      sampling.push_back({params, 1, {}, {}});
    }
  }
  expect_equal(3, logits, sampling);
}

}  // namespace
}  // namespace carat::cuda
