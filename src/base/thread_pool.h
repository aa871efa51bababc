// The threads of the CPU backend. A region is one function that is called once per part, with as many parts
// as there are threads; the caller works too. What a part does is decided by its number alone, so results
// can't depend on timing. Which thread runs it can: on a busy machine the caller takes over parts whose
// worker has not got a core yet.
#pragma once
#include <atomic>
#include <cstdint>
#include <exception>
#include <thread>
#include <vector>

namespace carat {

class ThreadPool {
 public:
  /// `threads` counts the caller; 0 means usable_cpu_count(). Throws Error{unavailable} when threads can't be
  /// started.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return static_cast<int>(workers_.size()) + 1; }

  /// Calls work(thread) once for every thread in [0, size()) and returns when all calls have. What a region
  /// writes is visible to the caller and to later regions. `work` must not throw and must not call run().
  template <class Work>
  void run(const Work& work) {
    run_region([](const void* w, int part) { (*static_cast<const Work*>(w))(part); }, &work);
  }
  /// run() for work that may throw: when all calls have ended, throws what the first thread with a failure
  /// threw.
  template <class Work>
  void run_throwing(const Work& work) {
    std::vector<std::exception_ptr> failures(static_cast<std::size_t>(size()));
    run([&](int thread) {
      try {
        work(thread);
      } catch (...) {
        failures[static_cast<std::size_t>(thread)] = std::current_exception();
      }
    });
    for (const std::exception_ptr& failure : failures)
      if (failure) std::rethrow_exception(failure);
  }

 private:
  using Region = void (*)(const void* work, int part);

  void run_region(Region region, const void* work);
  void worker_loop(int part);
  /// True for exactly one caller: that one runs `part` of region number `epoch`.
  bool claim(int part, uint32_t epoch);
  void stop();
  /// Waits until `value` differs from `old`: spins for a moment, then sleeps.
  void await_change(const std::atomic<uint32_t>& value, uint32_t old) const;

  bool may_spin_;  // not when there are more threads than cores: the spinner would hold up the one it waits
                   // for
  Region region_ = nullptr;  // written before epoch_, so workers that saw the epoch see these
  const void* work_ = nullptr;
  alignas(64) std::atomic<uint32_t> epoch_{0};       // number of the current region
  alignas(64) std::atomic<uint32_t> unfinished_{0};  // parts of it that are not done, the caller's own apart
  std::atomic<bool> stopping_{false};
  struct alignas(64) Claim {
    std::atomic<uint32_t> epoch{0};  // the last region whose part was claimed
  };
  std::vector<Claim> claims_;  // of parts 1, 2, ...
  std::vector<std::thread> workers_;
};

/// Part [first, last) of something.
struct IndexRange {
  int64_t first, last;
  int64_t count() const { return last - first; }
};

/// Part `part` of [0, total) cut into `parts` nearly equal ranges at multiples of `grain`.
constexpr IndexRange share_of(int64_t total, int part, int parts, int64_t grain = 1) {
  const int64_t grains = (total + grain - 1) / grain;
  const auto edge = [&](int64_t p) {
    const int64_t at = grains * p / parts * grain;
    return at < total ? at : total;
  };
  return {edge(part), edge(part + 1)};
}

}  // namespace carat
