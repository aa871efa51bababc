#include "engine/inbox.h"

#include <utility>

#include "base/error.h"

namespace carat {

void Inbox::post(const Submissions& submissions, Limit limit) {
  int replies = 0;
  for (const auto& submission : submissions) replies += submission->request.samples;
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.empty()) fail(ErrorKind::device, "the engine has failed: ", failure_);
    if (closed_) fail(ErrorKind::unavailable, "the engine is shutting down");
    if (limit == Limit::most && replies > most_ - under_way_) {
      fail(ErrorKind::unavailable, "the engine is busy: ", under_way_, " replies are running or waiting, ",
           replies, " more would exceed the limit of ", most_);
    }
    under_way_ += replies;
    submissions_.insert(submissions_.end(), submissions.begin(), submissions.end());
  }
  arrived_.notify_one();
}

void Inbox::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
}

bool Inbox::wait_until_empty(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  return left_.wait_for(lock, patience, [&] { return under_way_ == 0; });
}

EngineStats Inbox::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

std::string Inbox::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

Inbox::Arrivals Inbox::take(bool idle) {
  std::unique_lock lock(mutex_);
  if (idle) arrived_.wait(lock, [&] { return stop_ || !submissions_.empty(); });
  return {std::exchange(submissions_, {}), stop_};
}

void Inbox::stop() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = stop_ = true;
  }
  arrived_.notify_one();
}

void Inbox::publish(const EngineStats& stats, int replies_ended) {
  {
    const std::lock_guard lock(mutex_);
    stats_ = stats;
    under_way_ -= replies_ended;
  }
  if (replies_ended > 0) left_.notify_all();
}

void Inbox::fail_with(const std::string& error) {
  const std::lock_guard lock(mutex_);
  failure_ = error;
}

}  // namespace carat
