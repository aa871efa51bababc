#include "model/drafter.h"

#include <algorithm>
#include <numeric>

namespace carat {

std::vector<int32_t> candidates(const OrderedHead& head, std::span<const float> centroid_logits) {
  std::vector<std::size_t> order(centroid_logits.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::partial_sort(order, order.begin() + head.searched, [&](std::size_t a, std::size_t b) {
    return centroid_logits[a] != centroid_logits[b] ? centroid_logits[a] > centroid_logits[b] : a < b;
  });
  std::vector<int32_t> tokens;
  const auto size = static_cast<std::size_t>(head.cluster_size());
  for (int i = 0; i < head.searched; ++i) {
    const auto cluster = std::span(head.tokens).subspan(order[static_cast<std::size_t>(i)] * size, size);
    tokens.insert(tokens.end(), cluster.begin(), cluster.end());
  }
  return tokens;
}

int32_t likeliest_of(std::span<const int32_t> tokens, std::span<const float> logits) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < tokens.size(); ++i) {
    if (logits[i] > logits[best] || (logits[i] == logits[best] && tokens[i] < tokens[best])) best = i;
  }
  return tokens[best];
}

std::vector<Segment> draft_segments(const DraftRows& rows, bool seen) {
  std::vector<Segment> segments;
  for (int32_t r = 0; r < rows.count(); ++r) {
    segments.push_back({r, 1, rows.past[static_cast<std::size_t>(r)] - (seen ? 1 : 0), r});
  }
  return segments;
}

}  // namespace carat
