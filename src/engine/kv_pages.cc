// Page tables and free lists. Pages are numbers here; their bytes belong to the runner.
#include "engine/kv_pages.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "base/error.h"

namespace carat {
namespace {

int divide_up(int a, int b) { return (a + b - 1) / b; }

/// What one sequence of `tokens` tokens needs apart from its share of step_pages().
///
/// In a step of `count` tokens a sequence holds window - 1 + count neighbouring positions. n of them touch at
/// most (n + page_tokens - 2) / page_tokens + 1 pages; the counts of all sequences add up to the step's
/// tokens, so the part count / page_tokens is paid once for all of them.
int pages_of_sequence(const KvGroup& group, int page_tokens, int tokens) {
  if (group.layers == 0) return 0;
  const int whole = divide_up(tokens, page_tokens);
  if (group.window == 0) return whole;
  return std::min(whole, divide_up(std::max(group.window + page_tokens - 3, 0), page_tokens) + 1);
}

int pages_of_step(const KvGroup& group, int page_tokens, int step_tokens) {
  return group.layers > 0 && group.window > 0 ? divide_up(step_tokens, page_tokens) : 0;
}

}  // namespace

KvPages::KvPages(const std::array<KvGroup, kKvGroups>& groups, const RunnerOptions& limits)
    : groups_(groups), page_tokens_(limits.page_tokens), max_step_tokens_(limits.max_step_tokens) {
  CHECK(page_tokens_ > 0);
  for (int g = 0; g < kKvGroups; ++g) {
    total_[g] = groups_[g].layers > 0 ? limits.pages[g] : 0;
    for (int page = total_[g] - 1; page >= 0; --page) free_[g].push_back(page);
  }
}

bool KvPages::extend(SequencePages& sequence, int past, int count) {
  if (count <= 0) return true;
  const std::size_t first = past / page_tokens_, end = (past + count - 1) / page_tokens_ + 1;
  for (int g = 0; g < kKvGroups; ++g) {
    if (groups_[g].layers == 0) continue;
    const std::vector<int32_t>& table = sequence.table[g];
    std::size_t missing = 0;
    for (std::size_t i = first; i < end; ++i) missing += i >= table.size() || table[i] < 0 ? 1 : 0;
    if (missing > free_[g].size()) return false;
  }
  for (int g = 0; g < kKvGroups; ++g) {
    if (groups_[g].layers == 0) continue;
    std::vector<int32_t>& table = sequence.table[g];
    if (table.size() < end) table.resize(end, -1);
    for (std::size_t i = first; i < end; ++i) {
      if (table[i] >= 0) continue;
      table[i] = free_[g].back();
      free_[g].pop_back();
    }
  }
  return true;
}

void KvPages::release_behind_window(SequencePages& sequence, int past) {
  for (int g = 0; g < kKvGroups; ++g) {
    if (groups_[g].window == 0) continue;
    std::vector<int32_t>& table = sequence.table[g];
    const int first_visible = std::max(past - groups_[g].window + 1, 0);
    const std::size_t kept = std::min<std::size_t>(first_visible / page_tokens_, table.size());
    for (std::size_t i = kept; i-- > 0 && table[i] >= 0;) {
      free_[g].push_back(table[i]);
      table[i] = -1;
    }
  }
}

void KvPages::release_all(SequencePages& sequence) {
  for (int g = 0; g < kKvGroups; ++g) {
    for (const int32_t page : sequence.table[g]) {
      if (page >= 0) free_[g].push_back(page);
    }
    sequence.table[g].clear();
  }
}

int KvPages::reserved_pages(int group, int tokens) const {
  return pages_of_sequence(groups_[group], page_tokens_, tokens);
}

int KvPages::step_pages(int group) const {
  return pages_of_step(groups_[group], page_tokens_, max_step_tokens_);
}

int KvPages::longest_sequence(int limit) const {
  int longest = limit;
  for (int g = 0; g < kKvGroups; ++g) {
    const int available = std::max(total_[g] - step_pages(g), 0);
    if (reserved_pages(g, limit) > available) longest = std::min(longest, available * page_tokens_);
  }
  return longest;
}

RunnerOptions size_kv(const std::array<KvGroup, kKvGroups>& groups, int context, int sequences,
                      int max_step_tokens) {
  const auto positive = [](const char* what, int value) {
    if (value <= 0) fail(ErrorKind::invalid_argument, what, " is ", value, ", must be at least 1");
  };
  positive("context", context);
  positive("number of sequences", sequences);
  positive("tokens per step", max_step_tokens);
  RunnerOptions options;
  options.max_step_tokens = max_step_tokens;
  options.max_sequences = sequences;
  for (int g = 0; g < kKvGroups; ++g) {
    const int64_t pages = int64_t{pages_of_sequence(groups[g], options.page_tokens, context)} * sequences +
                          pages_of_step(groups[g], options.page_tokens, max_step_tokens);
    if (pages > std::numeric_limits<int>::max() / options.page_tokens) {
      fail(ErrorKind::invalid_argument, sequences, " sequences of ", context,
           " tokens are more than this engine can number; lower one of the two");
    }
    options.pages[g] = static_cast<int>(pages);
  }
  return options;
}

}  // namespace carat
