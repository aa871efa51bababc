// Who holds which page of KV storage. Two groups: full attention grows with the context; sliding attention
// keeps only the pages that the window can still see.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "engine/runner.h"
#include "model/gemma4.h"

namespace carat {

/// One sequence's pages, per group indexed by position / page_tokens; -1 where released or not yet needed.
/// The pages held are neighbours: a sequence grows at its end and is released from its beginning.
struct SequencePages {
  std::array<std::vector<int32_t>, kKvGroups> table;
};

class KvPages {
 public:
  KvPages(const std::array<KvGroup, kKvGroups>& groups, const RunnerOptions& limits);

  /// Makes room for positions [past, past + count) in every group that has layers. False, and nothing
  /// changed, when pages run out.
  bool extend(SequencePages& sequence, int past, int count);
  /// Returns sliding pages that no position >= past can see.
  void release_behind_window(SequencePages& sequence, int past);
  void release_all(SequencePages& sequence);

  int free_pages(int group) const { return static_cast<int>(free_[group].size()); }
  int total_pages(int group) const { return total_[group]; }
  /// Pages that sequences of `tokens` tokens can always get: reserved_pages() for each, and step_pages() once
  /// for the tokens of the step in progress. Their sum never runs out when release_behind_window() follows
  /// each step.
  int reserved_pages(int group, int tokens) const;
  int step_pages(int group) const;
  /// The longest sequence that fits while it is alone, at most `limit` tokens; 0 when not even a step does.
  int longest_sequence(int limit) const;

 private:
  std::array<KvGroup, kKvGroups> groups_;
  int page_tokens_;
  int max_step_tokens_;
  std::array<int, kKvGroups> total_{};
  std::array<std::vector<int32_t>, kKvGroups> free_;  // the last one is handed out next
};

/// A sequence's pages, returned to their pool at the end of the scope.
struct ScopedPages : SequencePages {
  explicit ScopedPages(KvPages& owner) : pool(owner) {}
  ~ScopedPages() { pool.release_all(*this); }
  ScopedPages(const ScopedPages&) = delete;
  ScopedPages& operator=(const ScopedPages&) = delete;

  KvPages& pool;
};

/// Page counts for `sequences` sequences of `context` tokens each, in steps of at most `max_step_tokens`.
/// Throws Error{invalid_argument} when one of the three is not positive.
RunnerOptions size_kv(const std::array<KvGroup, kKvGroups>& groups, int context, int sequences,
                      int max_step_tokens);

}  // namespace carat
