// Divides the attention of one step among threads. Neighbouring queries that read one KV head form a block; a
// block that would keep one thread busy for too long is split into chunks of positions whose partial results
// are merged. Splitting changes no bit of the result, so it may depend on the number of threads.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "cpu/kernels.h"
#include "model/gemma4.h"

namespace carat {

/// What all layers of one KV group have in common.
struct AttentionShape {
  int heads = 0, kv_heads = 0, head_dim = 0, window = 0;

  int heads_per_kv() const { return heads / kv_heads; }
  bool operator==(const AttentionShape&) const = default;
};

struct AttentionBlock {
  int32_t first_row, tokens;  // rows of the step
  int32_t first_position, sequence, kv_head;
  int first_partial, partials;  // partials is 0 for a block that is not split
};

/// One call of a kernel: chunk `chunk` of a split block, or a whole block when chunk is -1.
struct AttentionItem {
  int block, chunk;
  int32_t oldest;  // position that it reads
};

/// The merge of one query of a split block; `query` counts [tokens, heads of the KV head].
struct AttentionMerge {
  int block, query;
};

class AttentionSchedule {
 public:
  AttentionSchedule() = default;
  /// `partial_floats`: how much memory the partial results of one step may take.
  AttentionSchedule(const AttentionShape& shape, int threads, int64_t partial_floats);

  /// `memory`: room for the partial results.
  void build(std::span<const Segment> segments, float* memory);

  const AttentionShape& shape() const { return shape_; }
  const AttentionBlock& block(int index) const { return blocks_[static_cast<std::size_t>(index)]; }
  /// The queries of a block; q is [rows, heads, head_dim] with `stride` floats per row.
  AttentionQueries queries(const AttentionBlock& block, const float* q, int64_t stride) const;
  std::span<const AttentionItem> items_of(int thread) const;
  std::span<const AttentionPartial> partials_of(const AttentionBlock& block) const;
  std::span<const AttentionMerge> merges() const { return merges_; }

 private:
  struct Positions {
    int32_t oldest, newest;
  };
  Positions visible(const AttentionBlock& block) const;
  void add_blocks(std::span<const Segment> segments);
  void add_partials(AttentionBlock& block, float*& memory, int64_t& floats_left);
  void add_items(int index);
  void assign_items();

  AttentionShape shape_;
  int threads_ = 1;
  int64_t partial_floats_ = 0;
  std::vector<AttentionBlock> blocks_;
  std::vector<AttentionItem> items_;
  std::vector<int64_t> costs_;             // of items_
  std::vector<std::size_t> thread_edges_;  // thread t runs items [t], [t + 1)
  std::vector<AttentionPartial> partials_;
  std::vector<AttentionMerge> merges_;
};

}  // namespace carat
