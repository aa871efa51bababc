#include "engine/logprobs.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "engine/divergence.h"

namespace carat {

TokenLogprobs logprobs_of(std::span<const float> logits, int32_t token, int best) {
  const double total = log_sum(logits);
  const auto logprob = [&](int32_t id) { return static_cast<float>(logits[id] - total); };
  TokenLogprobs result;
  result.drawn = logprob(token);
  const auto ranks_before = [&](int32_t a, int32_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  };
  std::vector<int32_t> ids;  // the best so far, the worst of them first
  for (int32_t id = 0; static_cast<std::size_t>(id) < logits.size() && best > 0; ++id) {
    const bool full = ids.size() == static_cast<std::size_t>(best);
    if (full && !ranks_before(id, ids.front())) continue;
    if (full) {
      std::ranges::pop_heap(ids, ranks_before);
      ids.pop_back();
    }
    ids.push_back(id);
    std::ranges::push_heap(ids, ranks_before);
  }
  std::ranges::sort(ids, ranks_before);
  for (const int32_t id : ids) result.best.push_back({id, logprob(id)});
  return result;
}

}  // namespace carat
