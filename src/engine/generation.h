// One call of Engine::generate(): which requests run, what each step consists of, and how drawn tokens become
// replies.
#pragma once
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/step_builder.h"
#include "text/stream_decoder.h"

namespace carat {

/// What a Generation borrows from its Engine.
struct GenerationContext {
  Runner& runner;
  KvPages& pages;
  std::shared_ptr<const Tokenizer> tokenizer;  // may be null
  const EngineOptions& options;
  int max_context;
};

class Generation {
 public:
  /// The requests have been validated.
  Generation(const GenerationContext& context, std::span<const Request> requests,
             const std::function<bool(const TokenEvent&)>& on_token);
  std::vector<Reply> run();

 private:
  struct Sequence {
    Sequence(const GenerationContext& context, const Request& request, std::size_t index, int limit);
    /// Tokens that are not in the KV cache yet: the rest of the prompt, or the token drawn last.
    int pending() const { return static_cast<int>(tokens.size()) - cached; }

    const Request& request;
    std::size_t index;            // of the request
    std::vector<int32_t> tokens;  // the prompt, then the reply
    int limit;                    // tokens.size() that ends it
    int cached = 0;
    int in_step = 0;  // tokens of the step in flight
    ScopedPages pages;
    std::optional<StreamDecoder> decoder;
    bool ended = false;
  };

  void admit();
  bool fits(int limit) const;
  void reserve(int limit, int sign);
  void step();
  void add_to_step(Sequence& sequence);
  void accept(Sequence& sequence, int32_t token);
  void end(Sequence& sequence, FinishReason reason);
  void remove_ended();
  double elapsed_s() const;

  const GenerationContext context_;
  const std::span<const Request> requests_;
  const std::function<bool(const TokenEvent&)>& on_token_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::vector<Reply> replies_;
  std::size_t next_ = 0;                            // first request that still waits
  std::vector<std::unique_ptr<Sequence>> running_;  // in order of arrival
  std::array<int, kKvGroups> reserved_{};           // pages promised to running_
  StepBuilder builder_;
  std::vector<Sequence*> in_step_;  // in the order of their segments
};

}  // namespace carat
