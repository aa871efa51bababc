// Brings what a step is made of (tokens, places, attention tiles, page tables) to the device with one copy.
#pragma once
#include <array>
#include <vector>

#include "cuda/device.h"
#include "cuda/kernels.h"
#include "engine/runner.h"

namespace carat::cuda {

/// The attention tiles of one KV group over one set of rows.
struct TileList {
  const AttentionTile* tiles = nullptr;
  int count = 0, tile_rows = 16;
  int most_splits = 1;  // of the keys: more would have too few each
  int most_keys = 1;    // of a row, rounded up, lest each length of context needs its own graph
  bool operator==(const TileList&) const = default;
};

struct DeviceRows {
  RowPlaces places{};
  int count = 0;
  bool one_each = false;  // token of each sequence
  std::array<TileList, kKvGroups> tiles;
  bool operator==(const DeviceRows&) const = default;
};

/// Equal for steps of equal shape: only the memory behind the pointers differs, so a captured graph can be
/// replayed.
struct DeviceStep {
  DeviceRows all, tail;
  int32_t* tokens = nullptr;  // of `all`, writable: negative ones are still to be resolved
  const int32_t* tail_rows = nullptr;
  const int32_t* suppressed = nullptr;
  int suppressed_count = 0;
  PageTables tables{};
  bool operator==(const DeviceStep&) const = default;
};

class StepUpload {
 public:
  /// `shared_bytes`: of a CTA, at most.
  StepUpload(const ModelPlan& plan, const RunnerOptions& limits, int shared_bytes);

  /// Of device memory.
  static std::size_t bytes(const ModelPlan& plan, const RunnerOptions& limits);

  /// Writes the step into pinned memory. `slot` is 0 or 1; a slot may be written again once its step has been
  /// collected.
  DeviceStep pack(int slot, const StepRows& step, std::span<const int32_t> suppressed);
  /// Enqueues the copy to the device.
  void copy(Queue& queue, int slot) const;
  /// The same words for a kernel that copies them itself; the first one is their number.
  const int32_t* host_words(int slot) const { return staging_[static_cast<std::size_t>(slot)].data(); }
  int32_t* device_words() const { return device_.data(); }

 private:
  template <class T>
  std::size_t append(std::span<const T> values);
  std::size_t append_tiles(const Rows& rows, int group, TileList& list);
  std::array<std::size_t, 2> append_places(const Rows& rows);

  std::array<int, kKvGroups> heads_per_kv_, windows_;
  std::array<bool, kKvGroups> large_tiles_fit_;
  std::vector<int32_t> words_;  // of the step, before they go to pinned memory
  std::array<PinnedArray<int32_t>, 2> staging_;
  DeviceArray<int32_t> device_;
};

}  // namespace carat::cuda
