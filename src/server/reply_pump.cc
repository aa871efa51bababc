#include "server/reply_pump.h"

#include <chrono>
#include <utility>

namespace carat {

ReplyPump::ReplyPump(std::shared_ptr<const ServedModel> model, std::unique_ptr<ReplySink> sink)
    : model_(std::move(model)), sink_(std::move(sink)), post_(model_->post) {}

void ReplyPump::start(std::vector<ReplyOrder> orders, HttpExchange& exchange) {
  std::vector<Request> requests;
  for (ReplyOrder& order : orders) {
    first_choice_.push_back(choices_.size());
    for (int sample = 0; sample < order.request.samples; ++sample)
      choices_.emplace_back(choices_.size(), order.reading, order.request.prompt);
    requests.push_back(std::move(order.request));
  }
  // The engine holds the pump by this function until the pump lets go of the handle.
  RequestHandle handle =
      model_->engine->submit(std::move(requests), [self = shared_from_this()] { self->wake(); });
  if (model_->metrics) metrics_.emplace(*model_->metrics, static_cast<int>(choices_.size()));
  {
    const std::lock_guard lock(handle_mutex_);
    handle_ = std::move(handle);
  }
  sink_->begin();
  exchange.on_disconnect([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->cancel();
  });
  post_([self = shared_from_this()] { self->run(); });
}

/// Whoever wakes a sleeping pump has it run; otherwise it is running already and will look again.
void ReplyPump::wake() {
  if (wakes_.fetch_add(1) == 0) post_([self = shared_from_this()] { self->run(); });
}

void ReplyPump::run() {
  int seen = 0;
  do {
    seen = wakes_.load();
    drain();
  } while (wakes_.fetch_sub(seen) != seen);
}

void ReplyPump::drain() {
  if (done_) return;
  while (std::optional<Event> event = handle_.next(std::chrono::milliseconds(0))) take(*std::move(event));
  done_ = handle_.finished();
  if (!failed_) done_ ? sink_->finish() : sink_->flush();
  if (!done_) return;
  {
    const std::lock_guard lock(handle_mutex_);
    handle_ = RequestHandle();
  }
  metrics_.reset();
  sink_.reset();
  model_.reset();
}

void ReplyPump::take(Event event) {
  const std::size_t request = event.request;
  const int sample = event.sample;
  ReplyChoice& choice = choices_.at(first_choice_[request] + static_cast<std::size_t>(sample));
  if (event.finish && event.finish->reason == FinishReason::cancelled && choice.wants_no_more())
    event.finish->reason = FinishReason::stop;
  if (metrics_) metrics_->observe(event);
  if (failed_) return;
  if (event.finish && event.finish->reason == FinishReason::error)
    return fail({500, "", "", event.finish->error});
  if (event.finish && event.finish->reason == FinishReason::cancelled)
    return fail({503, "", "cancelled", "the reply was cancelled"});
  const bool ended = event.finish.has_value();
  std::optional<ReplyDelta> delta = choice.read(std::move(event));
  if (choice.wants_no_more() && !ended) handle_.cancel(request, sample);
  if (delta) sink_->add(*std::move(delta));
}

void ReplyPump::fail(const ApiError& error) {
  failed_ = true;
  sink_->fail(error);
  cancel();
}

void ReplyPump::cancel() {
  const std::lock_guard lock(handle_mutex_);
  handle_.cancel();
}

void answer(const std::shared_ptr<const ServedModel>& model, std::vector<ReplyOrder> orders,
            std::unique_ptr<ReplySink> sink, HttpExchange& exchange) {
  std::make_shared<ReplyPump>(model, std::move(sink))->start(std::move(orders), exchange);
}

}  // namespace carat
