// Who takes part in the next step, with how many tokens, and who has to wait or give up its pages. Everything
// is in order of rank, in which a sequence keeps its place for life: the first one always gets what it needs,
// so every sequence gets there.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "engine/kv_pages.h"
#include "engine/model_drafter.h"
#include "engine/prompt_pacer.h"
#include "engine/sequence.h"

namespace carat {

/// A sequence's part of a step.
struct StepShare {
  Sequence* sequence;
  int count;                    // of its pending tokens
  std::vector<int32_t> drafts;  // checked behind them; empty unless count is all that is pending

  int tokens() const { return count + static_cast<int>(drafts.size()); }
  /// Whether a token is drawn: the sequence has no other tokens pending.
  bool draws() const { return count == sequence->pending(); }
};

class Scheduler {
 public:
  struct Options {
    double slowdown = 2.0;  // see PromptPacer
    int draft_batch = 8;    // more sequences than this decode without drafts: the step is full of work anyway
  };
  /// `drafter` guesses for sequences that have none of their own; may be null.
  Scheduler(KvPages& pages, const RunnerOptions& limits, const Options& options,
            const ModelDrafter* drafter = nullptr);

  void add(std::unique_ptr<Sequence> sequence);
  /// The next step: everyone in it has its pages, and `copies` must be made before it. Empty when there is
  /// nothing to do.
  std::vector<StepShare> plan(std::vector<PageCopy>& copies);
  /// The step's tokens are in the KV cache: lets those join who waited for them, and pages go.
  void complete(Sequence& sequence);
  /// Forgets a sequence that ended; its pages return.
  void remove(Sequence& sequence);

  /// How long the step planned last took, for the share of prompts in the next ones.
  void step_took(double seconds) { pacer_.report(load_, prompt_tokens_, seconds); }
  bool idle() const { return running_.empty() && waiting_.empty(); }
  int running() const { return static_cast<int>(running_.size()); }
  int waiting() const { return static_cast<int>(waiting_.size()); }
  int64_t preemptions() const { return preemptions_; }
  /// Running and waiting.
  std::vector<Sequence*> sequences() const;

 private:
  using Queue = std::vector<std::unique_ptr<Sequence>>;  // by rank

  void admit();
  bool fits(const Sequence& sequence) const;
  bool runs(const Sequence& sequence) const;
  void find_beginning(Sequence& sequence);
  bool follow(Sequence& sequence) const;
  int shared_by(const Sequence& leader, const Sequence& sequence) const;
  std::vector<StepShare> guess(int spare);
  void plan_decoding(std::vector<StepShare>& shares, std::vector<PageCopy>& copies);
  void plan_prompts(std::vector<StepShare>& shares, std::vector<PageCopy>& copies);
  bool reserve(Sequence& sequence, int count, std::vector<StepShare>& shares, std::vector<PageCopy>& copies);
  void preempt(Sequence& sequence, std::vector<StepShare>& shares);
  void leave(Sequence& sequence);
  void join(const Sequence& leader, Sequence& sequence);
  void part_from(const Sequence& leader);

  KvPages& pages_;
  const RunnerOptions limits_;
  const Options options_;
  const ModelDrafter* const drafter_;
  PromptPacer pacer_;
  Queue waiting_, running_;
  // Of the step planned last, or being planned:
  int room_ = 0;  // tokens left
  PromptPacer::Load load_;
  int prompt_tokens_ = 0;
  int64_t preemptions_ = 0;
};

}  // namespace carat
