// The engine's work, one step at a time: takes requests in, plans a step, runs it, and turns the drawn tokens
// into events. Single-threaded: Engine calls it from its thread, tests call it directly.
#pragma once
#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine_options.h"
#include "engine/kv_pages.h"
#include "engine/runner.h"
#include "engine/scheduler.h"
#include "engine/step_builder.h"
#include "engine/submission.h"
#include "text/tokenizer.h"

namespace carat {

/// What has happened since the engine started, and what it holds now.
struct EngineStats {
  int running = 0, waiting = 0;
  std::array<int, kKvGroups> free_pages{}, total_pages{};
  int64_t steps = 0;
  int64_t prompt_tokens = 0;  // computed; those found in the cache not among them
  int64_t cached_tokens = 0;
  int64_t reply_tokens = 0;
  int64_t drafted_tokens = 0, accepted_tokens = 0;
  int64_t preemptions = 0;
};

class StepLoop {
 public:
  /// `tokenizer` may be null. `max_context`: the longest prompt plus reply.
  StepLoop(Runner& runner, std::shared_ptr<const Tokenizer> tokenizer, const EngineOptions& options,
           int max_context);

  /// A validated request.
  void add(std::shared_ptr<const Submission> submission);
  /// Ends what was cancelled, then runs one step of the rest. Throws what the runner throws.
  void step();
  /// Ends everything.
  void end_all(FinishReason reason, const std::string& error);
  bool idle() const { return scheduler_.idle(); }

  /// To be posted once stats() can be seen by whoever reads them. Neighbours have different outboxes.
  using Outgoing = std::vector<std::pair<std::shared_ptr<Outbox>, std::vector<Event>>>;
  Outgoing take_events() { return std::exchange(outgoing_, {}); }
  EngineStats stats() const;

 private:
  void end_cancelled();
  void add_to_step(const StepShare& share);
  void ask_for_tokens(const StepShare& share, int first_row);
  std::span<const uint32_t> mask_after(Sequence& sequence, std::span<const int32_t> reply);
  /// `drawn` [1 + drafts] from `first_row` of the step's logit rows on, and `logits` [1 + drafts, vocab], or
  /// empty.
  void accept(const StepShare& share, int first_row, std::span<const int32_t> drawn,
              std::span<const float> logits);
  Event event_for(Sequence& sequence, int32_t token, std::span<const float> logits);
  void end(Sequence& sequence, FinishReason reason, const std::string& error, Event event);
  void post(const Sequence& sequence, Event event);
  std::string no_token_message(const Sequence& sequence) const;

  Runner& runner_;
  const std::shared_ptr<const Tokenizer> tokenizer_;
  const EngineOptions& options_;
  const int max_context_;
  KvPages pages_;
  ModelDrafter drafter_;
  Scheduler scheduler_;
  StepBuilder builder_;
  std::vector<PageCopy> copies_;
  std::deque<std::vector<uint32_t>> masks_;  // of the step's rows
  int64_t next_serial_ = 0;
  Outgoing outgoing_;
  EngineStats totals_;  // what accumulates; the rest is asked for
};

}  // namespace carat
