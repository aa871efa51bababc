// Page tables and free lists. Pages are numbers here; their bytes belong to the runner.
#include "engine/kv_pages.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

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

KvPages::KvPages(const std::array<KvGroup, kKvGroups>& groups, const RunnerOptions& limits, KeepPrefixes keep)
    : groups_(groups),
      page_tokens_(limits.page_tokens),
      max_step_tokens_(limits.max_step_tokens),
      pools_{PagePool(groups[kFullGroup].layers > 0 ? limits.pages[kFullGroup] : 0),
             PagePool(groups[kSlidingGroup].layers > 0 ? limits.pages[kSlidingGroup] : 0)} {
  CHECK(page_tokens_ > 0);
  // The full group's pages are what keeps a chain of prefixes alive.
  if (keep == KeepPrefixes::yes && groups_[kFullGroup].layers > 0) prefixes_.emplace(page_tokens_);
}

bool KvPages::extend(SequencePages& sequence, int past, int count) {
  std::vector<PageCopy> copies;
  const bool extended = extend(sequence, past, count, copies);
  CHECK(copies.empty());
  return extended;
}

bool KvPages::extend(SequencePages& sequence, int past, int count, std::vector<PageCopy>& copies) {
  if (count <= 0) return true;
  const std::size_t first = past / page_tokens_, end = (past + count - 1) / page_tokens_ + 1;
  const auto needs_page = [&](int g, std::size_t i) {
    const std::vector<int32_t>& table = sequence.table[g];
    return i >= table.size() || table[i] < 0 || pools_[g].holders(table[i]) > 1;
  };
  for (int g = 0; g < kKvGroups; ++g) {
    if (groups_[g].layers == 0) continue;
    int missing = 0;
    for (std::size_t i = first; i < end; ++i) missing += needs_page(g, i) ? 1 : 0;
    if (missing > pools_[g].available()) return false;
  }
  for (int g = 0; g < kKvGroups; ++g) {
    if (groups_[g].layers == 0) continue;
    std::vector<int32_t>& table = sequence.table[g];
    if (table.size() < end) table.resize(end, -1);
    for (std::size_t i = first; i < end; ++i) {
      if (!needs_page(g, i)) continue;
      const int32_t shared = std::exchange(table[i], take(g));
      if (shared < 0) continue;
      copies.push_back({g, shared, table[i]});
      pools_[g].drop(shared);
    }
  }
  return true;
}

/// The first page that position `position` and later ones can see.
int KvPages::first_visible_page(int group, int position) const {
  const int window = groups_[group].window;
  return window == 0 ? 0 : std::max(position - window + 1, 0) / page_tokens_;
}

int32_t KvPages::take(int group) {
  const int32_t page = pools_[group].take();
  if (prefixes_) {
    const int32_t freed = prefixes_->lose_page(group, page);
    if (freed >= 0) pools_[kSlidingGroup].forget(freed);
  }
  return page;
}

// Pages behind the window are the first to be handed out again, the newest of them first: texts that begin
// alike part near their beginning more often than later.
void KvPages::release_behind_window(SequencePages& sequence, int past) {
  for (int g = 0; g < kKvGroups; ++g) {
    std::vector<int32_t>& table = sequence.table[g];
    const std::size_t kept = std::min<std::size_t>(first_visible_page(g, past), table.size());
    std::size_t first = kept;
    while (first > 0 && table[first - 1] >= 0) --first;
    for (std::size_t i = first; i < kept; ++i) {
      pools_[g].drop(std::exchange(table[i], -1), PagePool::Line::front);
    }
  }
}

// Later pages get in line before earlier ones, so that of a text that nobody holds the end goes first: what
// is left of it is still a beginning.
void KvPages::release_beyond(SequencePages& sequence, int tokens) {
  const std::size_t kept = divide_up(tokens, page_tokens_);
  for (int g = 0; g < kKvGroups; ++g) {
    std::vector<int32_t>& table = sequence.table[g];
    for (; table.size() > kept; table.pop_back()) {
      if (table.back() >= 0) pools_[g].drop(table.back());
    }
  }
  if (sequence.keys.size() > kept) sequence.keys.resize(kept);
}

void KvPages::release_all(SequencePages& sequence) {
  release_beyond(sequence, 0);
  sequence.unique = false;
}

void KvPages::share(const SequencePages& from, SequencePages& to, int tokens) {
  const int end = divide_up(tokens, page_tokens_);
  for (int g = 0; g < kKvGroups; ++g) {
    CHECK(to.table[g].empty());
    if (groups_[g].layers == 0) continue;
    to.table[g].assign(end, -1);
    for (int i = first_visible_page(g, tokens); i < end; ++i) {
      to.table[g][i] = from.table[g].at(i);
      CHECK(to.table[g][i] >= 0);
      pools_[g].hold(to.table[g][i]);
    }
  }
  const std::size_t whole = tokens / page_tokens_;
  to.keys.assign(from.keys.begin(),
                 from.keys.begin() + static_cast<std::ptrdiff_t>(std::min(whole, from.keys.size())));
  to.unique = from.unique;
}

int KvPages::reuse(SequencePages& sequence, std::span<const int32_t> tokens, std::string_view salt) {
  if (!prefixes_) return 0;
  std::vector<PrefixCache::Key> keys;
  std::array<std::vector<int32_t>, kKvGroups> pages;
  std::size_t usable = 0;
  int sliding_run = 0;  // neighbouring pages up to this one that the sliding group still has
  PrefixCache::Key parent = PrefixCache::kRoot;
  while ((keys.size() + 1) * page_tokens_ < tokens.size()) {
    const auto text = tokens.subspan(keys.size() * page_tokens_, page_tokens_);
    const PrefixCache::Key key = prefixes_->key_of(parent, text, salt);
    const PrefixCache::Node* node = prefixes_->find(key, parent, text, salt);
    if (node == nullptr) break;
    keys.push_back(parent = key);
    for (int g = 0; g < kKvGroups; ++g) pages[g].push_back(node->pages[g]);
    sliding_run = node->pages[kSlidingGroup] >= 0 ? sliding_run + 1 : 0;
    const int length = static_cast<int>(keys.size());
    const int needed = length - first_visible_page(kSlidingGroup, length * page_tokens_);
    if (groups_[kSlidingGroup].layers == 0 || sliding_run >= needed) usable = keys.size();
  }
  keys.resize(usable);
  const int length = static_cast<int>(usable) * page_tokens_;
  for (int g = 0; g < kKvGroups; ++g) {
    CHECK(sequence.table[g].empty());
    if (groups_[g].layers == 0 || usable == 0) continue;
    sequence.table[g].assign(usable, -1);
    for (std::size_t i = first_visible_page(g, length); i < usable; ++i) {
      sequence.table[g][i] = pages[g][i];
      pools_[g].hold(pages[g][i]);
    }
  }
  sequence.keys = std::move(keys);
  return length;
}

void KvPages::remember(SequencePages& sequence, std::span<const int32_t> tokens, std::string_view salt) {
  if (!prefixes_) return;
  std::vector<PrefixCache::Key>& keys = sequence.keys;
  while (!sequence.unique && (keys.size() + 1) * page_tokens_ <= tokens.size()) {
    const std::size_t index = keys.size();
    const auto text = tokens.subspan(index * page_tokens_, page_tokens_);
    const PrefixCache::Key parent = keys.empty() ? PrefixCache::kRoot : keys.back();
    const PrefixCache::Key key = prefixes_->key_of(parent, text, salt);
    const PrefixCache::Node* node = prefixes_->find(key, parent, text, salt);
    if (node == nullptr) node = prefixes_->insert(key, parent, text, salt);
    sequence.unique = node == nullptr;
    if (node == nullptr) return;
    hold_same(sequence, index, *node, key);
    keys.push_back(key);
  }
}

/// Makes page `index` of the sequence the node's, or the node's the sequence's where the node has none. That
/// a sequence holds all nodes up to its own is what lets nodes die from the end of their chain.
void KvPages::hold_same(SequencePages& sequence, std::size_t index, const PrefixCache::Node& node,
                        PrefixCache::Key key) {
  for (int g = 0; g < kKvGroups; ++g) {
    if (groups_[g].layers == 0 || sequence.table[g][index] < 0) continue;
    int32_t& own = sequence.table[g][index];
    const int32_t known = node.pages[g];
    if (known == own) continue;
    if (known < 0) {
      prefixes_->set_page(key, g, own);
      pools_[g].keep(own);
      continue;
    }
    pools_[g].hold(known);
    pools_[g].drop(std::exchange(own, known));
  }
}

int KvPages::held_pages(const SequencePages& sequence, int group) const {
  return static_cast<int>(
      std::ranges::count_if(sequence.table[group], [](int32_t page) { return page >= 0; }));
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
    const int available = std::max(total_pages(g) - step_pages(g), 0);
    if (reserved_pages(g, limit) > available) longest = std::min(longest, available * page_tokens_);
  }
  return longest;
}

RunnerOptions size_kv(const std::array<KvGroup, kKvGroups>& groups, int context, int sequences,
                      int max_step_tokens, int page_tokens) {
  const auto positive = [](const char* what, int value) {
    if (value <= 0) fail(ErrorKind::invalid_argument, what, " is ", value, ", must be at least 1");
  };
  positive("context", context);
  positive("number of sequences", sequences);
  positive("tokens per step", max_step_tokens);
  positive("tokens per page", page_tokens);
  RunnerOptions options;
  options.page_tokens = page_tokens;
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
