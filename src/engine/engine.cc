// Checks requests before anything runs; generation.cc runs them.
#include "engine/engine.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "engine/generation.h"

namespace carat {
namespace {

std::unique_ptr<Runner> checked(std::unique_ptr<Runner> runner) {
  CHECK(runner != nullptr);
  const RunnerOptions& limits = runner->info().limits;
  const auto positive = [](const char* what, int value) {
    if (value < 1) fail(ErrorKind::invalid_argument, what, " is ", value, ", must be at least 1");
  };
  positive("tokens per KV page", limits.page_tokens);
  positive("tokens per step", limits.max_step_tokens);
  positive("number of sequences", limits.max_sequences);
  return runner;
}

}  // namespace

Engine::Engine(std::unique_ptr<Runner> runner, std::shared_ptr<const Tokenizer> tokenizer,
               EngineOptions options)
    : runner_(checked(std::move(runner))),
      tokenizer_(std::move(tokenizer)),
      options_(std::move(options)),
      pages_(runner_->info().kv_groups, runner_->info().limits),
      max_context_(pages_.longest_sequence(options_.max_positions)) {
  if (max_context_ > 1) return;
  fail(ErrorKind::invalid_argument, "no sequence fits: the model has ", options_.max_positions,
       " positions, and ", pages_.total_pages(kFullGroup), " + ", pages_.total_pages(kSlidingGroup),
       " pages of KV memory are too few for steps of ", runner_->info().limits.max_step_tokens, " tokens");
}

void Engine::require_valid(const Request& request) const {
  const std::size_t prompt = request.prompt.size();
  if (prompt == 0)
    fail(ErrorKind::invalid_argument, "the prompt is empty; it needs at least one token, such as bos");
  if (prompt >= static_cast<std::size_t>(max_context_)) {
    fail(ErrorKind::invalid_argument, "the prompt has ", prompt, " tokens; the context of ", max_context_,
         " must hold it and at least one token of reply");
  }
  const int vocab = runner_->info().vocab;
  const auto unknown =
      std::ranges::find_if(request.prompt, [&](int32_t id) { return id < 0 || id >= vocab; });
  if (unknown != request.prompt.end()) {
    fail(ErrorKind::invalid_argument, "token id ", *unknown, " at position ",
         unknown - request.prompt.begin(), " of the prompt is not in the model's vocabulary of ", vocab);
  }
  if (request.max_tokens < 0) {
    fail(ErrorKind::invalid_argument, "max_tokens is ", request.max_tokens, ", must be >= 0");
  }
  if (!request.stop.empty() && !tokenizer_) {
    fail(ErrorKind::invalid_argument, "stop strings need a tokenizer, and this engine has none");
  }
  if (tokenizer_) StreamDecoder(tokenizer_, request.stop, true);  // refuses stop strings that can't occur
  request.sampling.validate();
}

std::vector<Reply> Engine::generate(std::span<const Request> requests,
                                    const std::function<bool(const TokenEvent&)>& on_token) {
  for (std::size_t i = 0; i < requests.size(); ++i) {
    try {
      require_valid(requests[i]);
    } catch (const Error& error) {
      if (requests.size() == 1) throw;
      fail(error.kind(), "request ", i, ": ", error.what());
    }
  }
  return Generation({*runner_, pages_, tokenizer_, options_, max_context_}, requests, on_token).run();
}

Reply Engine::generate(const Request& request, const std::function<bool(const TokenEvent&)>& on_token) {
  return std::move(generate(std::span(&request, 1), on_token).front());
}

}  // namespace carat
