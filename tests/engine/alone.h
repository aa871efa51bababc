// What a request gives when nothing else runs: one sequence, no sharing, no drafts, no scheduler; the oracle
// of the tests that run many requests together.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/engine_options.h"
#include "engine/kv_pages.h"
#include "engine/logprobs.h"
#include "engine/request.h"
#include "engine/runner.h"
#include "engine/step_builder.h"

namespace carat {

/// The logits after `tokens` [past, size), which continue the sequence.
inline std::vector<float> logits_after(Runner& runner, KvPages& pages, ScopedPages& sequence,
                                       std::span<const int32_t> tokens, int past) {
  std::vector<float> last;
  const int step = runner.info().limits.max_step_tokens, size = static_cast<int>(tokens.size());
  for (; past < size; past += std::min(step, size - past)) {
    const int count = std::min(step, size - past);
    pages.extend(sequence, past, count);
    StepBuilder builder;
    builder.add(tokens.subspan(past, count), past, sequence);
    builder.want_logits(count - 1);
    runner.submit(builder.input());
    const auto logits = runner.collect().logits;
    last.assign(logits.begin(), logits.end());
    pages.release_behind_window(sequence, past + count);
  }
  return last;
}

/// Sample `sample` of the request. `runner` has pages for one sequence of `context` tokens.
inline Reply reply_alone(Runner& runner, const Request& request, const EngineOptions& options, int context,
                         int sample = 0) {
  Reply reply;
  KvPages pages(runner.info().kv_groups, runner.info().limits);
  ScopedPages sequence(pages);
  std::vector<int32_t> tokens = request.prompt;
  SamplingParams sampling = request.sampling;
  sampling.seed = sample_seed(sampling.seed, sample);
  std::vector<int32_t> ending = request.stop_tokens;
  if (!request.ignore_eos) ending.insert(ending.end(), options.eos_tokens.begin(), options.eos_tokens.end());
  int cached = 0;
  while (static_cast<int>(reply.tokens.size()) < request.max_tokens &&
         static_cast<int>(tokens.size()) < context) {
    std::vector<float> logits = logits_after(runner, pages, sequence, tokens, cached);
    cached = static_cast<int>(tokens.size());
    const std::vector<float> plain = logits;
    std::vector<int32_t> suppressed = options.suppressed_tokens;
    if (static_cast<int>(reply.tokens.size()) < request.min_tokens)
      suppressed.insert(suppressed.end(), ending.begin(), ending.end());
    std::vector<uint32_t> allowed;
    if (request.mask) {
      allowed.resize(logits.size() / 32 + 1);
      request.mask->allow_after(reply.tokens, allowed);
    }
    const int32_t token = carat::sample(logits, {&sampling, cached, tokens, suppressed,
                                                 static_cast<int32_t>(request.prompt.size()), allowed});
    if (token < 0) {
      reply.finish = FinishReason::error;
      return reply;
    }
    tokens.push_back(token);
    reply.tokens.push_back(token);
    if (request.logprobs) reply.logprobs.push_back(logprobs_of(plain, token, *request.logprobs));
    if (std::ranges::count(ending, token) > 0) {
      reply.finish = FinishReason::stop;
      return reply;
    }
  }
  return reply;
}

}  // namespace carat
