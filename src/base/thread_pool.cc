#include "base/thread_pool.h"

#include <chrono>
#include <system_error>

#include "base/cpu_count.h"
#include "base/error.h"

namespace carat {
namespace {

/// Longer than the pause between two regions of a step, far shorter than a scheduler's time slice: when
/// another process holds the core of the thread we wait for, going to sleep gives it ours.
constexpr std::chrono::microseconds kSpinTime{40};

void relax_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

ThreadPool::ThreadPool(int threads) {
  const int cores = usable_cpu_count();
  if (threads <= 0) threads = cores;
  may_spin_ = threads <= cores;
  workers_.reserve(static_cast<std::size_t>(threads - 1));
  try {
    for (int thread = 1; thread < threads; ++thread)
      workers_.emplace_back(&ThreadPool::worker_loop, this, thread);
  } catch (const std::system_error& error) {
    const std::size_t started = workers_.size() + 1;
    stop();
    fail(ErrorKind::unavailable, "only ", started, " of ", threads,
         " threads could be started: ", error.what());
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
  stopping_.store(true, std::memory_order_relaxed);
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  for (std::thread& worker : workers_) worker.join();
  workers_.clear();
}

void ThreadPool::run_region(Region region, const void* work) {
  if (!workers_.empty()) {
    region_ = region;
    work_ = work;
    unfinished_.store(static_cast<uint32_t>(workers_.size()), std::memory_order_relaxed);
    epoch_.fetch_add(1, std::memory_order_release);
    epoch_.notify_all();  // no system call unless somebody sleeps
  }
  region(work, 0);
  while (const uint32_t unfinished = unfinished_.load(std::memory_order_acquire)) {
    await_change(unfinished_, unfinished);
  }
}

void ThreadPool::worker_loop(int thread) {
  for (uint32_t seen = 0;; ++seen) {
    await_change(epoch_, seen);
    if (stopping_.load(std::memory_order_relaxed)) return;
    region_(work_, thread);
    if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1) unfinished_.notify_one();
  }
}

void ThreadPool::await_change(const std::atomic<uint32_t>& value, uint32_t old) const {
  using Clock = std::chrono::steady_clock;
  if (may_spin_) {
    const auto deadline = Clock::now() + kSpinTime;
    do {
      for (int i = 0; i < 16; ++i) {
        if (value.load(std::memory_order_acquire) != old) return;
        relax_cpu();
      }
    } while (Clock::now() < deadline);
  }
  value.wait(old, std::memory_order_acquire);
}

}  // namespace carat
