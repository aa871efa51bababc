#include "cpu/attention_schedule.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace carat {
namespace {

/// Blocks per thread below which the largest ones are split.
constexpr int64_t kBlocksPerThread = 4;

}  // namespace

AttentionSchedule::AttentionSchedule(const AttentionShape& shape, int threads, int64_t partial_floats)
    : shape_(shape),
      threads_(threads),
      partial_floats_(partial_floats),
      thread_edges_(static_cast<std::size_t>(threads) + 1) {
  CHECK(shape.heads_per_kv() <= kMaxQueries);
}

void AttentionSchedule::build(std::span<const Segment> segments, float* memory) {
  blocks_.clear();
  items_.clear();
  costs_.clear();
  partials_.clear();
  merges_.clear();
  add_blocks(segments);
  const auto cost_of = [&](const AttentionBlock& block) {
    const Positions positions = visible(block);
    return int64_t{positions.newest - positions.oldest + 1} * block.tokens;
  };
  int64_t total = 0, floats_left = partial_floats_;
  for (const AttentionBlock& block : blocks_) total += cost_of(block);
  for (int i = 0; i < static_cast<int>(blocks_.size()); ++i) {
    AttentionBlock& block = blocks_[static_cast<std::size_t>(i)];
    if (threads_ > 1 && cost_of(block) * kBlocksPerThread * threads_ > total)
      add_partials(block, memory, floats_left);
    add_items(i);
  }
  assign_items();
}

void AttentionSchedule::add_blocks(std::span<const Segment> segments) {
  const int block_tokens = kMaxQueries / shape_.heads_per_kv();
  for (const Segment& segment : segments) {
    for (int kv_head = 0; kv_head < shape_.kv_heads; ++kv_head) {
      for (int first = 0; first < segment.count; first += block_tokens) {
        blocks_.push_back({segment.first + first, std::min(block_tokens, segment.count - first),
                           segment.past + first, segment.sequence, kv_head, 0, 0});
      }
    }
  }
}

AttentionSchedule::Positions AttentionSchedule::visible(const AttentionBlock& block) const {
  const int32_t oldest = shape_.window > 0 ? block.first_position - shape_.window + 1 : 0;
  return {std::max(oldest, 0), block.first_position + block.tokens - 1};
}

void AttentionSchedule::add_partials(AttentionBlock& block, float*& memory, int64_t& floats_left) {
  const auto [oldest, newest] = visible(block);
  const int chunks = newest / kAttentionChunk - oldest / kAttentionChunk + 1;
  const int64_t queries = int64_t{block.tokens} * shape_.heads_per_kv(),
                floats = queries * (shape_.head_dim + 2);
  if (chunks < 2 || chunks * floats > floats_left) return;
  floats_left -= chunks * floats;
  block.first_partial = static_cast<int>(partials_.size());
  block.partials = chunks;
  for (int i = 0; i < chunks; ++i) {
    float* context = memory;
    float* max = context + queries * shape_.head_dim;
    partials_.push_back({context, max, max + queries});
    memory += floats;
  }
}

void AttentionSchedule::add_items(int index) {
  const AttentionBlock& block = blocks_[static_cast<std::size_t>(index)];
  const auto [oldest, newest] = visible(block);
  if (block.partials == 0) {
    items_.push_back({index, -1, oldest});
    costs_.push_back(int64_t{newest - oldest + 1} * block.tokens);
    return;
  }
  for (int chunk = oldest / kAttentionChunk; chunk <= newest / kAttentionChunk; ++chunk) {
    const int first = std::max(oldest, chunk * kAttentionChunk);
    const int last = std::min(newest, chunk * kAttentionChunk + kAttentionChunk - 1);
    items_.push_back({index, chunk, first});
    costs_.push_back(int64_t{last - first + 1} * block.tokens);
  }
  for (int query = 0; query < block.tokens * shape_.heads_per_kv(); ++query)
    merges_.push_back({index, query});
}

/// Neighbouring items stay together; an item goes to the thread in whose share of the cost its middle lies.
void AttentionSchedule::assign_items() {
  const int64_t total = std::accumulate(costs_.begin(), costs_.end(), int64_t{0});
  int64_t before = 0;
  std::size_t item = 0;
  for (int thread = 0; thread < threads_; ++thread) {
    thread_edges_[static_cast<std::size_t>(thread)] = item;
    while (item < items_.size() && (2 * before + costs_[item]) * threads_ < 2 * total * (thread + 1)) {
      before += costs_[item++];
    }
  }
  thread_edges_.back() = items_.size();
}

AttentionQueries AttentionSchedule::queries(const AttentionBlock& block, const float* q,
                                            int64_t stride) const {
  const int64_t first_head = int64_t{block.kv_head} * shape_.heads_per_kv();
  return {q + block.first_row * stride + first_head * shape_.head_dim,
          stride,
          block.tokens,
          shape_.heads_per_kv(),
          block.first_position,
          shape_.window};
}

std::span<const AttentionItem> AttentionSchedule::items_of(int thread) const {
  const auto at = static_cast<std::size_t>(thread);
  return std::span(items_).subspan(thread_edges_[at], thread_edges_[at + 1] - thread_edges_[at]);
}

std::span<const AttentionPartial> AttentionSchedule::partials_of(const AttentionBlock& block) const {
  return std::span(partials_).subspan(static_cast<std::size_t>(block.first_partial),
                                      static_cast<std::size_t>(block.partials));
}

}  // namespace carat
