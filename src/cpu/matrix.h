// An activation buffer of the CPU backend.
#pragma once
#include <cstdint>

#include "base/huge_pages.h"

namespace carat {

/// [rows, width] of T, row-major. Rows start on cache lines; memory becomes resident when it is first
/// written.
template <class T>
class Matrix {
 public:
  Matrix() = default;
  Matrix(int64_t rows, int64_t width)
      : stride_(padded(width)),
        memory_(static_cast<std::size_t>(rows * stride_) * sizeof(T), "activations") {}

  T* row(int64_t index) { return reinterpret_cast<T*>(memory_.data()) + index * stride_; }
  const T* row(int64_t index) const { return reinterpret_cast<const T*>(memory_.data()) + index * stride_; }
  int64_t stride() const { return stride_; }

 private:
  /// Whole cache lines, but no multiple of 4096 bytes: the rows of a tile would compete for the same cache
  /// sets.
  static constexpr int64_t padded(int64_t width) {
    constexpr int64_t kLine = 64 / sizeof(T), kAlias = 4096 / sizeof(T);
    const int64_t stride = (width + kLine - 1) / kLine * kLine;
    return stride % kAlias == 0 ? stride + kLine : stride;
  }

  int64_t stride_ = 0;
  HugePages memory_;
};

}  // namespace carat
