#include "server/reply_pump.h"

#include <algorithm>
#include <utility>

namespace carat {

using std::chrono::steady_clock;

ReplyPump::ReplyPump(std::shared_ptr<const ServedModel> model, std::unique_ptr<ReplySink> sink)
    : model_(std::move(model)), sink_(std::move(sink)), last_sent_(steady_clock::now().time_since_epoch()) {}

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
  {
    const std::lock_guard lock(handle_mutex_);
    handle_ = std::move(handle);
  }
  sink_->begin();
  exchange.on_disconnect([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->cancel();
  });
  model_->post([self = shared_from_this()] { self->run(); });
}

/// Whoever wakes a sleeping pump has it run; otherwise it is running already and will look again.
void ReplyPump::wake() {
  if (wakes_.fetch_add(1) == 0) model_->post([self = shared_from_this()] { self->run(); });
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
  sent_ = false;
  while (std::optional<Event> event = handle_.next(std::chrono::milliseconds(0))) take(*std::move(event));
  done_ = handle_.finished();
  if (done_ && !failed_) {
    sink_->finish();
  } else if (!done_) {
    if (ping_due_.exchange(false) && !sent_ && !failed_) {
      sink_->ping();
      sent_ = true;
    }
    if (!failed_) sink_->flush();
  }
  if (sent_) last_sent_ = steady_clock::now().time_since_epoch();
  if (!done_) return;
  const std::lock_guard lock(handle_mutex_);
  handle_ = RequestHandle();
}

void ReplyPump::take(Event event) {
  const std::size_t request = event.request;
  const int sample = event.sample;
  ReplyChoice& choice = choices_.at(first_choice_[request] + static_cast<std::size_t>(sample));
  if (event.finish && !failed_) {
    const bool broken = event.finish->reason == FinishReason::error;
    const bool lost = event.finish->reason == FinishReason::cancelled && !choice.wants_no_more();
    if (broken || lost) {
      failed_ = true;
      sink_->fail(broken ? ApiError(500, "server_error", "", "", event.finish->error)
                         : ApiError(503, "server_error", "", "cancelled", "the reply was cancelled"));
      cancel();
    }
  }
  if (failed_) return;
  const bool ended = event.finish.has_value();
  std::optional<ReplyDelta> delta = choice.read(std::move(event));
  if (choice.wants_no_more() && !ended) handle_.cancel(request, sample);
  if (!delta) return;
  sink_->add(*std::move(delta));
  sent_ = true;
}

void ReplyPump::cancel() {
  const std::lock_guard lock(handle_mutex_);
  handle_.cancel();
}

void ReplyPump::ping_if_silent_since(steady_clock::time_point before) {
  if (last_sent_.load() > before.time_since_epoch()) return;
  ping_due_ = true;
  wake();
}

ReplyPings::ReplyPings(std::chrono::milliseconds ping_after)
    : ping_after_(ping_after), thread_([this] { look(); }) {}

ReplyPings::~ReplyPings() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopping_.notify_one();
  thread_.join();
}

void ReplyPings::watch(const std::shared_ptr<ReplyPump>& pump) {
  const std::lock_guard lock(mutex_);
  pumps_.push_back(pump);
}

void ReplyPings::look() {
  const auto pause = std::max(ping_after_ / 4, std::chrono::milliseconds(1));
  std::unique_lock lock(mutex_);
  while (!stopping_.wait_for(lock, pause, [this] { return stop_; })) {
    const auto before = steady_clock::now() - ping_after_;
    std::erase_if(pumps_, [](const auto& pump) { return pump.expired(); });
    for (const auto& each : pumps_)
      if (const auto pump = each.lock()) pump->ping_if_silent_since(before);
  }
}

void answer(const ApiContext& context, std::vector<ReplyOrder> orders, std::unique_ptr<ReplySink> sink,
            HttpExchange& exchange) {
  const auto pump = std::make_shared<ReplyPump>(context.model, std::move(sink));
  pump->start(std::move(orders), exchange);
  context.pings->watch(pump);
}

}  // namespace carat
