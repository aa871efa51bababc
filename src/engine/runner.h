// The backend boundary: a runner owns weights, KV storage and buffers of one device and executes steps.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/phase_times.h"
#include "engine/step.h"
#include "model/drafter.h"
#include "model/gemma4.h"

namespace carat {

/// How K and V are kept. `automatic`: the device's choice, exact beside weights that are not quantised. int8
/// has a float32 scale per token and K/V head, and takes a quarter of f32.
enum class KvType { automatic, f32, f16, int8 };

struct RunnerOptions {
  int page_tokens = 32;                        // tokens per KV page, in both groups
  std::array<int, kKvGroups> pages{512, 128};  // KV capacity, decided once at start
  int max_step_tokens = 512;                   // T of the largest step
  int max_sequences = 16;                      // segments of the largest step
  KvType kv_type = KvType::automatic;
};

/// The same for steps in which each sequence has one row, as in a drafter's rounds.
RunnerOptions one_row_each(RunnerOptions limits);

struct RunnerInfo {
  std::string device;                  // "ref", "cpu", "cuda:0"
  RunnerOptions limits;                // as granted
  std::size_t weight_bytes_per_token;  // read by a decode step of one sequence, without KV
  std::size_t kv_bytes_per_token;      // full group, one token
  int vocab;                           // logits per row; a step's token ids lie in [0, vocab)
  std::array<KvGroup, kKvGroups> kv_groups;
  bool drafts = false;  // has a drafter, see Runner::draft()
};

struct PageCopy {
  int group;
  int32_t from, to;
};

class Runner {
 public:
  virtual ~Runner() = default;
  virtual const RunnerInfo& info() const = 0;
  /// Called by a thread before it submits its first step, so that a device can become that thread's current
  /// one.
  virtual void enter_thread() {}
  /// Enqueues one step; at most two are in flight.
  virtual void submit(const StepInput& step) = 0;
  /// Waits for the oldest step in flight. Throws Error{device}, after which the runner is unusable.
  virtual StepResult collect() = 0;
  /// `count` guesses for each row, [rows, count], of the plan's drafter. Between collect() of a step and the
  /// next submit(). Only when info().drafts.
  virtual std::vector<int32_t> draft(const DraftRows& rows, int count);
  /// Between steps: from now on each phase of a step has its time taken, which makes steps slower, or no
  /// longer. Throws Error{unsupported} on devices that can't.
  virtual void time_phases(bool on);
  /// Of the steps since it was last called.
  virtual StepTimes phase_times() { return {}; }
  /// Copies whole KV pages, ordered between the steps around it.
  virtual void copy_pages(std::span<const PageCopy> copies) = 0;
};

}  // namespace carat
