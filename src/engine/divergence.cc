#include "engine/divergence.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace carat {

double log_sum(std::span<const float> logits) {
  const float largest = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  return largest + std::log(sum);
}

double kl_divergence(std::span<const float> p, std::span<const float> q) {
  CHECK(p.size() == q.size());
  const double p_sum = log_sum(p), q_sum = log_sum(q);
  double divergence = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double log_p = p[i] - p_sum, log_q = q[i] - q_sum;
    if (p[i] > -INFINITY)
      divergence += std::exp(static_cast<float>(log_p)) * (log_p - log_q);  // 0 log 0 is 0
  }
  return divergence;
}

}  // namespace carat
