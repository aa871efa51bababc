// K/V storage of the reference backend: one float32 array per group, addressed by page and position. Of a
// coarser type it holds the values, not the bytes.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "engine/runner.h"
#include "model/gemma4.h"

namespace carat {

class RefKv {
 public:
  RefKv(const std::array<KvGroup, kKvGroups>& groups, const RunnerOptions& limits);

  /// K or V of one token in one layer, [kv_heads, head_dim].
  float* key(const AttentionPlan& a, const PageTable& table, int sequence, int position);
  float* value(const AttentionPlan& a, const PageTable& table, int sequence, int position);
  /// To be called once both are written: rounds them to what KvType::int8 can hold.
  void round_stored(const AttentionPlan& a, const PageTable& table, int sequence, int position);
  void copy_page(const PageCopy& copy);

 private:
  std::size_t token_offset(const AttentionPlan& a, const PageTable& table, int sequence, int position) const;

  std::array<KvGroup, kKvGroups> groups_;
  std::size_t page_tokens_;
  KvType type_;
  // Per group [pages, layers, page_tokens, 2, kv_heads, head_dim]; the 2 is K, then V.
  std::array<std::vector<float>, kKvGroups> storage_;
};

}  // namespace carat
