// What comes back from a model. All texts are UTF-8.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace carat {
inline namespace v1 {

/// What the model wants to have called.
struct ToolCall {
  std::string name;
  std::string arguments;  // the JSON of an object
};

enum class FinishReason {
  stop,       // the model ended its reply, or a stop token or stop string came
  length,     // max_tokens, or the context is full
  cancelled,  // by the caller
  error       // the model produced no finite logit, a mask allowed no token, or the device failed
};

struct Usage {
  int prompt_tokens = 0;
  int cached_tokens = 0;  // of the prompt: found in the cache instead of computed
  int reply_tokens = 0;
  int drafted_tokens = 0;   // guessed by speculation
  int accepted_tokens = 0;  // of these, part of the reply
  int preemptions = 0;      // times it gave its memory to another request and was computed again
};

/// Log-probabilities, in nats, of the model's own distribution, before any sampling option.
struct TokenLogprob {
  int32_t token;
  float logprob;
};
struct TokenLogprobs {
  float drawn = 0.f;
  std::vector<TokenLogprob> best;  // most likely first
};

/// What has come of a reply since the chunk before; joined, the texts of a reply are the reply.
struct Chunk {
  std::string text;     // of the answer
  std::string thought;  // what the model thought before it
  std::vector<ToolCall> tool_calls;
  std::vector<int32_t> tokens;          // all drawn tokens, those of markers and of the end included
  std::vector<TokenLogprobs> logprobs;  // one per token when asked for
};

/// A whole reply.
struct Completion : Chunk {
  FinishReason finish = FinishReason::length;
  std::string error;  // what went wrong, for FinishReason::error
  Usage usage;
  double first_token_s = 0;  // from the request to the first token; 0 without one
  double total_s = 0;        // from the request to the end
};

}  // namespace v1
}  // namespace carat
