#include "engine/outbox.h"

#include <algorithm>
#include <iterator>

namespace carat {

void Outbox::post(std::vector<Event> events) {
  {
    const std::lock_guard lock(mutex_);
    std::ranges::move(events, std::back_inserter(events_));
  }
  changed_.notify_one();
  if (notify_) notify_();
}

std::optional<Event> Outbox::next(std::optional<std::chrono::milliseconds> patience) {
  std::unique_lock lock(mutex_);
  const auto ready = [&] { return !events_.empty() || open_ == 0; };
  if (patience) {
    changed_.wait_for(lock, *patience, ready);
  } else {
    changed_.wait(lock, ready);
  }
  if (events_.empty()) return std::nullopt;
  Event event = std::move(events_.front());
  events_.pop_front();
  if (event.finish) --open_;
  return event;
}

bool Outbox::finished() const {
  const std::lock_guard lock(mutex_);
  return open_ == 0;
}

}  // namespace carat
