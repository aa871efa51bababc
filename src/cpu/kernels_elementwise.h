// Norms, rotary embedding, activation functions: what touches each value of a row a few times. Compiled once
// per ISA.
#pragma once
#include "cpu/kernels_layout.h"
#include "cpu/kernels_tile.h"

namespace carat::CARAT_ISA {

/// Calls run(first, count) for vectors of 16 lanes, the last one shorter.
template <class Run>
[[gnu::always_inline]] inline void for_each_vector(int64_t n, Run&& run) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) run(i, 16);
  if (i < n) run(i, static_cast<int>(n - i));
}

/// e^x within 2 units in the last place; x below -104 gives 0, above 88 the value at 88. NaN stays NaN: of
/// min and max, the second operand wins.
inline Floats exp(Floats x) {
  const Floats clamped = max(broadcast(-104.f), min(broadcast(88.f), x));
  const Floats power = round(mul(clamped, broadcast(1.44269504f)));
  // ln 2 in two parts, the first with so few bits that its product with `power` is exact.
  const Floats near = fma(power, broadcast(-0.693145751953125f), clamped);
  const Floats reduced = fma(power, broadcast(-1.42860682e-6f), near);
  // The Taylor polynomial of degree 7: its remainder for |reduced| <= ln 2 / 2 is below 6e-9.
  Floats sum = broadcast(1.f / 5040);
  for (const float coefficient : {1.f / 720, 1.f / 120, 1.f / 24, 1.f / 6, 1.f / 2, 1.f, 1.f}) {
    sum = fma(sum, reduced, broadcast(coefficient));
  }
  // 2^power in two factors, each a normal number, so that tiny results underflow like any product.
  const Ints half = to_ints(mul(power, broadcast(0.5f))), rest = to_ints(sub(power, to_floats(half)));
  const auto power_of_two = [](Ints exponent) {
    return as_floats(shift_left<23>(add(exponent, broadcast(int32_t{127}))));
  };
  return mul(mul(sum, power_of_two(half)), power_of_two(rest));
}

/// x / (1 + e^(-2 u)) with u = sqrt(2 / pi) (x + 0.044715 x^3), which equals x / 2 (1 + tanh u) without
/// cancelling.
inline Floats gelu_tanh(Floats x) {
  constexpr float kScale = -2.f * 0.797884560802865f;
  const Floats cubic = fma(mul(x, x), broadcast(kScale * 0.044715f), broadcast(kScale));
  return div(x, add(broadcast(1.f), exp(mul(x, cubic))));
}

inline void gelu_mul(const float* gate, const float* up, int64_t n, float* out) {
  for_each_vector(n, [&](int64_t i, int count) {
    const Floats activated = gelu_tanh(load_first(gate + i, count));
    store_first(out + i, mul(activated, load_first(up + i, count)), count);
  });
}

/// cap * tanh(x / cap), tanh as 1 - 2 / (e^(2 |x|) + 1) with the sign put back: odd, and never above cap.
/// Infinity becomes NaN rather than cap, so that a broken logit stays one.
inline void softcap(float* x, float cap, int64_t n) {
  for_each_vector(n, [&](int64_t i, int count) {
    const Floats value = load_first(x + i, count);
    const Ints sign = bit_and(as_ints(value), 0x80000000u);
    const Floats magnitude = as_floats(bit_and(as_ints(value), 0x7fffffffu));
    const Floats raised = exp(mul(magnitude, broadcast(2.f / cap)));
    const Floats tanh = sub(broadcast(1.f), div(broadcast(2.f), add(raised, broadcast(1.f))));
    const Floats capped = mul(tanh, broadcast(cap));
    const Floats zero_or_nan = sub(value, value);
    store_first(x + i, add(as_floats(bit_or(as_ints(capped), sign)), zero_or_nan), count);
  });
}

inline float mean_square(const float* x, int64_t n) {
  Floats sums[4] = {broadcast(0.f), broadcast(0.f), broadcast(0.f), broadcast(0.f)};
  int64_t i = 0;
  for (; i + 64 <= n; i += 64) {
    CARAT_UNROLL
    for (int j = 0; j < 4; ++j) {
      const Floats value = load(x + i + 16 * j);
      sums[j] = fma(value, value, sums[j]);
    }
  }
  for (; i < n; i += 16) {
    const Floats value = load_first(x + i, static_cast<int>(min_of(n - i, 16)));
    sums[0] = fma(value, value, sums[0]);
  }
  return reduce_add(add(add(sums[0], sums[1]), add(sums[2], sums[3]))) / static_cast<float>(n);
}

inline float inverse_rms(const float* x, float eps, int64_t n) {
  return 1.f / __builtin_sqrtf(mean_square(x, n) + eps);
}

inline void rms_norm(const float* x, const float* gain, float eps, int64_t n, float* out) {
  const Floats scale = broadcast(inverse_rms(x, eps, n));
  for_each_vector(n, [&](int64_t i, int count) {
    const Floats scaled = mul(load_first(x + i, count), scale);
    store_first(out + i, gain ? mul(scaled, load_first(gain + i, count)) : scaled, count);
  });
}

inline void residual_norm(float* x, const float* y, const float* post_gain, float scalar,
                          const float* next_gain, float eps, int64_t n, float* out) {
  const Floats scale = broadcast(inverse_rms(y, eps, n)), factor = broadcast(scalar);
  for_each_vector(n, [&](int64_t i, int count) {
    const Floats branch = mul(mul(load_first(y + i, count), scale), load_first(post_gain + i, count));
    store_first(x + i, mul(add(load_first(x + i, count), branch), factor), count);
  });
  if (out) rms_norm(x, next_gain, eps, n, out);
}

inline void weighted_sum(float a, const float* x, float b, const float* y, int64_t n, float* out) {
  for_each_vector(n, [&](int64_t i, int count) {
    const Floats second = mul(load_first(y + i, count), broadcast(b));
    store_first(out + i, fma(load_first(x + i, count), broadcast(a), second), count);
  });
}

inline void rope(float* x, const float* cosines, const float* sines, int head_dim, int rotary_pairs) {
  float* second = x + head_dim / 2;
  for_each_vector(rotary_pairs, [&](int64_t i, int count) {
    const Floats c = load_first(cosines + i, count), s = load_first(sines + i, count);
    const Floats a = load_first(x + i, count), b = load_first(second + i, count);
    store_first(x + i, sub(mul(a, c), mul(b, s)), count);
    store_first(second + i, add(mul(b, c), mul(a, s)), count);
  });
}

/// Finds the largest value first, then where it is: two passes over data that the first leaves in cache.
inline int64_t argmax(const float* x, int64_t n) {
  constexpr float kLowest = -__builtin_inff();
  float largest = kLowest;
  Floats lanes = broadcast(kLowest);
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) lanes = max(load(x + i), lanes);
  for (; i < n; ++i) largest = x[i] > largest ? x[i] : largest;
  const float vector_largest = reduce_max(lanes);
  if (vector_largest > largest) largest = vector_largest;
  for (i = 0; i < n; ++i) {
    if (x[i] == largest) return i;
  }
  return 0;
}

inline void decode_row(const Linear& w, int64_t row, float scale, float* out) {
  carat::decode_row(w, row, out);
  const Floats factor = broadcast(scale);
  for_each_vector(w.cols, [&](int64_t i, int count) {
    store_first(out + i, mul(load_first(out + i, count), factor), count);
  });
}

}  // namespace carat::CARAT_ISA
