// How far two models' predictions are apart: what `carat eval` reports. Natural logarithms throughout.
#pragma once
#include <span>

namespace carat {

/// log(sum exp(logits)), so that logit - log_sum is a log-probability. NaN when a logit is one.
double log_sum(std::span<const float> logits);

/// Kullback-Leibler divergence sum p log(p / q) of the distributions that two logit rows stand for: what is
/// lost by predicting with `q` where `p` is right. Never negative but for rounding.
double kl_divergence(std::span<const float> p, std::span<const float> q);

}  // namespace carat
