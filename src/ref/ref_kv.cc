#include "ref/ref_kv.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "base/error.h"

namespace carat {
namespace {

std::size_t token_size(const KvGroup& group) { return std::size_t{2} * group.kv_heads * group.head_dim; }

std::size_t page_size(const KvGroup& group, std::size_t page_tokens) {
  return group.layers * page_tokens * token_size(group);
}

}  // namespace

RefKv::RefKv(const std::array<KvGroup, kKvGroups>& groups, const RunnerOptions& limits)
    : groups_(groups), page_tokens_(limits.page_tokens), type_(limits.kv_type) {
  for (std::size_t g = 0; g < kKvGroups; ++g) {
    storage_[g].resize(limits.pages[g] * page_size(groups[g], page_tokens_));
  }
}

std::size_t RefKv::token_offset(const AttentionPlan& a, const PageTable& table, int sequence,
                                int position) const {
  const std::size_t index = position / page_tokens_;
  CHECK(std::cmp_less(index, table.stride));
  const int32_t page = table.pages[sequence * table.stride + index];
  CHECK(page >= 0);  // a released page holds another sequence's tokens
  const KvGroup& group = groups_[a.kv_group];
  const std::size_t layer_of_page = page * group.layers + a.kv_layer;
  return (layer_of_page * page_tokens_ + position % page_tokens_) * token_size(group);
}

float* RefKv::key(const AttentionPlan& a, const PageTable& table, int sequence, int position) {
  return storage_[a.kv_group].data() + token_offset(a, table, sequence, position);
}

float* RefKv::value(const AttentionPlan& a, const PageTable& table, int sequence, int position) {
  return key(a, table, sequence, position) + a.kv_heads * a.head_dim;
}

void RefKv::round_stored(const AttentionPlan& a, const PageTable& table, int sequence, int position) {
  if (type_ != KvType::int8) return;
  float* heads = key(a, table, sequence, position);  // K of all heads, then V
  for (int h = 0; h < 2 * a.kv_heads; ++h) {
    const std::span<float> head(heads + h * a.head_dim, a.head_dim);
    float largest = 0.f;
    for (const float x : head) largest = std::max(largest, std::abs(x));
    if (!(largest > 0.f)) continue;
    for (float& x : head) x = std::nearbyint(x * (127.f / largest)) * (largest / 127.f);
  }
}

void RefKv::copy_page(const PageCopy& copy) {
  auto& storage = storage_[copy.group];
  const std::size_t size = page_size(groups_[copy.group], page_tokens_);
  std::copy_n(storage.data() + copy.from * size, size, storage.data() + copy.to * size);
}

}  // namespace carat
