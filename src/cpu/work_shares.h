// The units of one region (panels of matrices) divided among threads. Each thread works through its own share
// from the front, so that it streams what lies together; one that is done takes from the end of a share that
// isn't, so that no thread waits while another was slowed down. Who computes a unit changes no bit of it.
#pragma once
#include <atomic>
#include <cstdint>
#include <vector>

#include "base/thread_pool.h"

namespace carat {

class WorkShares {
 public:
  explicit WorkShares(int threads) : shares_(static_cast<std::size_t>(threads)) {}

  /// Before a region, from the thread that runs it. `in_pieces`: shares may be cut; otherwise each is done by
  /// one thread in one go.
  void divide(int64_t total, bool in_pieces);

  /// What `thread` does next; nothing when its count is 0. Of what is left in a share a quarter, so that the
  /// pieces are large at first and the threads finish together.
  IndexRange take(int thread);

 private:
  struct alignas(64) Share {
    std::atomic<uint64_t> left{0};  // first unit in the upper half, end in the lower one
  };

  IndexRange take_from(Share& share, bool front);

  std::vector<Share> shares_;
  bool in_pieces_ = false;
};

}  // namespace carat
