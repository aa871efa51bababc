#include "cpu/cpu_kv.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"

namespace carat {

CpuKv::CpuKv(const std::array<KvGroup, kKvGroups>& groups, const RunnerOptions& limits, KvFormat format)
    : format_(format), page_tokens_(limits.page_tokens) {
  if (page_tokens_ <= 0 || page_tokens_ % kKeyBlock != 0) {
    fail(ErrorKind::invalid_argument, "KV pages of ", page_tokens_,
         " tokens; the CPU backend needs a multiple of ", kKeyBlock);
  }
  std::vector<std::span<std::byte>> regions;
  for (std::size_t g = 0; g < kKvGroups; ++g) {
    Group& group = groups_[g];
    group.shape = groups[g];
    group.head_bytes = kv_page_bytes(format, page_tokens_, group.shape.head_dim);
    group.page_bytes = 2 * group.head_bytes * group.shape.layers * group.shape.kv_heads;
    group.memory = HugePages(static_cast<std::size_t>(group.page_bytes * limits.pages[g]), "the KV cache");
    regions.emplace_back(group.memory.data(), group.memory.size());
  }
  ahead_.emplace(std::move(regions));
}

void CpuKv::use(const std::array<PageTable, kKvGroups>& tables) {
  for (std::size_t g = 0; g < kKvGroups; ++g) {
    const std::span<const int32_t> pages = tables[g].pages;
    if (pages.empty()) continue;
    const int64_t end = int64_t{std::ranges::max(pages)} + 1;
    ahead_->use(g, static_cast<std::size_t>(groups_[g].page_bytes * end));
  }
}

KvView CpuKv::view(const AttentionPlan& a, const PageTable& table, int sequence, int kv_head) const {
  const Group& group = groups_[static_cast<std::size_t>(a.kv_group)];
  std::byte* keys =
      group.memory.data() + 2 * group.head_bytes * (a.kv_layer * int64_t{group.shape.kv_heads} + kv_head);
  return {format_,
          a.head_dim,
          page_tokens_,
          keys,
          keys + group.head_bytes,
          group.page_bytes,
          table.pages.data() + int64_t{sequence} * table.stride};
}

void CpuKv::copy_page(const PageCopy& copy) {
  const Group& group = groups_[static_cast<std::size_t>(copy.group)];
  std::memcpy(group.memory.data() + group.page_bytes * copy.to,
              group.memory.data() + group.page_bytes * copy.from, static_cast<std::size_t>(group.page_bytes));
}

}  // namespace carat
