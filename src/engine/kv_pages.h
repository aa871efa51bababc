// Who holds which page of KV storage. Two groups: full attention grows with the context; sliding attention
// keeps only the pages that the window can still see. Sequences may share pages: samples of one prompt, and
// texts that begin alike when prefixes are kept.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/page_pool.h"
#include "engine/prefix_cache.h"
#include "engine/runner.h"
#include "model/gemma4.h"

namespace carat {

/// One sequence's pages, per group indexed by position / page_tokens; -1 where released or not yet needed.
/// The pages held are neighbours: a sequence grows at its end and is released from its beginning.
struct SequencePages {
  std::array<std::vector<int32_t>, kKvGroups> table;
  std::vector<PrefixCache::Key> keys;  // of its whole pages that are in the prefix cache, from the first on
  bool unique = false;  // the page after those can't be cached: its key belongs to another text
};

enum class KeepPrefixes { no, yes };

class KvPages {
 public:
  /// KeepPrefixes::yes: what remember() was told stays until its pages are needed, and reuse() finds it.
  KvPages(const std::array<KvGroup, kKvGroups>& groups, const RunnerOptions& limits,
          KeepPrefixes keep = KeepPrefixes::no);

  /// Makes room for positions [past, past + count) in every group that has layers. False, and nothing
  /// changed, when pages run out. For sequences that share no page they are about to write.
  bool extend(SequencePages& sequence, int past, int count);
  /// The same for any sequence: pages that others hold too are replaced, and `copies` gets what the runner
  /// has to copy before the step, in this order.
  bool extend(SequencePages& sequence, int past, int count, std::vector<PageCopy>& copies);
  /// Returns sliding pages that no position >= past can see.
  void release_behind_window(SequencePages& sequence, int past);
  /// Returns the pages that begin at or after position `tokens`: room made for drafts that were refused.
  void release_beyond(SequencePages& sequence, int tokens);
  void release_all(SequencePages& sequence);

  /// Gives `to`, which has none, the pages that a sequence needs to go on at position `tokens` of `from`.
  void share(const SequencePages& from, SequencePages& to, int tokens);

  /// Gives `sequence`, which has none, the pages of the longest known beginning of `tokens`: whole pages, and
  /// less than all tokens, because the last one's logits are wanted. Returns its length.
  /// Does nothing, as remember(), unless prefixes are kept.
  int reuse(SequencePages& sequence, std::span<const int32_t> tokens, std::string_view salt);
  /// The whole pages of `tokens`, all in the KV cache, may be reused from now on. Pages that another sequence
  /// remembered first become shared. To be called before release_behind_window().
  void remember(SequencePages& sequence, std::span<const int32_t> tokens, std::string_view salt);

  bool keeps_prefixes() const { return prefixes_.has_value(); }

  /// Pages that nobody holds, those with remembered content included.
  int free_pages(int group) const { return pools_[group].available(); }
  int total_pages(int group) const { return pools_[group].total(); }
  int held_pages(const SequencePages& sequence, int group) const;
  /// Pages that sequences of `tokens` tokens can always get: reserved_pages() for each, and step_pages() once
  /// for the tokens of the step in progress. Their sum never runs out when release_behind_window() follows
  /// each step.
  int reserved_pages(int group, int tokens) const;
  int step_pages(int group) const;
  /// The longest sequence that fits while it is alone, at most `limit` tokens; 0 when not even a step does.
  int longest_sequence(int limit) const;

 private:
  int first_visible_page(int group, int position) const;
  int32_t take(int group);
  void hold_same(SequencePages& sequence, std::size_t index, const PrefixCache::Node& node,
                 PrefixCache::Key key);

  std::array<KvGroup, kKvGroups> groups_;
  int page_tokens_;
  int max_step_tokens_;
  std::array<PagePool, kKvGroups> pools_;
  std::optional<PrefixCache> prefixes_;
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
/// Throws Error{invalid_argument} when one of them is not positive.
RunnerOptions size_kv(const std::array<KvGroup, kKvGroups>& groups, int context, int sequences,
                      int max_step_tokens, int page_tokens = RunnerOptions{}.page_tokens);

}  // namespace carat
