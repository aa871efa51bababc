// How an engine works: what doesn't change from request to request.
#pragma once
#include <cstdint>
#include <vector>

#include "engine/drafter.h"

namespace carat {

struct EngineOptions {
  std::vector<int32_t> eos_tokens = {};
  std::vector<int32_t> suppressed_tokens = {};
  int max_positions = 131072;  // of the model
  int max_waiting = 1024;      // replies beyond those that can run at once; more are refused
  /// Keep the K/V of texts that ended, for requests that begin alike.
  bool prefix_cache = true;
  /// How much longer a step may take because of prompts that arrive while others decode; 0: no limit.
  double slowdown = 2.0;
  DraftMethod draft = DraftMethod::none;
  int draft_tokens = 8;  // at most, per step
  int draft_batch = 8;   // with more sequences decoding than this, nothing is drafted
};

}  // namespace carat
