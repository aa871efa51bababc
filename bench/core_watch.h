// When the machine stops a core under a program that is being measured: a hypervisor gives it to somebody
// else, or the kernel works for another process. A thread per core, of higher real-time priority than what is
// measured, wakes up every millisecond; when it comes late, nothing of the program can have run there. More
// often would find shorter stops, and slow down what is measured: four times as often made steps of 1.1 ms
// take 1.5.
#pragma once
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace carat {

class CoreWatch {
 public:
  using Clock = std::chrono::steady_clock;
  /// Coming later than that is a stop; waking up takes 0.03 to 0.1 ms.
  static constexpr std::chrono::microseconds kLate{150};
  struct Stop {
    Clock::time_point from, to;
    double ms() const { return std::chrono::duration<double, std::milli>(to - from).count(); }
  };

  /// Watches nothing unless the caller has real-time priority (`chrt -f 1`): without one the threads would
  /// wait for the program that they watch.
  CoreWatch() {
    sched_param own{};
    if (::sched_getscheduler(0) != SCHED_FIFO || ::sched_getparam(0, &own) != 0) return;
    cpu_set_t cores;
    if (::sched_getaffinity(0, sizeof cores, &cores) != 0) return;
    std::vector<int> numbers;
    for (int core = 0; core < CPU_SETSIZE; ++core)
      if (CPU_ISSET(core, &cores)) numbers.push_back(core);
    stops_.resize(numbers.size());
    for (std::size_t i = 0; i < numbers.size(); ++i)
      threads_.emplace_back([this, i, core = numbers[i], above = own.sched_priority + 1] {
        if (rise(core, above)) watch(stops_[i]);
      });
  }
  ~CoreWatch() { finish(); }
  CoreWatch(const CoreWatch&) = delete;
  CoreWatch& operator=(const CoreWatch&) = delete;

  /// Ends the watch. When one core or another stood still, in order and without overlaps; a stop counts from
  /// the first moment that was missed, so it was rather longer.
  std::vector<Stop> finish() {
    finished_ = true;
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    std::vector<Stop> all;
    for (const std::vector<Stop>& stops : stops_) all.insert(all.end(), stops.begin(), stops.end());
    std::ranges::sort(all, {}, &Stop::from);
    std::vector<Stop> merged;
    for (const Stop& stop : all) {
      if (merged.empty() || stop.from > merged.back().to) {
        merged.push_back(stop);
      } else {
        merged.back().to = std::max(merged.back().to, stop.to);
      }
    }
    return merged;
  }
  /// Whether every core is watched.
  bool works() const { return !stops_.empty() && !failed_; }

 private:
  static constexpr std::chrono::microseconds kPeriod{1000};

  bool rise(int core, int priority) {
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(core, &only);
    const sched_param wanted{.sched_priority = priority};
    const bool risen = ::pthread_setaffinity_np(::pthread_self(), sizeof only, &only) == 0 &&
                       ::pthread_setschedparam(::pthread_self(), SCHED_FIFO, &wanted) == 0;
    if (!risen) failed_ = true;
    return risen;
  }

  void watch(std::vector<Stop>& stops) {
    for (auto due = Clock::now() + kPeriod; !finished_; due += kPeriod) {
      std::this_thread::sleep_until(due);
      const auto now = Clock::now();
      if (now - due < kLate) continue;
      stops.push_back({due, now});
      due = now;
    }
  }

  std::vector<std::vector<Stop>> stops_;  // of each core
  std::vector<std::thread> threads_;
  std::atomic<bool> finished_{false}, failed_{false};
};

}  // namespace carat
