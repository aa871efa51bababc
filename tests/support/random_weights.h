// Random matrices and gains for plans of any width.
#pragma once
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "base/float16.h"
#include "model/weights.h"

namespace carat {

/// Owns what it returns.
class RandomWeights {
 public:
  /// bf16 with a standard deviation of `size`, or such that products are of the size of their input.
  Linear matrix(int64_t rows, int64_t cols, float size = 0.f) {
    std::normal_distribution<float> normal(0.f,
                                           size > 0.f ? size : 1.f / std::sqrt(static_cast<float>(cols)));
    auto& bytes = matrices_.emplace_back(static_cast<std::size_t>(2 * rows * cols));
    for (std::size_t i = 0; i < bytes.size(); i += 2) {
      const bf16 w = to_bf16(normal(random_));
      std::memcpy(bytes.data() + i, &w, sizeof w);
    }
    return {WeightFormat::bf16, rows, cols, bytes.data()};
  }
  Vec gains(int size) {
    std::uniform_real_distribution<float> uniform(0.5f, 1.5f);
    auto& values = vectors_.emplace_back(static_cast<std::size_t>(size));
    for (float& v : values) v = uniform(random_);
    return values;
  }

 private:
  std::mt19937 random_{7};
  std::vector<std::vector<std::byte>> matrices_;
  std::vector<std::vector<float>> vectors_;
};

}  // namespace carat
