#include "engine/kv_budget.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/error.h"
#include "engine/kv_pages.h"

namespace carat {
namespace {

/// Pages of `group` in `bytes`, as many as an engine can number.
int pages_within(std::size_t bytes, const KvGroup& group, const KvBudget& budget) {
  const std::size_t page = kv_page_bytes(group, budget.page_tokens, budget.element_bytes);
  const std::size_t most = std::numeric_limits<int>::max() / static_cast<std::size_t>(budget.page_tokens);
  return page == 0 ? 0 : static_cast<int>(std::min(bytes / page, most));
}

}  // namespace

std::size_t kv_page_bytes(const KvGroup& group, int page_tokens, std::size_t element_bytes) {
  return std::size_t{2} * group.layers * group.kv_heads * group.head_dim * page_tokens * element_bytes;
}

RunnerOptions size_kv_within(const std::array<KvGroup, kKvGroups>& groups, const KvBudget& budget) {
  // Checks the numbers, and says what one sequence needs.
  RunnerOptions options = size_kv(groups, budget.context, 1, budget.max_step_tokens, budget.page_tokens);
  const std::array<int, kKvGroups> least = options.pages;
  const KvPages one(groups, options);
  const KvGroup &full = groups[kFullGroup], &sliding = groups[kSlidingGroup];
  const std::size_t sliding_page = kv_page_bytes(sliding, budget.page_tokens, budget.element_bytes);
  for (options.max_sequences = std::max(1, budget.sequences); options.max_sequences > 0;
       --options.max_sequences) {
    const int64_t windows =
        int64_t{2} * options.max_sequences * one.reserved_pages(kSlidingGroup, budget.context);
    options.pages[kSlidingGroup] =
        static_cast<int>(std::min<int64_t>(windows, pages_within(budget.bytes, sliding, budget)) +
                         one.step_pages(kSlidingGroup));
    const std::size_t taken = static_cast<std::size_t>(options.pages[kSlidingGroup]) * sliding_page;
    const int rest = taken < budget.bytes ? pages_within(budget.bytes - taken, full, budget) : 0;
    const int64_t wanted =
        int64_t{2} * options.max_sequences * one.reserved_pages(kFullGroup, budget.context);
    options.pages[kFullGroup] = static_cast<int>(std::min<int64_t>(rest, wanted));
    if (rest >= least[kFullGroup] && taken <= budget.bytes) return options;
  }
  const std::size_t needed = static_cast<std::size_t>(least[kFullGroup]) *
                                 kv_page_bytes(full, budget.page_tokens, budget.element_bytes) +
                             static_cast<std::size_t>(least[kSlidingGroup]) * sliding_page * 2;
  constexpr std::size_t kMebibyte = std::size_t{1} << 20;
  fail(ErrorKind::invalid_argument, "KV memory of ", budget.bytes / kMebibyte,
       " MiB can't hold a context of ", budget.context, " tokens, which needs up to ", needed / kMebibyte + 1,
       " MiB; give more or shorten the context");
}

}  // namespace carat
