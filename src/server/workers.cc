#include "server/workers.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace carat {

Workers::Workers(int threads, std::size_t most_waiting) : most_waiting_(most_waiting) {
  try {
    for (int i = 0; i < std::max(1, threads); ++i) threads_.emplace_back([this] { work_loop(); });
  } catch (const std::system_error& error) {
    stop();
    fail(ErrorKind::unavailable, "can't start ", threads, " worker threads: ", error.what());
  }
}

void Workers::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  while (!continued_.empty()) {
    const Work work = std::move(continued_.front());
    continued_.pop_front();
    work();
  }
}

bool Workers::try_post(Work work) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ || new_.size() >= most_waiting_) return false;
    new_.push_back(std::move(work));
  }
  changed_.notify_one();
  return true;
}

void Workers::post(Work work) {
  {
    const std::lock_guard lock(mutex_);
    if (!stopping_) {
      continued_.push_back(std::move(work));
      changed_.notify_one();
      return;
    }
  }
  work();
}

void Workers::work_loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || !continued_.empty() || !new_.empty(); });
    if (stopping_) return;
    std::deque<Work>& queue = continued_.empty() ? new_ : continued_;
    Work work = std::move(queue.front());
    queue.pop_front();
    lock.unlock();
    work();
    work = nullptr;  // what it holds goes without the lock
    lock.lock();
  }
}

}  // namespace carat
