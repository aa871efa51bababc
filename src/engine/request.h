// What a caller asks of the engine and what it gets back. FinishReason, Usage and TokenLogprobs are those of
// the public API.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "carat/reply.h"
#include "engine/sampler.h"

namespace carat {

/// What a grammar allows. Called by the engine's thread only.
class TokenMask {
 public:
  virtual ~TokenMask() = default;
  /// Sets bit t % 32 of word t / 32 for every token t that may follow `reply`; the words are 0 before. Has to
  /// be a function of `reply` alone: speculation asks for texts that never come to be, among them such as the
  /// mask doesn't allow. What it throws ends its request.
  virtual void allow_after(std::span<const int32_t> reply, std::span<uint32_t> allowed) = 0;
};

struct Request {
  std::vector<int32_t> prompt;  // not empty; bos is the caller's business
  SamplingParams sampling = {};
  int max_tokens = 256;                // 0: an empty reply, and the prompt isn't run
  std::vector<std::string> stop = {};  // UTF-8, not empty; never part of the reply
  bool ignore_eos = false;
  std::vector<int32_t> stop_tokens = {};  // end the reply as eos does
  int min_tokens = 0;                     // neither eos nor stop tokens are drawn before
  int samples = 1;                        // replies to draw; see sample_seed()
  int priority = 0;                       // each unit overtakes up to kPriorityStep requests
  std::optional<int> logprobs = {};       // log-probabilities, and those of this many best tokens
  std::string cache_salt = {};            // only requests with the same salt share cached prefixes
  std::shared_ptr<TokenMask> mask = {};
};
inline constexpr int kPriorityStep = 64, kMostPriority = 1000, kMostLogprobs = 20, kMostSamples = 128;

struct Reply {
  std::vector<int32_t> tokens;  // drawn tokens, the eos or stop token included
  std::string text;             // of `tokens`, without eos and special tokens, cut at a stop string
  FinishReason finish = FinishReason::length;
  std::string error;
  double first_token_s = 0;  // from submission to the first token; 0 without one
  double total_s = 0;        // from submission to the end of this reply
  Usage usage = {};
  std::vector<TokenLogprobs> logprobs = {};  // one per token when asked for
};

/// How a reply ended.
struct Finish {
  FinishReason reason = FinishReason::length;
  std::string error;
  Usage usage;
  double queued_s = 0, first_token_s = 0, total_s = 0;  // since submission
};

/// A drawn token, the end of a reply, or both. `text` may be empty: characters and possible stop strings are
/// held back until they are certain. Joined, the texts of a reply are its text.
struct Event {
  std::size_t request = 0;  // index into the requests submitted together
  int sample = 0;
  int32_t token = -1;  // -1: none
  double drawn_s = 0;  // since submission; events may be read much later
  std::string text;
  std::optional<TokenLogprobs> logprobs;
  std::optional<Finish> finish;  // the last event of a reply
};

}  // namespace carat
