#include "ref/ref_kv.h"

#include <algorithm>

#include "base/error.h"

namespace carat {
namespace {

std::size_t token_size(const KvGroup& group) {
  return 2 * static_cast<std::size_t>(group.kv_heads) * static_cast<std::size_t>(group.head_dim);
}

std::size_t page_size(const KvGroup& group, std::size_t page_tokens) {
  return static_cast<std::size_t>(group.layers) * page_tokens * token_size(group);
}

}  // namespace

RefKv::RefKv(const std::array<KvGroup, kKvGroups>& groups, const RunnerOptions& limits)
    : groups_(groups), page_tokens_(static_cast<std::size_t>(limits.page_tokens)) {
  for (std::size_t g = 0; g < kKvGroups; ++g) {
    storage_[g].resize(static_cast<std::size_t>(limits.pages[g]) * page_size(groups[g], page_tokens_));
  }
}

std::size_t RefKv::token_offset(const AttentionPlan& a, const PageTable& table, int sequence,
                                int position) const {
  const auto at = static_cast<std::size_t>(position);
  const int32_t page = table.pages[static_cast<std::size_t>(sequence * table.stride) + at / page_tokens_];
  CHECK(page >= 0);  // a released page holds another sequence's tokens
  const KvGroup& group = groups_[static_cast<std::size_t>(a.kv_group)];
  const std::size_t layer_of_page = static_cast<std::size_t>(page * group.layers + a.kv_layer);
  return (layer_of_page * page_tokens_ + at % page_tokens_) * token_size(group);
}

float* RefKv::key(const AttentionPlan& a, const PageTable& table, int sequence, int position) {
  return storage_[static_cast<std::size_t>(a.kv_group)].data() + token_offset(a, table, sequence, position);
}

float* RefKv::value(const AttentionPlan& a, const PageTable& table, int sequence, int position) {
  return key(a, table, sequence, position) + a.kv_heads * a.head_dim;
}

void RefKv::copy_page(const PageCopy& copy) {
  auto& storage = storage_[static_cast<std::size_t>(copy.group)];
  const std::size_t size = page_size(groups_[static_cast<std::size_t>(copy.group)], page_tokens_);
  std::copy_n(storage.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(copy.from) * size), size,
              storage.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(copy.to) * size));
}

}  // namespace carat
