// Who holds which page of KV storage. Two groups: full attention grows with the context; sliding attention keeps only
// the pages that the window can still see.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/runner.h"
#include "model/gemma4.h"

namespace carat {

/// One sequence's pages, per group indexed by position / page_tokens; -1 where released or not yet needed.
struct SequencePages {
  std::array<std::vector<int32_t>, kKvGroups> table;
};

class KvPages {
 public:
  KvPages(const std::array<KvGroup, kKvGroups>& groups, const RunnerOptions& limits);

  /// Makes room for positions [past, past + count) in every group that has layers. False, and nothing changed, when
  /// pages run out.
  bool extend(SequencePages& sequence, int past, int count);
  /// Returns sliding pages that no position >= past can see.
  void release_behind_window(SequencePages& sequence, int past);
  void release_all(SequencePages& sequence);
  int free_pages(int group) const { return static_cast<int>(free_[group].size()); }

 private:
  std::array<KvGroup, kKvGroups> groups_;
  int page_tokens_;
  std::array<std::vector<int32_t>, kKvGroups> free_;
};

/// Page counts for `sequences` sequences of `context` tokens each, in steps of at most `max_step_tokens`.
RunnerOptions size_kv(const std::array<KvGroup, kKvGroups>& groups, int context, int sequences, int max_step_tokens);

}  // namespace carat
