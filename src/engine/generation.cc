// A request is admitted only when the pages of its longest possible course are free, so nothing that runs can
// be stopped by another request's need.
#include "engine/generation.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "base/error.h"

namespace carat {

Generation::Sequence::Sequence(const GenerationContext& context, const Request& its_request,
                               std::size_t its_index, int its_limit)
    : request(its_request),
      index(its_index),
      tokens(its_request.prompt),
      limit(its_limit),
      pages(context.pages) {
  if (context.tokenizer) decoder.emplace(context.tokenizer, request.stop, /*skip_special=*/true);
}

Generation::Generation(const GenerationContext& context, std::span<const Request> requests,
                       const std::function<bool(const TokenEvent&)>& on_token)
    : context_(context), requests_(requests), on_token_(on_token), replies_(requests.size()) {}

std::vector<Reply> Generation::run() {
  for (admit(); !running_.empty(); admit()) {
    step();
    remove_ended();
  }
  CHECK(next_ == requests_.size());  // each fits while nothing else runs; see Engine::max_context()
  return std::move(replies_);
}

/// In order of arrival: a large request that has to wait is never overtaken, so it can't starve.
void Generation::admit() {
  const RunnerOptions& limits = context_.runner.info().limits;
  // Each running sequence must find room for its decode token in every step.
  const std::size_t most = std::min(limits.max_sequences, limits.max_step_tokens);
  for (; next_ < requests_.size(); ++next_) {
    const Request& request = requests_[next_];
    if (request.max_tokens == 0) continue;
    const int prompt = static_cast<int>(request.prompt.size());
    const int limit = prompt + std::min(request.max_tokens, context_.max_context - prompt);
    if (running_.size() >= most || !fits(limit)) return;
    reserve(limit, +1);
    running_.push_back(std::make_unique<Sequence>(context_, request, next_, limit));
  }
}

bool Generation::fits(int limit) const {
  const KvPages& pages = context_.pages;
  for (int g = 0; g < kKvGroups; ++g) {
    if (reserved_[g] + pages.reserved_pages(g, limit) + pages.step_pages(g) > pages.total_pages(g))
      return false;
  }
  return true;
}

void Generation::reserve(int limit, int sign) {
  for (int g = 0; g < kKvGroups; ++g) reserved_[g] += sign * context_.pages.reserved_pages(g, limit);
}

/// Sequences that decode come first: a long prompt may slow them down, but never stops them. Prompts share
/// the rest in order of arrival.
void Generation::step() {
  builder_.clear();
  in_step_.clear();
  for (const bool decoding : {true, false}) {
    for (const auto& sequence : running_) {
      if ((sequence->pending() == 1) == decoding) add_to_step(*sequence);
    }
  }
  context_.runner.submit(builder_.input());
  const StepResult result = context_.runner.collect();

  std::size_t drawn = 0;
  for (Sequence* sequence : in_step_) {
    sequence->cached += sequence->in_step;
    context_.pages.release_behind_window(sequence->pages, sequence->cached);
    if (sequence->pending() == 0) accept(*sequence, result.tokens.at(drawn++));
  }
}

void Generation::add_to_step(Sequence& sequence) {
  const int room = context_.runner.info().limits.max_step_tokens - builder_.tokens();
  sequence.in_step = std::min(sequence.pending(), room);
  if (sequence.in_step == 0) return;
  CHECK(context_.pages.extend(sequence.pages, sequence.cached, sequence.in_step));
  const std::span<const int32_t> tokens = sequence.tokens;
  const int first =
      builder_.add(tokens.subspan(sequence.cached, sequence.in_step), sequence.cached, sequence.pages);
  if (sequence.in_step == sequence.pending()) {
    builder_.want_token(first + sequence.in_step - 1,
                        {&sequence.request.sampling, static_cast<int32_t>(tokens.size()), tokens,
                         context_.options.suppressed_tokens});
  }
  in_step_.push_back(&sequence);
}

void Generation::accept(Sequence& sequence, int32_t token) {
  Reply& reply = replies_[sequence.index];
  if (token < 0) {
    std::ostringstream message;
    message << "the logits after " << sequence.tokens.size()
            << " tokens are not finite (NaN or infinity) on device " << context_.runner.info().device
            << "; the checkpoint's weights are damaged or overflow there";
    reply.error = message.str();
    return end(sequence, FinishReason::error);
  }
  sequence.tokens.push_back(token);
  reply.tokens.push_back(token);
  if (reply.tokens.size() == 1) reply.first_token_s = elapsed_s();

  const auto& eos = context_.options.eos_tokens;
  const bool is_eos = !sequence.request.ignore_eos && std::ranges::find(eos, token) != eos.end();
  TokenEvent event{sequence.index, token, {}};
  bool stop = is_eos;
  if (sequence.decoder && !is_eos) {
    event.text = sequence.decoder->push(token);
    stop = sequence.decoder->stopped();
  }
  const bool last = stop || static_cast<int>(sequence.tokens.size()) == sequence.limit;
  if (sequence.decoder && last) {
    event.text += sequence.decoder->finish();
    stop |= sequence.decoder->stopped();  // bytes held back may turn out to complete a stop string
  }
  reply.text += event.text;
  const bool wanted = !on_token_ || on_token_(event);
  if (last) {
    end(sequence, stop ? FinishReason::stop : FinishReason::length);
  } else if (!wanted) {
    end(sequence, FinishReason::cancelled);
  }
}

void Generation::end(Sequence& sequence, FinishReason reason) {
  Reply& reply = replies_[sequence.index];
  const bool text_held_back = reason == FinishReason::error || reason == FinishReason::cancelled;
  if (sequence.decoder && text_held_back) reply.text += sequence.decoder->finish();
  reply.finish = reason;
  reply.total_s = elapsed_s();
  sequence.ended = true;
}

void Generation::remove_ended() {
  std::erase_if(running_, [&](const std::unique_ptr<Sequence>& sequence) {
    if (sequence->ended) reserve(sequence->limit, -1);
    return sequence->ended;
  });
}

double Generation::elapsed_s() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

}  // namespace carat
