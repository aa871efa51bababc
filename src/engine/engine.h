// Requests in, replies out, for any number of callers at once. One thread owns the model, its KV memory and
// all running replies; callers leave requests in its inbox and read events from their own. docs/engine.md
// says how a request moves through it.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "engine/engine_options.h"
#include "engine/inbox.h"
#include "engine/request.h"
#include "engine/runner.h"
#include "engine/submission.h"
#include "text/tokenizer.h"

namespace carat {

/// Where the events of one submission arrive. Dropping it cancels what hasn't ended. Reading slowly or not at
/// all holds nobody up. May outlive the engine, which ends all its replies.
class RequestHandle {
 public:
  RequestHandle() = default;
  explicit RequestHandle(std::vector<std::shared_ptr<Submission>> submissions);
  ~RequestHandle() { cancel(); }
  RequestHandle(RequestHandle&&) noexcept = default;
  RequestHandle& operator=(RequestHandle&& other) noexcept;

  /// Waits for the next event, at most `patience` when given. None when there is none in time, or when all
  /// replies have finished; finished() tells which.
  std::optional<Event> next(std::optional<std::chrono::milliseconds> patience = std::nullopt);
  bool finished() const;

  /// Appends what ends when the engine and this handle have let go of it: one per request.
  void watch(std::vector<std::weak_ptr<const Submission>>& submissions) const {
    submissions.insert(submissions.end(), submissions_.begin(), submissions_.end());
  }

  /// Takes effect with the engine's next step; each reply still ends with an event.
  void cancel();
  void cancel(std::size_t request) { submissions_.at(request)->cancelled = true; }
  /// One sample, which has drawn a token.
  void cancel(std::size_t request, int sample) {
    submissions_.at(request)->cancelled_samples.at(static_cast<std::size_t>(sample)) = true;
  }

 private:
  std::vector<std::shared_ptr<Submission>> submissions_;  // all with the same outbox
};

/// One per drawn token, for the callback of generate().
struct TokenEvent {
  std::size_t request;  // index into the requests of generate()
  int32_t token;
  std::string text;
  int sample = 0;
  double drawn_s = 0;  // since submission
};

class Engine {
 public:
  /// `tokenizer` may be null: replies then have tokens but no text, and stop strings are refused.
  /// Throws Error{invalid_argument} when the runner's KV memory can't hold a single step.
  Engine(std::unique_ptr<Runner> runner, std::shared_ptr<const Tokenizer> tokenizer, EngineOptions options);
  /// Cancels what still runs.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Leaves requests for the engine's thread; safe from any thread. `notify`, if any, is called by that
  /// thread when events have come, and must not wait. Throws Error{invalid_argument} for an empty or too long
  /// prompt or impossible parameters, Error{unavailable} when too many requests wait or the engine shuts
  /// down.
  RequestHandle submit(std::vector<Request> requests, std::function<void()> notify = {});
  RequestHandle submit(Request request, std::function<void()> notify = {});

  /// Runs all requests to their end; one reply per sample, in order. Returning false from `on_token` (which
  /// may be empty) cancels that request; what it throws ends all of them. Throws as submit() does, before
  /// anything runs, but not for the number of requests: their caller waits anyway. Throws Error{device} when
  /// the device fails.
  std::vector<Reply> generate(std::span<const Request> requests,
                              const std::function<bool(const TokenEvent&)>& on_token);
  Reply generate(const Request& request, const std::function<bool(const TokenEvent&)>& on_token);

  /// Refuses new requests and lets the others finish. False when some still run after `patience`; they go on.
  bool drain(std::chrono::milliseconds patience);

  /// As of the last step.
  EngineStats stats() const { return inbox_.stats(); }
  /// What the device failed with; empty while the engine works.
  std::string failure() const { return inbox_.failure(); }
  /// To be used only while nothing runs, and never with the prefix cache, whose pages it would overwrite.
  Runner& runner() { return *runner_; }
  const Runner& runner() const { return *runner_; }
  /// The longest prompt plus reply this engine can hold for one sequence.
  int max_context() const { return max_context_; }

 private:
  void require_valid(const Request& request) const;
  RequestHandle post(std::vector<Request> requests, std::function<void()> notify, Inbox::Limit limit);
  void serve();
  bool serve_arrivals();
  void deliver();

  std::unique_ptr<Runner> runner_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  const EngineOptions options_;
  int max_context_;
  Inbox inbox_;
  StepLoop loop_;  // of the thread alone
  std::thread thread_;
};

}  // namespace carat
