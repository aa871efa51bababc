// One reply on its way through the engine: its tokens, how many of them are in the KV cache, and its pages.
// Owned by the Scheduler; touched by the engine's thread alone.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/drafter.h"
#include "engine/kv_pages.h"
#include "engine/reply_stream.h"
#include "engine/submission.h"

namespace carat {

/// Place in line: lower goes first, and gives up its pages last. The second number tells equal ones apart.
using Rank = std::pair<int64_t, int64_t>;

struct Sequence {
  std::shared_ptr<const Submission> submission;
  int sample;
  Rank rank;
  SamplingParams sampling;
  std::vector<int32_t> tokens;  // the prompt, then the reply
  int prompt_tokens;
  int limit;  // tokens.size() that ends it
  ReplyStream stream;
  std::vector<int32_t> held_off = {};          // never drawn before min_tokens
  std::unique_ptr<Drafter> drafter = nullptr;  // may be null
  DraftLength draft_length;
  /// Where the last token was drawn, for ModelDrafter.
  struct Draw {
    int64_t step = -1;
    int row = 0;  // of the step's logit rows
  };
  Draw last_draw = {};

  int cached = 0;  // tokens in the KV cache
  SequencePages pages = {};
  /// One that is computing what this one begins with, too: this one waits and takes its pages when the leader
  /// has `awaited` tokens of them.
  Sequence* leader = nullptr;
  int awaited = 0;
  Usage usage = {};
  double queued_s = -1, first_token_s = 0;  // -1: has never run
  std::string failure = {};                 // not empty: ends it once the step in flight is done

  const Request& request() const { return submission->request; }
  /// Tokens that are not in the KV cache yet: what is left of the prompt, or the token drawn last.
  int pending() const { return static_cast<int>(tokens.size()) - cached; }
  int reply_tokens() const { return static_cast<int>(tokens.size()) - prompt_tokens; }
};

}  // namespace carat
