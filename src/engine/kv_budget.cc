#include "engine/kv_budget.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/error.h"
#include "base/memory_text.h"
#include "engine/kv_pages.h"

namespace carat {
namespace {

/// Pages of `group` in `bytes`, as many as an engine can number.
int pages_within(std::size_t bytes, const KvGroup& group, const KvBudget& budget) {
  const std::size_t page = kv_page_bytes(group, budget.page_tokens, budget.value_bytes, budget.scale_bytes);
  const std::size_t most = std::numeric_limits<int>::max() / static_cast<std::size_t>(budget.page_tokens);
  return page == 0 ? 0 : static_cast<int>(std::min(bytes / page, most));
}

}  // namespace

std::size_t kv_page_bytes(const KvGroup& group, int page_tokens, std::size_t value_bytes,
                          std::size_t scale_bytes) {
  return std::size_t{2} * group.layers * group.kv_heads * page_tokens *
         (group.head_dim * value_bytes + scale_bytes);
}

std::size_t kv_bytes(const std::array<KvGroup, kKvGroups>& groups, const RunnerOptions& limits,
                     std::size_t value_bytes, std::size_t scale_bytes) {
  std::size_t bytes = 0;
  for (int g = 0; g < kKvGroups; ++g)
    bytes += static_cast<std::size_t>(limits.pages[g]) *
             kv_page_bytes(groups[g], limits.page_tokens, value_bytes, scale_bytes);
  return bytes;
}

int longest_context_within(const std::array<KvGroup, kKvGroups>& groups, const KvBudget& budget) {
  const RunnerOptions one = size_kv(groups, budget.context, 1, budget.max_step_tokens, budget.page_tokens);
  const KvGroup &full = groups[kFullGroup], &sliding = groups[kSlidingGroup];
  const KvPages pages(groups, one);
  const int windows =
      2 * pages.reserved_pages(kSlidingGroup, budget.context) + pages.step_pages(kSlidingGroup);
  const std::size_t taken =
      static_cast<std::size_t>(windows) *
      kv_page_bytes(sliding, budget.page_tokens, budget.value_bytes, budget.scale_bytes);
  if (full.layers == 0) return budget.context;
  const int left = taken < budget.bytes ? pages_within(budget.bytes - taken, full, budget) : 0;
  const int64_t tokens = int64_t{std::max(left, 1)} * budget.page_tokens;
  return static_cast<int>(std::min<int64_t>(tokens, budget.context));
}

RunnerOptions size_kv_within(const std::array<KvGroup, kKvGroups>& groups, const KvBudget& budget) {
  // Checks the numbers, and says what one sequence needs.
  RunnerOptions options = size_kv(groups, budget.context, 1, budget.max_step_tokens, budget.page_tokens);
  const std::array<int, kKvGroups> least = options.pages;
  const KvPages one(groups, options);
  const KvGroup &full = groups[kFullGroup], &sliding = groups[kSlidingGroup];
  const std::size_t sliding_page =
      kv_page_bytes(sliding, budget.page_tokens, budget.value_bytes, budget.scale_bytes);
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
  const std::size_t needed =
      static_cast<std::size_t>(least[kFullGroup]) *
          kv_page_bytes(full, budget.page_tokens, budget.value_bytes, budget.scale_bytes) +
      static_cast<std::size_t>(least[kSlidingGroup]) * sliding_page * 2;
  fail(ErrorKind::invalid_argument, "KV memory of ", memory_text(budget.bytes), " can't hold a context of ",
       budget.context, " tokens, which needs up to ", memory_text_up(needed),
       "; give more or shorten the context");
}

}  // namespace carat
