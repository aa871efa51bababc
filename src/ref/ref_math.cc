#include "ref/ref_math.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace carat {

float dot(const float* a, const float* b, int64_t size) {
  constexpr int kLanes = 16;
  std::array<float, kLanes> sums{};
  int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  float total = 0.f;
  for (; i < size; ++i) total += a[i] * b[i];
  for (float sum : sums) total += sum;
  return total;
}

void matmul(const Linear& w, const float* x, int count, std::vector<float>& y) {
  y.resize(count * w.rows);
  std::vector<float> row(w.cols);
  for (int64_t r = 0; r < w.rows; ++r) {
    decode_row(w, r, row.data());
    for (int64_t t = 0; t < count; ++t) {
      y[t * w.rows + r] = dot(row.data(), x + t * w.cols, w.cols);
    }
  }
}

void rms_norm(const float* x, Vec gain, float eps, int size, float* y) {
  const float scale = 1.f / std::sqrt(dot(x, x, size) / static_cast<float>(size) + eps);
  for (int i = 0; i < size; ++i) y[i] = x[i] * scale * (gain.empty() ? 1.f : gain[i]);
}

float gelu_tanh(float x) {
  const float kScale = std::sqrt(2.f / std::numbers::pi_v<float>);
  return 0.5f * x * (1.f + std::tanh(kScale * (x + 0.044715f * x * x * x)));
}

void rotate(float* head, int head_dim, const Rope& rope, int position) {
  const int half = head_dim / 2;
  for (int j = 0; j < rope.rotary_pairs; ++j) {
    const auto frequency = static_cast<float>(std::pow(double{rope.theta}, -2.0 * j / head_dim));
    const float angle = static_cast<float>(position) * frequency;
    const auto c = static_cast<float>(std::cos(double{angle})),
               s = static_cast<float>(std::sin(double{angle}));
    const float a = head[j], b = head[j + half];
    head[j] = a * c - b * s;
    head[j + half] = b * c + a * s;
  }
}

void softmax(std::span<float> scores) {
  const float largest = *std::max_element(scores.begin(), scores.end());
  float total = 0.f;
  for (float& score : scores) total += score = std::exp(score - largest);
  for (float& score : scores) score /= total;
}

}  // namespace carat
