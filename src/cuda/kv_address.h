// Where a token's keys and values lie. Included by .cu files only.
#pragma once
#include "cuda/kernels.h"

namespace carat::cuda {

template <bool kInt8>
__device__ float16* kv_address(const KvLayer& kv, const PageTables& tables, int sequence, int position,
                               int kv_head) {
  const int* table = tables.pages + tables.offset[kv.group] + sequence * tables.stride[kv.group];
  const int page = table[position / kv.page_tokens], slot = position % kv.page_tokens;
  return kv.keys + page * kv.page_stride +
         (static_cast<std::size_t>(kv_head) * kv.page_tokens + slot) * kv_stride(kv.head_dim, kInt8);
}

/// Writes one element of K or V, `offset` after the address of its token.
__device__ inline void store_kv(const KvLayer& kv, float16* token, std::size_t offset, float v) {
  const float16 high = __float2half_rn(v);
  token[offset] = high;
  if (kv.low_offset > 0) token[kv.low_offset + offset] = __float2half_rn(v - __half2float(high));
}

}  // namespace carat::cuda
