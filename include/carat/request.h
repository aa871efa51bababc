// What a caller asks of a model. All texts are UTF-8.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace carat {
/// All public types are here: a later version may change them without binaries mistaking one for the other.
inline namespace v1 {

/// One turn of a conversation: `role` is system, user or assistant. Whatever `content` says is text, also
/// when it looks like a control token.
struct Message {
  std::string role, content;
};

/// How a reply is drawn. Unset: the checkpoint's generation_config.json. Values out of range make the call
/// throw Error{invalid_argument}, which names them.
struct ReplyOptions {
  int max_tokens = 512;                          // of the reply; the context bounds it too
  std::optional<float> temperature = {};         // 0: the likeliest token always
  std::optional<int> top_k = {};                 // draw from the k likeliest; 0: all
  std::optional<float> top_p = {};               // from the likeliest that have this probability together
  std::optional<float> min_p = {};               // from those this likely relative to the best
  std::optional<float> repetition_penalty = {};  // above 1: fewer repetitions
  float presence_penalty = 0.f;                  // subtracted once from each token that the reply has
  float frequency_penalty = 0.f;                 // subtracted as often as the reply has the token
  std::vector<std::pair<int32_t, float>> logit_bias = {};  // added to a token's logit
  std::optional<uint64_t> seed = {};   // same seed, same reply, whatever else runs; unset: another each time
  std::vector<std::string> stop = {};  // end the reply and are no part of it; in a chat, of the answer alone
  bool ignore_eos = false;             // go on where the model would stop
  std::optional<int> logprobs = {};    // log-probabilities, and those of this many best tokens (0 to 20)
  int priority = 0;                    // -1000 to 1000: each unit overtakes up to 64 requests
  std::string cache_salt = {};         // only requests with the same salt share cached prefixes
  bool think = false;                  // chat: let the model think before it answers
  std::string tools = {};              // chat: JSON list of tools, as in OpenAI's API; empty: none
  /// Called by the engine's thread whenever Generation::next() may have more. Must not wait, nor throw.
  std::function<void()> notify = {};
};

}  // namespace v1
}  // namespace carat
