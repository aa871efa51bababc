// All that the engine's thread shares with its callers, behind one lock that nobody holds for long: requests
// on their way in, whether more are welcome, and what the engine last said about itself.
#pragma once
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/step_loop.h"
#include "engine/submission.h"

namespace carat {

class Inbox {
 public:
  using Submissions = std::vector<std::shared_ptr<Submission>>;

  /// `most`: replies that may be under way at once.
  explicit Inbox(int most) : most_(most) {}

  enum class Limit { none, most };
  /// For callers. All or nothing; throws Error{unavailable} when there are too many or the engine is
  /// stopping, Error{device} when it has failed.
  void post(const Submissions& submissions, Limit limit);
  /// Nothing is accepted from now on.
  void close();
  /// Waits until all replies have ended; false when that takes longer than `patience`.
  bool wait_until_empty(std::chrono::milliseconds patience);
  EngineStats stats() const;
  std::string failure() const;

  /// For the engine's thread. What has arrived; waits for it while there is nothing else to do (`idle`).
  /// `stop`: the thread is to end.
  struct Arrivals {
    Submissions submissions;
    bool stop = false;
  };
  Arrivals take(bool idle);
  void stop();
  void publish(const EngineStats& stats, int replies_ended);
  void fail_with(const std::string& error);

 private:
  mutable std::mutex mutex_;
  std::condition_variable arrived_, left_;
  Submissions submissions_;
  EngineStats stats_;
  std::string failure_;
  const int most_;
  int under_way_ = 0;  // replies accepted and not ended
  bool closed_ = false, stop_ = false;
};

}  // namespace carat
