// Threads for what takes longer than a network thread may be held up: parsing requests, tokenizing, rendering
// replies. Nothing that runs here waits for the model.
#pragma once
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace carat {

class Workers {
 public:
  using Work = std::function<void()>;  // must not throw

  /// Throws Error{unavailable} when threads can't be started.
  explicit Workers(int threads, std::size_t most_waiting = 1024);
  ~Workers() { stop(); }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// New work. False, and nothing happens, when `most_waiting` of it wait already.
  bool try_post(Work work);
  /// The next piece of accepted work: never refused, and goes before new work. Safe from any thread, never
  /// waits. Two pieces may run at the same time. After stop() the caller runs it itself: what has begun
  /// always comes to its end and lets go of what it holds.
  void post(Work work);
  /// Drops new work that has not begun, and runs what has been accepted to its end.
  void stop();

 private:
  void work_loop();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> continued_, new_;
  const std::size_t most_waiting_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace carat
