// Makes memory resident before it is used, in a thread of its own. The first write to a 2 MiB page clears it,
// and on a virtual machine may wait for the host to find it: 0.3 to 10 ms in the middle of somebody's reply.
#pragma once
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

namespace carat {

class TouchAhead {
 public:
  /// How far a region is touched beyond what is used.
  static constexpr std::size_t kAheadBytes = std::size_t{32} << 20;

  /// Regions of zeroed memory, aligned to pages, which are used from their beginnings on. The thread starts
  /// with the first kAheadBytes of each at once. Without the thread, or on systems that don't know how, only
  /// time is lost.
  explicit TouchAhead(std::vector<std::span<std::byte>> regions);
  ~TouchAhead();
  TouchAhead(const TouchAhead&) = delete;
  TouchAhead& operator=(const TouchAhead&) = delete;

  /// That many bytes of a region are in use, or about to be. From one thread only; doesn't wait.
  void use(std::size_t region, std::size_t bytes);

 private:
  struct Region {
    std::span<std::byte> memory;
    std::size_t wanted = 0, touched = 0;
  };

  void touch_loop();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Region> regions_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace carat
