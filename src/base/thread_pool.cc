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
  claims_ = std::vector<Claim>(static_cast<std::size_t>(threads - 1));
  try {
    for (int part = 1; part < threads; ++part) workers_.emplace_back(&ThreadPool::worker_loop, this, part);
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
  if (workers_.empty()) return region(work, 0);
  region_ = region;
  work_ = work;
  unfinished_.store(static_cast<uint32_t>(workers_.size()), std::memory_order_relaxed);
  const uint32_t epoch = epoch_.fetch_add(1, std::memory_order_release) + 1;
  epoch_.notify_all();  // no system call unless somebody sleeps
  region(work, 0);
  uint32_t taken_over = 0;
  for (int part = 1; part < size(); ++part) {
    if (!claim(part, epoch)) continue;
    region(work, part);
    ++taken_over;
  }
  unfinished_.fetch_sub(taken_over, std::memory_order_relaxed);
  while (const uint32_t unfinished = unfinished_.load(std::memory_order_acquire)) {
    await_change(unfinished_, unfinished);
  }
}

bool ThreadPool::claim(int part, uint32_t epoch) {
  // A region ends only when all its parts were claimed, so the one before is what an unclaimed part shows.
  uint32_t before = epoch - 1;
  return claims_[static_cast<std::size_t>(part) - 1].epoch.compare_exchange_strong(before, epoch,
                                                                                   std::memory_order_acq_rel);
}

void ThreadPool::worker_loop(int part) {
  for (uint32_t seen = 0;;) {
    await_change(epoch_, seen);
    seen = epoch_.load(std::memory_order_acquire);
    if (stopping_.load(std::memory_order_relaxed)) return;
    if (!claim(part, seen)) continue;  // came too late
    region_(work_, part);
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
