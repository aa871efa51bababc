// The wire between the engine and a runner: one ragged step in, tokens out.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/sampler.h"
#include "model/gemma4.h"

namespace carat {

/// All spans are valid until collect() of this step has returned.
struct StepInput {
  /// [T]. A negative entry ~r stands for the token drawn for logit row r of the step submitted before this
  /// one, so that a device can start a step whose tokens the host has not seen.
  std::span<const int32_t> tokens;
  std::span<const Segment> segments = {};
  std::array<PageTable, kKvGroups> page_tables = {};
  std::span<const int32_t> logit_rows = {};    // [R] ascending: a finished prompt's last row, all of a check
  std::span<const RowSampling> sampling = {};  // [R], or empty: no tokens are drawn
  bool return_logits = false;
};

struct StepResult {
  std::vector<int32_t> tokens;    // [R] when sampling was asked for
  std::span<const float> logits;  // [R, vocab] when return_logits; valid until the next submit()
};

}  // namespace carat
