// The arithmetic that the reference blocks are written in.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "model/gemma4.h"

namespace carat {

/// Sixteen partial sums: closer to the true sum than one running sum.
float dot(const float* a, const float* b, int64_t size);

/// y[r] = W x[r] for `count` rows; x is [count, w.cols], y [count, w.rows].
void matmul(const Linear& w, const float* x, int count, std::vector<float>& y);

/// y = x / sqrt(mean(x^2) + eps) * gain; no gain when empty. The gain is used as stored (no 1 + gain). In
/// place is fine.
void rms_norm(const float* x, Vec gain, float eps, int size, float* y);

/// 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), transformers' gelu_pytorch_tanh.
float gelu_tanh(float x);

/// Rotates pairs (j, j + head_dim / 2), j < rope.rotary_pairs, by position * theta^(-2 j / head_dim). The
/// angle is rounded to float32 before its cosine is taken, as in transformers.
void rotate(float* head, int head_dim, const Rope& rope, int position);

/// Turns scores into probabilities, in place.
void softmax(std::span<float> scores);

}  // namespace carat
