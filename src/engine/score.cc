#include "engine/score.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "engine/step_builder.h"

namespace carat {
namespace {

void require_valid(const RunnerInfo& info, const KvPages& pages, std::span<const int32_t> tokens, int chunk) {
  if (chunk < 1) fail(ErrorKind::invalid_argument, "chunk is ", chunk, ", must be at least 1");
  const int count = static_cast<int>(tokens.size()), most = pages.longest_sequence(count);
  if (most < count) {
    fail(ErrorKind::invalid_argument, "the text has ", count, " tokens, but the KV memory holds ", most);
  }
  for (const int32_t token : tokens) {
    if (token < 0 || token >= info.vocab) {
      fail(ErrorKind::invalid_argument, "token id ", token, " is not in the vocabulary of ", info.vocab);
    }
  }
}

}  // namespace

void score(Runner& runner, KvPages& pages, std::span<const int32_t> tokens, int chunk,
           const std::function<void(int position, std::span<const float> logits)>& row) {
  const RunnerInfo& info = runner.info();
  require_valid(info, pages, tokens, chunk);
  const int total = static_cast<int>(tokens.size()),
            step_tokens = std::min(chunk, info.limits.max_step_tokens);
  ScopedPages sequence(pages);
  StepBuilder builder;
  for (int past = 0; past < total; past += step_tokens) {
    const int count = std::min(step_tokens, total - past);
    if (!pages.extend(sequence, past, count)) {
      fail(ErrorKind::unavailable, "KV pages ran out at token ", past, "; another sequence holds some");
    }
    builder.clear();
    builder.add(tokens.subspan(past, count), past, sequence);
    for (int i = 0; i < count; ++i) builder.want_logits(i);
    runner.submit(builder.input());
    const std::span<const float> logits = runner.collect().logits;
    const std::size_t vocab = info.vocab;
    for (int i = 0; i < count; ++i) {
      const std::span<const float> one = logits.subspan(i * vocab, vocab);
      if (!std::ranges::all_of(one, [](float logit) { return std::isfinite(logit); })) {
        fail(ErrorKind::corrupt, "the logits after ", past + i + 1,
             " tokens are not finite (NaN or infinity) on device ", info.device,
             "; the checkpoint's weights are damaged or overflow there");
      }
      row(past + i, one);
    }
    pages.release_behind_window(sequence, past + count);
  }
}

}  // namespace carat
