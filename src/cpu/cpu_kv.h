// K/V storage of the CPU backend: one array of pages per group, in the layout that the attention kernels
// read.
#pragma once
#include <array>
#include <optional>

#include "base/huge_pages.h"
#include "base/touch_ahead.h"
#include "cpu/kernels.h"
#include "engine/runner.h"
#include "model/gemma4.h"

namespace carat {

class CpuKv {
 public:
  /// Throws Error{invalid_argument} when limits.page_tokens doesn't suit the kernels, Error{out_of_memory}.
  CpuKv(const std::array<KvGroup, kKvGroups>& groups, const RunnerOptions& limits, KvFormat format);

  /// What KV head `kv_head` of a layer with attention `a` reads for one sequence.
  KvView view(const AttentionPlan& a, const PageTable& table, int sequence, int kv_head) const;
  void copy_page(const PageCopy& copy);
  /// What a step is about to use.
  void use(const std::array<PageTable, kKvGroups>& tables);

 private:
  struct Group {
    KvGroup shape;
    int64_t head_bytes = 0;  // K, and as much V, of one KV head in one layer of one page
    int64_t page_bytes = 0;  // [layers, kv_heads, K and V]
    HugePages memory;        // [pages]
  };
  std::array<Group, kKvGroups> groups_;
  KvFormat format_;
  int page_tokens_;
  std::optional<TouchAhead> ahead_;  // pages are handed out from the first one on
};

}  // namespace carat
