// Several engines of one model, each with a device of its own, as one. Used by the server.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/engine.h"

namespace carat {

class EnginePool {
 public:
  /// At least one.
  explicit EnginePool(std::vector<std::unique_ptr<Engine>> engines);
  explicit EnginePool(std::unique_ptr<Engine> engine);

  /// As Engine::submit(), to the engine with the least to do of those that have room for all replies at once;
  /// to one that has failed only when all have. One that has computed the beginning of the first prompt
  /// before, and so may still hold it, gets it even when it has a little more to do.
  RequestHandle submit(std::vector<Request> requests, std::function<void()> notify = {});

  /// Of all engines together.
  EngineStats stats() const;
  /// Of the first engine that has failed; empty while all work.
  std::string failure() const;
  /// Of the engine with the least room.
  int max_context() const;
  /// Replies that run at once.
  int max_sequences() const;

 private:
  struct Member {
    std::unique_ptr<Engine> engine;
    std::vector<std::weak_ptr<const Submission>> submissions;  // some of which have ended
    int load = 0;                                              // replies under way
    bool failed = false, full = false;

    /// Brings all this up to date; full: `more` replies would have to wait.
    void look(int more);
  };

  std::size_t choose(const std::vector<Request>& requests);

  std::vector<Member> members_;
  std::mutex mutex_;  // of what follows, and of the members' submissions
  std::unordered_map<uint64_t, std::size_t> known_beginnings_;  // hash -> who has computed it last
};

}  // namespace carat
