#include "model/formats.h"

#include <algorithm>
#include <array>
#include <bit>
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

// Four float32 lanes of whatever the machine has: compilers don't vectorise the search for int4 scales by
// themselves.
using Lanes [[gnu::vector_size(16)]] = float;
using Int4Lanes = std::array<Lanes, kInt4Block / 4>;

// Adding 1.5 * 2^23 leaves no fraction bits: rounds to nearest even for |x| < 2^22.
template <class Floats>
Floats round_to_integer(Floats x) {
  constexpr float kMagic = 12582912.f;
  return (x + kMagic) - kMagic;
}

// As integers, so that it vectorises: the order of positive floats is that of their bits.
template <std::size_t count>
float largest_magnitude(const std::array<float, count>& weights) {
  int32_t largest = 0;
  for (const float w : weights) {
    const int32_t magnitude = std::bit_cast<int32_t>(w) & 0x7fffffff;
    largest = magnitude > largest ? magnitude : largest;
  }
  return std::bit_cast<float>(largest);
}

// Thrown for a block with a weight that no scale can hold: too large for an f16, infinite or NaN.
// encode_row() knows where it is.
struct Unencodable {};

// The next f16 not below x, so that no weight exceeds the largest integer.
f16 to_f16_up(float x) {
  f16 rounded = to_f16(x);
  if (to_float(rounded) < x) ++rounded.bits;
  return rounded;
}

f16 checked_scale(f16 scale, float largest) {
  if (!std::isfinite(largest) || !std::isfinite(to_float(scale))) throw Unencodable{};
  return scale;
}

float inverse_of(f16 scale) { return to_float(scale) == 0.f ? 0.f : 1.f / to_float(scale); }

Int8Block encode_int8(const std::array<float, kInt8Block>& weights) {
  const float largest = largest_magnitude(weights);
  Int8Block block{checked_scale(to_f16_up(largest / 127.f), largest), {}};
  const float inverse = inverse_of(block.scale);
  for (int i = 0; i < kInt8Block; ++i) {
    block.q[i] = static_cast<int8_t>(static_cast<int32_t>(round_to_integer(weights[i] * inverse)));
  }
  return block;
}

Int4Lanes integers_for(const Int4Lanes& weights, f16 scale) {
  constexpr Lanes kLowest{-8.f, -8.f, -8.f, -8.f}, kHighest{7.f, 7.f, 7.f, 7.f};
  const float inverse = inverse_of(scale);
  Int4Lanes m;
  for (std::size_t i = 0; i < m.size(); ++i) {
    const Lanes quotient = weights[i] * inverse, above = quotient > kLowest ? quotient : kLowest;
    m[i] = round_to_integer(above < kHighest ? above : kHighest);
  }
  return m;
}

Int4Block with_scale(const Int4Weights& weights, f16 scale) {
  const auto m = std::bit_cast<Int4Weights>(integers_for(std::bit_cast<Int4Lanes>(weights), scale));
  Int4Block block{scale, {}};
  for (int i = 0; i < kInt4Block / 2; ++i) {
    const int low = static_cast<int>(m[i]) + 8, high = static_cast<int>(m[i + 16]) + 8;
    block.nibbles[i] = static_cast<uint8_t>(low | high << 4);
  }
  return block;
}

float inner_product(const Int4Lanes& a, const Int4Lanes& b) {
  Lanes sums{};
  for (std::size_t i = 0; i < a.size(); ++i) sums += a[i] * b[i];
  return (sums[0] + sums[2]) + (sums[1] + sums[3]);
}

float squared_error(const Int4Lanes& weights, const Int4Lanes& m, f16 scale) {
  Int4Lanes error;
  for (std::size_t i = 0; i < m.size(); ++i) error[i] = weights[i] - m[i] * to_float(scale);
  return inner_product(error, error);
}

bool rounds_to(const Int4Weights& weights, float d) {
  return std::all_of(weights.begin(), weights.end(),
                     [d](float w) { return to_float(to_bf16(d * round_to_integer(w / d))) == w; });
}

// Weights that were trained on a lattice are d * m rounded to bf16, where the extreme weight need not be at m
// = -8. Given its m, finds the d of the others: each narrows the interval in which d can lie. Prefers a scale
// that gives every weight back exactly, which exists when d was an f16 or bf16 number.
bool on_lattice(const Int4Weights& weights, float extreme, float inverse_extreme, float extreme_m,
                f16& scale) {
  constexpr float kHalfUlp = 0x1p-8f;  // the most that rounding to bf16 changes a number, relatively
  const float inverse = extreme_m * inverse_extreme;
  float low = 0.f, high = std::numeric_limits<float>::infinity();  // of d, relative to extreme / extreme_m
  for (const float w : weights) {
    const float quotient = w * inverse, m = round_to_integer(quotient);
    if (std::abs(quotient - m) > std::abs(m) * (3 * kHalfUlp))
      return false;  // nearly always at the first weight
    if (m < -8.f || m > 7.f) return false;
    if (m == 0.f) continue;
    low = std::max(low, quotient / m * (1.f - kHalfUlp));
    high = std::min(high, quotient / m * (1.f + kHalfUlp));
  }
  if (low > high) return false;
  const float guess = extreme / extreme_m;
  f16 candidate = to_f16_up(std::abs(guess) * low);
  candidate.bits = static_cast<uint16_t>(candidate.bits | (guess < 0.f ? 0x8000u : 0u));
  for (; to_float(candidate) / guess <= high; ++candidate.bits) {
    if (rounds_to(weights, to_float(candidate))) {
      scale = candidate;
      return true;
    }
  }
  scale = to_f16(guess * (low + high) / 2.f);
  const float relative = to_float(scale) / guess;
  return relative >= low && relative <= high;
}

// The usual choice puts the extreme weight at m = -8. Other grids often fit the rest of the block better:
// tries a few, then the scale that fits the integers of the best one with the least squared error.
f16 best_scale(const Int4Lanes& weights, float extreme, float largest) {
  f16 best = checked_scale(to_f16(extreme / -8.f), largest);
  Int4Lanes integers = integers_for(weights, best);
  float least = squared_error(weights, integers, best);
  const auto consider = [&](f16 scale) {
    const Int4Lanes m = integers_for(weights, scale);
    const float error = squared_error(weights, m, scale);
    if (!(error < least)) return;
    least = error;
    best = scale;
    integers = m;
  };
  for (const float divisor : {-8.5f, -7.f, 7.5f}) consider(to_f16(extreme / divisor));
  consider(to_f16(inner_product(weights, integers) / inner_product(integers, integers)));
  return best;
}

Int4Block encode_int4(const Int4Weights& weights) {
  const float largest = largest_magnitude(weights);
  if (!std::isfinite(largest)) throw Unencodable{};
  if (largest == 0.f) return with_scale(weights, f16{0});
  const float extreme =
      std::find(weights.begin(), weights.end(), largest) != weights.end() ? largest : -largest;
  const float inverse = 1.f / extreme;
  f16 scale{};
  for (const float m : {-8.f, -7.f, 7.f, -6.f, 6.f, -5.f, 5.f, -4.f, 4.f, -3.f, 3.f, -2.f, 2.f, -1.f, 1.f}) {
    if (on_lattice(weights, extreme, inverse, m, scale)) return with_scale(weights, scale);
  }
  return with_scale(weights, best_scale(std::bit_cast<Int4Lanes>(weights), extreme, largest));
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

namespace {

void encode_blocks(WeightFormat format, const float* weights, int64_t cols, std::byte* out) {
  if (format == WeightFormat::int8) {
    for_each_block(cols, kInt8Block, [&](int64_t b, int count) {
      std::array<float, kInt8Block> padded{};
      std::copy_n(weights + b * kInt8Block, count, padded.begin());
      const Int8Block block = encode_int8(padded);
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

// NaN ranks above everything.
bool smaller_magnitude(float a, float b) {
  const auto magnitude = [](float x) { return std::bit_cast<uint32_t>(x) & 0x7fffffffu; };
  return magnitude(a) < magnitude(b);
}

}  // namespace

void encode_row(WeightFormat format, const float* weights, int64_t cols, std::byte* out) {
  CHECK(format == WeightFormat::int8 || format == WeightFormat::int4);
  try {
    encode_blocks(format, weights, cols, out);
  } catch (const Unencodable&) {
    const float* worst = std::max_element(weights, weights + cols, smaller_magnitude);
    fail(ErrorKind::corrupt, "column ", worst - weights, " is ", *worst,
         std::isfinite(*worst) ? ", too large to be quantised" : ", which is not a finite number");
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
