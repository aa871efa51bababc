#include "cuda/step_upload.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"

namespace carat::cuda {
namespace {

constexpr int kWordsPer16Bytes = 4;

/// Room for the largest step: every row a tile of its own, every page table as long as the context allows.
std::size_t most_words(const ModelPlan& plan, const RunnerOptions& limits) {
  const std::size_t tokens = static_cast<std::size_t>(limits.max_step_tokens);
  const std::size_t sequences = static_cast<std::size_t>(limits.max_sequences);
  const std::size_t pages = static_cast<std::size_t>(plan.max_positions / limits.page_tokens + 2);
  return tokens * 24 + sequences * pages * kKvGroups + 4096;
}

/// Splitting the keys over CTAs costs a second kernel: a split of fewer than so many isn't worth it. From
/// the ninth split on their number is a power of two, lest each length of context needs its own graph.
int worthwhile_splits(int keys) {
  constexpr int kFewestKeys = 256, kExact = 8;
  const unsigned splits = static_cast<unsigned>((keys + kFewestKeys - 1) / kFewestKeys);
  return std::min(static_cast<int>(splits <= kExact ? splits : std::bit_ceil(splits)), kMostAttentionSplits);
}

bool one_token_each(const Rows& rows) {
  std::vector<int32_t> sequences;
  for (const Segment& segment : rows.segments) {
    if (segment.count != 1) return false;
    sequences.push_back(segment.sequence);
  }
  std::ranges::sort(sequences);
  return std::ranges::adjacent_find(sequences) == sequences.end();
}

/// Query rows of a tile of attention. A tile of 64 takes three times as long over the same keys, so a segment
/// of a few tokens, such as a token and the guesses behind it, is better off as several small ones side by
/// side.
constexpr int kSmallTileRows = 16, kLargeTileRows = 64;
bool takes_small_tiles(int longest_segment, int heads_per_kv, bool large_tiles_fit) {
  constexpr int kFewTokens = 16;
  return heads_per_kv <= kSmallTileRows && (longest_segment <= kFewTokens || !large_tiles_fit);
}

}  // namespace

StepUpload::StepUpload(const ModelPlan& plan, const RunnerOptions& limits, int shared_bytes)
    : staging_{PinnedArray<int32_t>(most_words(plan, limits)),
               PinnedArray<int32_t>(most_words(plan, limits))},
      device_(most_words(plan, limits)) {
  const int heads = plan.layers.front().attention.heads;
  for (std::size_t g = 0; g < kKvGroups; ++g) {
    heads_per_kv_[g] = std::max(1, heads / std::max(1, plan.kv_groups[g].kv_heads));
    windows_[g] = plan.kv_groups[g].window;
    large_tiles_fit_[g] = attention_fits(plan.kv_groups[g].head_dim, kLargeTileRows,
                                         limits.kv_type == KvType::int8, shared_bytes);
  }
}

std::size_t StepUpload::bytes(const ModelPlan& plan, const RunnerOptions& limits) {
  return most_words(plan, limits) * sizeof(int32_t);
}

/// Returns the offset of the values, a multiple of 16 bytes.
template <class T>
std::size_t StepUpload::append(std::span<const T> values) {
  const std::size_t offset = words_.size(), words = values.size_bytes() / sizeof(int32_t);
  words_.resize((offset + words + kWordsPer16Bytes - 1) / kWordsPer16Bytes * kWordsPer16Bytes);
  if (words > 0) std::memcpy(words_.data() + offset, values.data(), values.size_bytes());
  return offset;
}

std::array<std::size_t, 2> StepUpload::append_places(const Rows& rows) {
  std::vector<int32_t> positions, sequences;
  for (const Segment& segment : rows.segments) {
    for (int i = 0; i < segment.count; ++i) {
      positions.push_back(segment.past + i);
      sequences.push_back(segment.sequence);
    }
  }
  const std::size_t at = append<int32_t>(positions);
  return {at, append<int32_t>(sequences)};
}

std::size_t StepUpload::append_tiles(const Rows& rows, int group, TileList& list) {
  const int heads = heads_per_kv_[static_cast<std::size_t>(group)];
  int longest = 0;
  for (const Segment& segment : rows.segments) longest = std::max(longest, segment.count);
  const bool small = takes_small_tiles(longest, heads, large_tiles_fit_[static_cast<std::size_t>(group)]);
  list.tile_rows = small ? kSmallTileRows : kLargeTileRows;
  const int tokens = std::max(1, list.tile_rows / heads);
  const int window = windows_[static_cast<std::size_t>(group)];
  std::vector<AttentionTile> tiles;
  int most_keys = 1;
  for (const Segment& segment : rows.segments) {
    const int end = segment.past + segment.count;
    most_keys = std::max(most_keys, window > 0 ? std::min(end, window + tokens - 1) : end);
    for (int i = 0; i < segment.count; i += tokens) {
      tiles.push_back(
          {segment.first + i, std::min(tokens, segment.count - i), segment.past + i, segment.sequence});
    }
  }
  list.count = static_cast<int>(tiles.size());
  list.most_splits = worthwhile_splits(most_keys);
  list.most_keys = static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::max(64, most_keys))));
  return append<AttentionTile>(tiles);
}

DeviceStep StepUpload::pack(int slot, const StepRows& step, std::span<const int32_t> suppressed) {
  words_.assign(kWordsPer16Bytes, 0);  // their number, filled in below
  DeviceStep out;
  const int32_t* base = device_.data();
  const std::size_t tokens = append<int32_t>(step.all.tokens);
  out.tokens = device_.data() + tokens;
  out.tail_rows = base + append<int32_t>(step.tail_rows);
  out.suppressed = base + append<int32_t>(suppressed);
  out.suppressed_count = static_cast<int>(suppressed.size());
  for (const bool tail : {false, true}) {
    const Rows& rows = tail ? step.tail : step.all;
    DeviceRows& device = tail ? out.tail : out.all;
    device.count = rows.count();
    device.one_each = one_token_each(rows);
    const auto [positions, sequences] = append_places(rows);
    device.places = {out.tokens, base + positions, base + sequences};
    for (int g = 0; g < kKvGroups; ++g) {
      TileList& list = device.tiles[static_cast<std::size_t>(g)];
      list.tiles = reinterpret_cast<const AttentionTile*>(base + append_tiles(rows, g, list));
    }
  }
  std::array<int32_t, kKvGroups> strides, offsets;
  const std::size_t stride_at = append<int32_t>(strides), offset_at = append<int32_t>(offsets),
                    pages = words_.size();
  for (std::size_t g = 0; g < kKvGroups; ++g) {
    offsets[g] = static_cast<int32_t>(append<int32_t>(step.page_tables[g].pages) - pages);
    strides[g] = step.page_tables[g].stride;
  }
  std::copy(strides.begin(), strides.end(), words_.begin() + static_cast<std::ptrdiff_t>(stride_at));
  std::copy(offsets.begin(), offsets.end(), words_.begin() + static_cast<std::ptrdiff_t>(offset_at));
  out.tables = {base + pages, base + offset_at, base + stride_at};

  PinnedArray<int32_t>& staging = staging_[static_cast<std::size_t>(slot)];
  CHECK(words_.size() <= staging.size());
  words_[0] = static_cast<int32_t>(words_.size());
  std::copy(words_.begin(), words_.end(), staging.data());
  return out;
}

void StepUpload::copy(Queue& queue, int slot) const {
  if (queue.status != cudaSuccess) return;
  const int32_t* words = host_words(slot);
  queue.status = cudaMemcpyAsync(device_.data(), words, static_cast<std::size_t>(words[0]) * sizeof(int32_t),
                                 cudaMemcpyHostToDevice, queue.stream);
}

}  // namespace carat::cuda
