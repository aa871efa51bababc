// Events on their way from the engine's thread to the reader of one submission. Posting never waits for the
// reader; a reply's length bounds what can pile up.
#pragma once
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "engine/request.h"

namespace carat {

class Outbox {
 public:
  /// `replies`: how many will finish. `notify`, if any, is called by the engine's thread after each post().
  Outbox(int replies, std::function<void()> notify) : notify_(std::move(notify)), open_(replies) {}

  /// Events of one step: the reader is woken once for them.
  void post(std::vector<Event> events);
  /// The next event, waiting at most `patience` for it (none: as long as it takes). None when there is none
  /// in time or all replies have finished and been read.
  std::optional<Event> next(std::optional<std::chrono::milliseconds> patience);
  /// All replies have finished, and their events have been read.
  bool finished() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Event> events_;
  const std::function<void()> notify_;
  int open_;  // replies whose end has not been read
};

}  // namespace carat
