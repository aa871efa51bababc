// Checks requests before anything runs, and is the bridge between callers and the engine's thread; the work
// is done by step_loop.cc.
#include "engine/engine.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/error.h"
#include "engine/sampling_weight.h"
#include "text/stream_decoder.h"

namespace carat {
namespace {

std::unique_ptr<Runner> checked(std::unique_ptr<Runner> runner, const EngineOptions& options) {
  CHECK(runner != nullptr);
  const RunnerOptions& limits = runner->info().limits;
  const auto positive = [](const char* what, int value) {
    if (value < 1) fail(ErrorKind::invalid_argument, what, " is ", value, ", must be at least 1");
  };
  positive("tokens per KV page", limits.page_tokens);
  positive("tokens per step", limits.max_step_tokens);
  positive("number of sequences", limits.max_sequences);
  if (runner->info().vocab > kMostSampledTokens)
    fail(ErrorKind::unsupported, "a vocabulary of ", runner->info().vocab, ": tokens are drawn from up to ",
         kMostSampledTokens);
  if (options.draft == DraftMethod::model && !runner->info().drafts) {
    fail(ErrorKind::unsupported, "the device ", runner->info().device,
         " has no drafter model; draft with ngram or suffix, or not at all");
  }
  return runner;
}

/// What fits alone.
int longest_context(const RunnerInfo& info, int max_positions) {
  const KvPages pages(info.kv_groups, info.limits);
  const int longest = pages.longest_sequence(max_positions);
  if (longest > 1) return longest;
  fail(ErrorKind::invalid_argument, "no sequence fits: the model has ", max_positions, " positions, and ",
       pages.total_pages(kFullGroup), " + ", pages.total_pages(kSlidingGroup),
       " pages of KV memory are too few for steps of ", info.limits.max_step_tokens, " tokens");
}

void require_between(const char* what, int value, int least, int most) {
  if (value < least || value > most)
    fail(ErrorKind::invalid_argument, what, " is ", value, ", must be between ", least, " and ", most);
}

/// The reply of a request whose callback wanted no more of it.
void end_by_caller(Reply& reply, const Request& request, std::shared_ptr<const Tokenizer> tokenizer) {
  reply.finish = FinishReason::cancelled;
  reply.usage.reply_tokens = static_cast<int>(reply.tokens.size());
  if (!tokenizer) return;
  StreamDecoder decoder(std::move(tokenizer), request.stop, /*skip_special=*/true);
  reply.text.clear();
  for (const int32_t token : reply.tokens) reply.text += decoder.push(token);
  reply.text += decoder.finish();
}

void append(Reply& reply, Event& event) {
  reply.text += event.text;
  if (event.logprobs) reply.logprobs.push_back(std::move(*event.logprobs));
  if (event.token >= 0) reply.tokens.push_back(event.token);
}

void finish(Reply& reply, const Finish& end) {
  reply.finish = end.reason;
  reply.error = end.error;
  reply.usage = end.usage;
  reply.first_token_s = end.first_token_s;
  reply.total_s = end.total_s;
}

}  // namespace

RequestHandle::RequestHandle(std::vector<std::shared_ptr<Submission>> submissions)
    : submissions_(std::move(submissions)) {}

RequestHandle& RequestHandle::operator=(RequestHandle&& other) noexcept {
  cancel();
  submissions_ = std::move(other.submissions_);
  return *this;
}

std::optional<Event> RequestHandle::next(std::optional<std::chrono::milliseconds> patience) {
  if (submissions_.empty()) return std::nullopt;
  return submissions_.front()->outbox->next(patience);
}

bool RequestHandle::finished() const {
  return submissions_.empty() || submissions_.front()->outbox->finished();
}

void RequestHandle::cancel() {
  for (const auto& submission : submissions_) submission->cancelled = true;
}

Engine::Engine(std::unique_ptr<Runner> runner, std::shared_ptr<const Tokenizer> tokenizer,
               EngineOptions options)
    : runner_(checked(std::move(runner), options)),
      tokenizer_(std::move(tokenizer)),
      options_(std::move(options)),
      max_context_(longest_context(runner_->info(), options_.max_positions)),
      inbox_(std::max(0, options_.max_waiting) + runner_->info().limits.max_sequences),
      loop_(*runner_, tokenizer_, options_, max_context_) {
  inbox_.publish(loop_.stats(), 0);
  thread_ = std::thread([this] { serve(); });
}

Engine::~Engine() {
  inbox_.stop();
  thread_.join();
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
  const auto unknown = [&](int32_t id) { return id < 0 || id >= vocab; };
  const auto wrong = std::ranges::find_if(request.prompt, unknown);
  if (wrong != request.prompt.end()) {
    fail(ErrorKind::invalid_argument, "token id ", *wrong, " at position ", wrong - request.prompt.begin(),
         " of the prompt is not in the model's vocabulary of ", vocab);
  }
  const auto require_known = [&](const char* where, int32_t id) {
    if (unknown(id))
      fail(ErrorKind::invalid_argument, where, ": token id ", id, " is not in the model's vocabulary of ",
           vocab);
  };
  for (const int32_t id : request.stop_tokens) require_known("stop_tokens", id);
  for (const TokenBias& bias : request.sampling.logit_bias) require_known("logit_bias", bias.token);
  if (request.max_tokens < 0) {
    fail(ErrorKind::invalid_argument, "max_tokens is ", request.max_tokens, ", must be >= 0");
  }
  require_between("min_tokens", request.min_tokens, 0, request.max_tokens);
  require_between("samples", request.samples, 1, kMostSamples);
  require_between("priority", request.priority, -kMostPriority, kMostPriority);
  if (request.logprobs) require_between("logprobs", *request.logprobs, 0, kMostLogprobs);
  if (!request.stop.empty() && !tokenizer_) {
    fail(ErrorKind::invalid_argument, "stop strings need a tokenizer, and this engine has none");
  }
  if (tokenizer_) StreamDecoder(tokenizer_, request.stop, true);  // refuses stop strings that can't occur
  request.sampling.validate();
}

RequestHandle Engine::post(std::vector<Request> requests, std::function<void()> notify, Inbox::Limit limit) {
  int replies = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    try {
      require_valid(requests[i]);
    } catch (const Error& error) {
      if (requests.size() == 1) throw;
      fail(error.kind(), "request ", i, ": ", error.what());
    }
    replies += requests[i].samples;
  }
  const auto outbox = std::make_shared<Outbox>(replies, std::move(notify));
  Inbox::Submissions submissions;
  for (Request& request : requests) {
    submissions.push_back(std::make_shared<Submission>(std::move(request), submissions.size(), outbox));
  }
  inbox_.post(submissions, limit);
  return RequestHandle(std::move(submissions));
}

RequestHandle Engine::submit(std::vector<Request> requests, std::function<void()> notify) {
  return post(std::move(requests), std::move(notify), Inbox::Limit::most);
}

RequestHandle Engine::submit(Request request, std::function<void()> notify) {
  std::vector<Request> one;
  one.push_back(std::move(request));
  return submit(std::move(one), std::move(notify));
}

std::vector<Reply> Engine::generate(std::span<const Request> requests,
                                    const std::function<bool(const TokenEvent&)>& on_token) {
  RequestHandle handle = post({requests.begin(), requests.end()}, {}, Inbox::Limit::none);
  std::vector<std::size_t> first;  // reply of each request
  std::size_t replies_wanted = 0;
  for (const Request& request : requests) {
    first.push_back(replies_wanted);
    replies_wanted += static_cast<std::size_t>(request.samples);
  }
  std::vector<Reply> replies(replies_wanted);
  std::vector<bool> unwanted(replies_wanted);
  try {
    while (std::optional<Event> event = handle.next()) {
      const std::size_t index = first[event->request] + static_cast<std::size_t>(event->sample);
      Reply& reply = replies[index];
      if (!unwanted[index]) append(reply, *event);
      if (event->finish) finish(reply, *event->finish);
      if (event->token >= 0 && !unwanted[index] && on_token &&
          !on_token({event->request, event->token, std::move(event->text), event->sample, event->drawn_s})) {
        unwanted[index] = !event->finish;
        handle.cancel(event->request);
      }
      if (event->finish && unwanted[index]) end_by_caller(reply, requests[event->request], tokenizer_);
    }
  } catch (...) {
    handle.cancel();
    while (handle.next()) {
    }
    throw;
  }
  if (const std::string device = failure(); !device.empty()) fail(ErrorKind::device, device);
  return replies;
}

Reply Engine::generate(const Request& request, const std::function<bool(const TokenEvent&)>& on_token) {
  return std::move(generate(std::span(&request, 1), on_token).front());
}

bool Engine::drain(std::chrono::milliseconds patience) {
  inbox_.close();
  return inbox_.wait_until_empty(patience);
}

/// The engine's thread. A device that failed is of no use any more: everything ends, now and later.
void Engine::serve() {
  try {
    runner_->enter_thread();
    while (serve_arrivals()) loop_.step();
  } catch (const std::exception& error) {
    inbox_.fail_with(error.what());
    for (auto& submission : inbox_.take(/*idle=*/false).submissions) loop_.add(std::move(submission));
    loop_.end_all(FinishReason::error, error.what());
    deliver();
  }
}

/// Between two steps: what the last one brought goes out, what has arrived comes in. False when the engine is
/// to stop.
bool Engine::serve_arrivals() {
  deliver();
  Inbox::Arrivals arrivals = inbox_.take(loop_.idle());
  for (auto& submission : arrivals.submissions) loop_.add(std::move(submission));
  if (!arrivals.stop) return true;
  loop_.end_all(FinishReason::cancelled, "");
  deliver();
  return false;
}

/// Whoever has read an event can rely on stats() to know of it.
void Engine::deliver() {
  StepLoop::Outgoing outgoing = loop_.take_events();
  std::ptrdiff_t ended = 0;
  for (const auto& [outbox, events] : outgoing) {
    ended += std::ranges::count_if(events, [](const Event& event) { return event.finish.has_value(); });
  }
  inbox_.publish(loop_.stats(), static_cast<int>(ended));
  for (auto& [outbox, events] : outgoing) outbox->post(std::move(events));
}

}  // namespace carat
