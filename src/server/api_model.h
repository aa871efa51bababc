// The model that a server serves, with everything a route has to know about it. Filled in by `carat serve`
// and by tests; immutable once routes use it.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "chat/chat_template.h"
#include "engine/engine_pool.h"
#include "grammar/grammar.h"
#include "server/metrics.h"
#include "text/tokenizer.h"

namespace carat {

struct ServedModel {
  std::shared_ptr<EnginePool> engine;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<const ChatTemplate> chat_template;
  std::shared_ptr<GrammarCompiler> grammars;  // null: requests for constrained replies are refused
  std::vector<std::string> names;             // ids in the API; replies carry the first
  int32_t bos = -1;
  int vocab = 0;            // of the model
  SamplingParams sampling;  // what requests don't say; its seed is of no matter

  bool accepts_any_name = false;
  bool refuses_unknown_fields = false;
  bool allows_special = false;  // texts of clients may name control tokens
  int most_choices = 8;         // n

  int64_t created = 0;      // seconds since 1970, for /v1/models
  std::string fingerprint;  // of program and weights, for system_fingerprint

  Metrics* metrics = nullptr;  // outlives all replies; may be null
  /// Runs a job on a worker thread, soon; called from any thread, the engine's among them.
  std::function<void(std::function<void()>)> post;

  Origin origin() const { return allows_special ? Origin::chat_template : Origin::user; }
  /// Throws ApiError{404} for a name that is not ours. An empty one is ours.
  void require_name(const std::string& name) const;
};

/// The tokens behind which a turn of the model doesn't go on: checkpoints don't name all of them as eos.
std::vector<int32_t> turn_ends(const Tokenizer& tokenizer);

/// Of replies that end with one of these or with a turn.
std::shared_ptr<GrammarCompiler> make_grammars(const std::shared_ptr<const Tokenizer>& tokenizer,
                                               std::vector<int32_t> eos_tokens);

}  // namespace carat
