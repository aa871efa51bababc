// The model that a server serves, with everything a route has to know about it. Filled in by `carat serve`
// and by tests; immutable once routes use it.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "chat/chat_template.h"
#include "engine/engine.h"
#include "text/tokenizer.h"

namespace carat {

struct ServedModel {
  std::shared_ptr<Engine> engine;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<const ChatTemplate> chat_template;  // of whatever kind; plain text for a base model
  std::vector<std::string> names;                     // ids in the API; replies carry the first
  int32_t bos = -1;
  int vocab = 0;            // of the model
  SamplingParams sampling;  // what requests don't say; its seed is of no matter

  bool accepts_any_name = false;
  bool refuses_unknown_fields = false;
  bool allows_special = false;  // texts of clients may name control tokens
  int most_choices = 8;         // n
  /// Nothing was sent on a stream for so long: a comment keeps proxies from giving up.
  std::chrono::milliseconds ping_after{10'000};

  int64_t created = 0;      // seconds since 1970, for /v1/models
  std::string fingerprint;  // of program and weights, for system_fingerprint

  /// Runs a job on a worker thread, soon; called from any thread, the engine's among them.
  std::function<void(std::function<void()>)> post;

  Origin origin() const { return allows_special ? Origin::chat_template : Origin::user; }
  /// Throws ApiError{404} for a name that is not ours. An empty one is ours.
  void require_name(const std::string& name) const;
};

}  // namespace carat
