#include "model/formats.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "base/error.h"

namespace carat {
namespace {

constexpr std::array<std::pair<WeightFormat, const char*>, 5> kNames{{{WeightFormat::f32, "f32"},
                                                                      {WeightFormat::f16, "f16"},
                                                                      {WeightFormat::bf16, "bf16"},
                                                                      {WeightFormat::int8, "int8"},
                                                                      {WeightFormat::int4, "int4"}}};

using Int4Weights = std::array<float, kInt4Block>;

// Adding 1.5 * 2^23 leaves no fraction bits: rounds to nearest even for |x| < 2^22, and loops of it
// vectorise.
float round_to_integer(float x) {
  constexpr float kMagic = 12582912.f;
  return (x + kMagic) - kMagic;
}

float largest_magnitude(const float* weights, int count) {
  float largest = 0.f;
  for (int i = 0; i < count; ++i) {
    if (!std::isfinite(weights[i])) fail(ErrorKind::corrupt, "a weight is not a finite number");
    largest = std::max(largest, std::abs(weights[i]));
  }
  return largest;
}

// The next f16 not below x, so that no weight exceeds the largest integer.
f16 to_f16_up(float x) {
  f16 rounded = to_f16(x);
  if (to_float(rounded) < x) ++rounded.bits;
  return rounded;
}

f16 checked_scale(f16 scale, float largest) {
  if (!std::isfinite(to_float(scale))) {
    fail(ErrorKind::corrupt, "a weight of magnitude ", largest, " is too large to be quantised");
  }
  return scale;
}

Int8Block encode_int8(const float* weights) {
  const float largest = largest_magnitude(weights, kInt8Block);
  Int8Block block{checked_scale(to_f16_up(largest / 127.f), largest), {}};
  const float scale = to_float(block.scale);
  if (scale == 0.f) return block;
  for (int i = 0; i < kInt8Block; ++i) block.q[i] = static_cast<int8_t>(round_to_integer(weights[i] / scale));
  return block;
}

Int4Block with_scale(const Int4Weights& weights, f16 scale) {
  const float inverse = to_float(scale) == 0.f ? 0.f : 1.f / to_float(scale);
  std::array<uint8_t, kInt4Block> m;
  for (int i = 0; i < kInt4Block; ++i) {
    m[i] = static_cast<uint8_t>(round_to_integer(std::clamp(weights[i] * inverse, -8.f, 7.f)) + 8.f);
  }
  Int4Block block{scale, {}};
  for (int i = 0; i < kInt4Block / 2; ++i) block.nibbles[i] = static_cast<uint8_t>(m[i] | m[i + 16] << 4);
  return block;
}

double squared_error(const Int4Weights& weights, f16 scale) {
  const float d = to_float(scale), inverse = d == 0.f ? 0.f : 1.f / d;
  float sum = 0.f;
  for (const float w : weights) {
    const float error = w - d * round_to_integer(std::clamp(w * inverse, -8.f, 7.f));
    sum += error * error;
  }
  return sum;
}

bool rounds_to(const Int4Weights& weights, float d) {
  return std::all_of(weights.begin(), weights.end(),
                     [d](float w) { return to_float(to_bf16(d * round_to_integer(w / d))) == w; });
}

// Weights that were trained on a lattice are d * m rounded to bf16, where the largest weight need not be at m
// = -8. Given that weight / m, finds the d of the others: each narrows the interval in which d can lie.
// Prefers a scale that gives every weight back exactly, which exists when d was an f16 or bf16 number.
bool on_lattice(const Int4Weights& weights, float first_guess, f16& scale) {
  constexpr float kHalfUlp = 0x1p-8f;  // the most that rounding to bf16 changes a number, relatively
  float low = 0.f, high = std::numeric_limits<float>::infinity();
  for (const float w : weights) {
    const float m = round_to_integer(w / first_guess);
    if (m < -8.f || m > 7.f || (m == 0.f && w != 0.f)) return false;
    if (m == 0.f) continue;
    low = std::max(low, w / m / first_guess * (1.f - kHalfUlp));
    high = std::min(high, w / m / first_guess * (1.f + kHalfUlp));
  }
  if (low > high) return false;
  scale = to_f16(first_guess * (low + high) / 2.f);
  const auto inside = [&](f16 d) {
    return to_float(d) / first_guess >= low && to_float(d) / first_guess <= high;
  };
  f16 candidate = to_f16_up(std::abs(first_guess) * low);
  candidate.bits = static_cast<uint16_t>(candidate.bits | (first_guess < 0.f ? 0x8000u : 0u));
  for (; to_float(candidate) / first_guess <= high; ++candidate.bits) {
    if (rounds_to(weights, to_float(candidate))) {
      scale = candidate;
      return true;
    }
  }
  return inside(scale);
}

Int4Block encode_int4(const Int4Weights& weights) {
  const float largest = largest_magnitude(weights.data(), kInt4Block);
  if (largest == 0.f) return with_scale(weights, f16{0});
  const float extreme = *std::max_element(weights.begin(), weights.end(),
                                          [](float a, float b) { return std::abs(a) < std::abs(b); });
  for (int m = 8; m >= 1; --m) {
    f16 scale{};
    if (on_lattice(weights, extreme / static_cast<float>(-m), scale)) return with_scale(weights, scale);
    if (m < 8 && on_lattice(weights, extreme / static_cast<float>(m), scale))
      return with_scale(weights, scale);
  }
  // The extreme at m = -8 is the usual choice; slightly other grids often fit the rest of the block better.
  f16 best = checked_scale(to_f16(extreme / -8.f), largest);
  double least = squared_error(weights, best);
  for (const float divisor : {-7.5f, -7.f, 7.f, -8.5f, 7.5f}) {
    const f16 candidate = to_f16(extreme / divisor);
    const double error = squared_error(weights, candidate);
    if (error < least) {
      least = error;
      best = candidate;
    }
  }
  return with_scale(weights, checked_scale(best, largest));
}

// Calls visit(block index, columns in this block) for the blocks of a row.
template <class Visit>
void for_each_block(int64_t cols, int block, Visit&& visit) {
  for (int64_t b = 0; b < block_count(cols, block); ++b) {
    visit(b, static_cast<int>(std::min<int64_t>(block, cols - b * block)));
  }
}

}  // namespace

const char* format_name(WeightFormat format) {
  for (const auto& [value, name] : kNames) {
    if (value == format) return name;
  }
  CHECK(false);
}

WeightFormat parse_format(std::string_view name) {
  for (const auto& [value, known] : kNames) {
    if (name == known) return value;
  }
  fail(ErrorKind::invalid_argument, "unknown weight format '", name, "': use f32, f16, bf16, int8 or int4");
}

void encode_row(WeightFormat format, const float* weights, int64_t cols, std::byte* out) {
  CHECK(format == WeightFormat::int8 || format == WeightFormat::int4);
  if (format == WeightFormat::int8) {
    for_each_block(cols, kInt8Block, [&](int64_t b, int count) {
      std::array<float, kInt8Block> padded{};
      std::copy_n(weights + b * kInt8Block, count, padded.begin());
      const Int8Block block = encode_int8(padded.data());
      std::memcpy(out + b * sizeof block, &block, sizeof block);
    });
  } else {
    for_each_block(cols, kInt4Block, [&](int64_t b, int count) {
      Int4Weights padded{};
      std::copy_n(weights + b * kInt4Block, count, padded.begin());
      const Int4Block block = encode_int4(padded);
      std::memcpy(out + b * sizeof block, &block, sizeof block);
    });
  }
}

void decode_int8(const std::byte* row, int64_t cols, float* out) {
  for_each_block(cols, kInt8Block, [&](int64_t b, int count) {
    Int8Block block;
    std::memcpy(&block, row + b * sizeof block, sizeof block);
    const float scale = to_float(block.scale);
    for (int i = 0; i < count; ++i) out[b * kInt8Block + i] = scale * block.q[i];
  });
}

void decode_int4(const std::byte* row, int64_t cols, float* out) {
  for_each_block(cols, kInt4Block, [&](int64_t b, int count) {
    Int4Block block;
    std::memcpy(&block, row + b * sizeof block, sizeof block);
    const float scale = to_float(block.scale);
    for (int i = 0; i < count; ++i) {
      const int nibble = i < 16 ? block.nibbles[i] & 15 : block.nibbles[i - 16] >> 4;
      out[b * kInt4Block + i] = scale * static_cast<float>(nibble - 8);
    }
  });
}

}  // namespace carat
