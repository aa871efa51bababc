// Requests in, text out: forms ragged steps over the running sequences, streams what they produce and ends
// each on an eos token, a stop string or a limit. One caller at a time.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/kv_pages.h"
#include "engine/runner.h"
#include "engine/sampler.h"
#include "text/tokenizer.h"

namespace carat {

struct Request {
  std::vector<int32_t> prompt;  // not empty; bos is the caller's business
  SamplingParams sampling = {};
  int max_tokens = 256;                // 0: an empty reply, and the prompt isn't run
  std::vector<std::string> stop = {};  // UTF-8, not empty; never part of the reply
  bool ignore_eos = false;
};

enum class FinishReason {
  stop,       // an eos token or a stop string
  length,     // max_tokens, or the context is full
  cancelled,  // the callback returned false
  error       // the model produced no finite logit; see Reply::error
};

struct Reply {
  std::vector<int32_t> tokens;  // drawn tokens, the eos token included
  std::string text;             // of `tokens`, without eos and special tokens, cut at a stop string
  FinishReason finish = FinishReason::length;
  std::string error;
  double first_token_s = 0;  // from generate() to the first token; 0 without one
  double total_s = 0;        // from generate() to the end of this reply
};

/// One per drawn token. `text` may be empty: characters and possible stop strings are held back until they
/// are certain. Joined, the texts of a request are its reply's, unless it was cancelled or failed with text
/// held back.
struct TokenEvent {
  std::size_t request;  // index into the requests of generate()
  int32_t token;
  std::string text;
};

struct EngineOptions {
  std::vector<int32_t> eos_tokens = {};
  std::vector<int32_t> suppressed_tokens = {};
  int max_positions = 131072;  // of the model
};

class Engine {
 public:
  /// `tokenizer` may be null: replies then have tokens but no text, and stop strings are refused.
  /// Throws Error{invalid_argument} when the runner's KV memory can't hold a single step.
  Engine(std::unique_ptr<Runner> runner, std::shared_ptr<const Tokenizer> tokenizer, EngineOptions options);

  /// Runs all requests to their end, in order and as many at once as the runner takes and its KV memory
  /// surely holds; returning false from `on_token` (which may be empty) cancels that request. Throws
  /// Error{invalid_argument} for an empty or too long prompt or impossible parameters, before anything runs.
  /// What `on_token` throws ends all requests; the engine can be used again.
  std::vector<Reply> generate(std::span<const Request> requests,
                              const std::function<bool(const TokenEvent&)>& on_token);
  Reply generate(const Request& request, const std::function<bool(const TokenEvent&)>& on_token);

  Runner& runner() { return *runner_; }
  /// The longest prompt plus reply this engine can hold for one sequence.
  int max_context() const { return max_context_; }
  const KvPages& pages() const { return pages_; }

 private:
  void require_valid(const Request& request) const;

  std::unique_ptr<Runner> runner_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  EngineOptions options_;
  KvPages pages_;
  int max_context_;
};

}  // namespace carat
