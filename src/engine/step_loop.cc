#include "engine/step_loop.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <sstream>

#include "engine/logprobs.h"

namespace carat {

StepLoop::StepLoop(Runner& runner, std::shared_ptr<const Tokenizer> tokenizer, const EngineOptions& options,
                   int max_context)
    : runner_(runner),
      tokenizer_(std::move(tokenizer)),
      options_(options),
      max_context_(max_context),
      pages_(runner.info().kv_groups, runner.info().limits,
             options.prefix_cache ? KeepPrefixes::yes : KeepPrefixes::no),
      drafter_(runner),
      scheduler_(pages_, runner.info().limits, {options.slowdown, options.draft_batch},
                 options.draft == DraftMethod::model ? &drafter_ : nullptr) {}

void StepLoop::add(std::shared_ptr<const Submission> submission) {
  const Request& request = submission->request;
  const int prompt = static_cast<int>(request.prompt.size());
  const int reply = std::min(request.max_tokens, max_context_ - prompt);
  for (int sample = 0; sample < request.samples; ++sample) {
    const int64_t serial = next_serial_++;
    ReplyStream stream(request, tokenizer_, options_.eos_tokens, reply);
    auto sequence = std::make_unique<Sequence>(
        Sequence{.submission = submission,
                 .sample = sample,
                 .rank = {serial - int64_t{kPriorityStep} * request.priority, serial},
                 .sampling = request.sampling,
                 .tokens = request.prompt,
                 .prompt_tokens = prompt,
                 .limit = prompt + reply,
                 .stream = std::move(stream),
                 .drafter = make_drafter(options_.draft),
                 .draft_length = DraftLength(options_.draft_tokens)});
    sequence->sampling.seed = sample_seed(request.sampling.seed, sample);
    sequence->usage.prompt_tokens = prompt;
    if (request.min_tokens > 0) {
      sequence->held_off = options_.suppressed_tokens;
      const std::vector<int32_t>& ending = sequence->stream.ending_tokens();
      sequence->held_off.insert(sequence->held_off.end(), ending.begin(), ending.end());
    }
    Sequence& added = *sequence;
    scheduler_.add(std::move(sequence));
    if (reply == 0) end(added, FinishReason::length, "", {});
  }
}

void StepLoop::step() {
  end_cancelled();
  copies_.clear();
  std::vector<StepShare> shares = scheduler_.plan(copies_);
  if (shares.empty()) return;
  const auto start = std::chrono::steady_clock::now();
  if (!copies_.empty()) runner_.copy_pages(copies_);
  builder_.clear();
  masks_.clear();
  std::vector<std::size_t> rows;  // with a drawn token, per share
  for (const StepShare& share : shares) {
    rows.push_back(share.draws() ? 1 + share.drafts.size() : 0);
    add_to_step(share);
  }
  drafter_.begin_step();
  runner_.submit(builder_.input());
  const StepResult result = runner_.collect();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  scheduler_.step_took(took.count());
  ++totals_.steps;

  const std::size_t vocab = runner_.info().vocab;
  std::size_t row = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const std::span<const float> logits =
        result.logits.empty() ? result.logits : result.logits.subspan(row * vocab, rows[i] * vocab);
    accept(shares[i], static_cast<int>(row), std::span(result.tokens).subspan(row, rows[i]), logits);
    row += rows[i];
  }
}

void StepLoop::add_to_step(const StepShare& share) {
  Sequence& sequence = *share.sequence;
  const bool draws = share.draws();
  std::vector<int32_t>& tokens = sequence.tokens;
  tokens.insert(tokens.end(), share.drafts.begin(), share.drafts.end());  // until the step is done
  const int first_row = builder_.add(std::span(tokens).subspan(sequence.cached, share.tokens()),
                                     sequence.cached, sequence.pages);
  if (draws) ask_for_tokens(share, first_row + share.count - 1);
}

/// One token for the row of the last token and one for each draft's row, each as if the drafts before it were
/// the reply.
void StepLoop::ask_for_tokens(const StepShare& share, int first_row) {
  Sequence& sequence = *share.sequence;
  const Request& request = sequence.request();
  const std::span<const int32_t> tokens = sequence.tokens;  // the drafts included
  const std::size_t drafts = share.drafts.size();
  for (std::size_t i = 0; i <= drafts; ++i) {
    const std::span<const int32_t> history = tokens.first(tokens.size() - drafts + i);
    const std::span<const int32_t> reply = history.subspan(sequence.prompt_tokens);
    const bool may_end = std::ssize(reply) >= request.min_tokens;
    RowSampling how{.params = &sequence.sampling,
                    .position = static_cast<int32_t>(history.size()),
                    .history = history,
                    .suppressed = may_end ? options_.suppressed_tokens : sequence.held_off,
                    .prompt_tokens = sequence.prompt_tokens};
    if (request.mask) how.allowed = mask_after(sequence, reply);
    builder_.want_token(first_row + static_cast<int>(i), how);
  }
  if (request.logprobs) builder_.return_logits();
}

std::span<const uint32_t> StepLoop::mask_after(Sequence& sequence, std::span<const int32_t> reply) {
  std::vector<uint32_t>& mask = masks_.emplace_back(runner_.info().vocab / 32 + 1);
  try {
    sequence.request().mask->allow_after(reply, mask);
  } catch (const std::exception& error) {
    sequence.failure = error.what();
  }
  return mask;
}

/// The drafts are accepted as far as they are the tokens that were drawn; what was drawn behind the first
/// other one followed a text that isn't the reply.
void StepLoop::accept(const StepShare& share, int first_row, std::span<const int32_t> drawn,
                      std::span<const float> logits) {
  Sequence& sequence = *share.sequence;
  const std::size_t vocab = runner_.info().vocab;
  const int prompt_left = std::max(0, sequence.prompt_tokens - sequence.cached);
  totals_.prompt_tokens += std::min(share.count, prompt_left);
  sequence.tokens.resize(sequence.tokens.size() - share.drafts.size());
  sequence.cached += share.count;
  int accepted = 0;
  Event last;
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    drafter_.drawn(sequence, first_row + static_cast<int>(i));
    Event event = event_for(sequence, drawn[i], logits.empty() ? logits : logits.subspan(i * vocab, vocab));
    const bool as_drafted = i < share.drafts.size() && drawn[i] == share.drafts[i];
    if (as_drafted) {
      ++accepted;
      ++sequence.cached;
    }
    if (event.finish) last = std::move(event);
    if (last.finish) break;
    post(sequence, std::move(event));
    if (!as_drafted) break;
  }
  const int drafted = static_cast<int>(share.drafts.size());
  sequence.draft_length.report(drafted, accepted);
  sequence.usage.drafted_tokens += drafted;
  sequence.usage.accepted_tokens += accepted;
  scheduler_.complete(sequence);
  if (last.finish) {
    const Finish finish = *last.finish;
    end(sequence, finish.reason, finish.error, std::move(last));
  }
}

/// Appends the token to the sequence. The event has a `finish` when the reply ends with it.
Event StepLoop::event_for(Sequence& sequence, int32_t token, std::span<const float> logits) {
  Event event;
  event.drawn_s = sequence.submission->elapsed_s();
  if (token < 0 || !sequence.failure.empty()) {
    const std::string error = sequence.failure.empty() ? no_token_message(sequence) : sequence.failure;
    event.finish = Finish{.reason = FinishReason::error, .error = error, .usage = {}};
    return event;
  }
  if (sequence.reply_tokens() == 0) sequence.first_token_s = event.drawn_s;
  sequence.tokens.push_back(token);
  ReplyStream::Piece piece = sequence.stream.push(token);
  event.token = token;
  event.text = std::move(piece.text);
  if (const auto best = sequence.request().logprobs) event.logprobs = logprobs_of(logits, token, *best);
  if (piece.end) event.finish = Finish{.reason = *piece.end, .error = {}, .usage = {}};
  return event;
}

std::string StepLoop::no_token_message(const Sequence& sequence) const {
  std::ostringstream message;
  message << "the logits after " << sequence.tokens.size()
          << " tokens are not finite (NaN or infinity) on device " << runner_.info().device
          << "; the checkpoint's weights are damaged or overflow there";
  if (sequence.request().mask) message << ", or the mask allows no token";
  return message.str();
}

void StepLoop::end_cancelled() {
  for (Sequence* sequence : scheduler_.sequences()) {
    const Submission& submission = *sequence->submission;
    if (submission.cancelled.load(std::memory_order_relaxed) ||
        submission.cancelled_samples[sequence->sample].load(std::memory_order_relaxed))
      end(*sequence, FinishReason::cancelled, "", {});
  }
}

void StepLoop::end_all(FinishReason reason, const std::string& error) {
  for (Sequence* sequence : scheduler_.sequences()) end(*sequence, reason, error, {});
}

/// Posts `event` as the sequence's last, and forgets the sequence.
void StepLoop::end(Sequence& sequence, FinishReason reason, const std::string& error, Event event) {
  const bool text_held_back = reason == FinishReason::error || reason == FinishReason::cancelled;
  if (text_held_back) event.text += sequence.stream.rest();
  sequence.usage.reply_tokens = sequence.reply_tokens();
  totals_.cached_tokens += sequence.usage.cached_tokens;
  totals_.reply_tokens += sequence.usage.reply_tokens;
  totals_.drafted_tokens += sequence.usage.drafted_tokens;
  totals_.accepted_tokens += sequence.usage.accepted_tokens;
  event.finish = Finish{.reason = reason,
                        .error = error,
                        .usage = sequence.usage,
                        .queued_s = std::max(0., sequence.queued_s),
                        .first_token_s = sequence.first_token_s,
                        .total_s = sequence.submission->elapsed_s()};
  post(sequence, std::move(event));
  scheduler_.remove(sequence);
}

void StepLoop::post(const Sequence& sequence, Event event) {
  event.request = sequence.submission->index;
  event.sample = sequence.sample;
  const std::shared_ptr<Outbox>& outbox = sequence.submission->outbox;
  if (outgoing_.empty() || outgoing_.back().first != outbox) outgoing_.push_back({outbox, {}});
  outgoing_.back().second.push_back(std::move(event));
}

EngineStats StepLoop::stats() const {
  EngineStats stats = totals_;
  stats.running = scheduler_.running();
  stats.waiting = scheduler_.waiting();
  stats.preemptions = scheduler_.preemptions();
  for (int g = 0; g < kKvGroups; ++g) {
    stats.free_pages[g] = pages_.free_pages(g);
    stats.total_pages[g] = pages_.total_pages(g);
  }
  return stats;
}

}  // namespace carat
