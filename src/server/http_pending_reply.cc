#include "server/http_pending_reply.h"

#include <utility>

#include "server/http_error.h"

namespace carat {

class PendingReply::Exchange final : public HttpExchange {
 public:
  explicit Exchange(std::shared_ptr<PendingReply> reply) : reply_(std::move(reply)) {}
  ~Exchange() override { reply_->drop(); }

  void respond(HttpResponse response) override { reply_->respond(std::move(response)); }
  void begin_stream(HttpResponse head) override { reply_->begin_stream(std::move(head)); }
  void write(std::string bytes) override { reply_->write(std::move(bytes)); }
  void end() override { reply_->end(false); }
  void abort() override { reply_->end(true); }
  std::size_t unsent_bytes() const override { return reply_->unsent_bytes(); }
  void on_disconnect(std::function<void()> gone) override { reply_->on_disconnect(std::move(gone)); }

 private:
  const std::shared_ptr<PendingReply> reply_;
};

PendingReply::Output PendingReply::Output::whole(HttpResponse response) {
  Output output;
  output.bytes = std::exchange(response.body, {});
  output.head = std::move(response);
  output.ended = true;
  return output;
}

PendingReply::PendingReply(std::function<void()> wake, std::size_t most_unsent_bytes)
    : wake_(std::move(wake)), most_unsent_bytes_(most_unsent_bytes) {}

std::shared_ptr<HttpExchange> PendingReply::make_exchange() {
  return std::make_shared<Exchange>(shared_from_this());
}

void PendingReply::respond(HttpResponse response) {
  std::function<void()> unneeded;  // goes without the lock: it may hold the last exchange
  const std::lock_guard lock(mutex_);
  if (!wake_ || stage_ != Stage::nothing) return;
  unsent_bytes_ = response.body.size();
  next_ = Output::whole(std::move(response));
  unneeded = std::exchange(gone_, nullptr);
  end_locked(false);
}

void PendingReply::begin_stream(HttpResponse head) {
  const std::lock_guard lock(mutex_);
  if (!wake_ || stage_ != Stage::nothing) return;
  stage_ = Stage::stream;
  unsent_bytes_ = head.body.size();
  next_.bytes = std::exchange(head.body, {});
  next_.head = std::move(head);
  next_.stream = true;
  wake_();
}

void PendingReply::write(std::string bytes) {
  const std::lock_guard lock(mutex_);
  if (!wake_ || stage_ != Stage::stream || next_.overrun) return;
  unsent_bytes_ += bytes.size();
  next_.bytes += bytes;
  // Nobody is told here: the route might hold a lock of its own. The connection closes this reply.
  next_.overrun = unsent_bytes_ > most_unsent_bytes_;
  wake_();
}

void PendingReply::end(bool aborted) {
  std::function<void()> unneeded;
  const std::lock_guard lock(mutex_);
  if (!wake_ || stage_ == Stage::ended) return;
  unneeded = std::exchange(gone_, nullptr);
  end_locked(aborted || stage_ == Stage::nothing);
}

void PendingReply::end_locked(bool aborted) {
  stage_ = Stage::ended;
  next_.ended = true;
  next_.aborted = aborted;
  wake_();
}

void PendingReply::drop() {
  bool silent = false;
  {
    const std::lock_guard lock(mutex_);
    silent = stage_ == Stage::nothing;
  }
  if (silent) respond(error_response({.status = 500, .message = "the server gave no reply"}));
  end(true);
}

std::size_t PendingReply::unsent_bytes() const {
  const std::lock_guard lock(mutex_);
  return unsent_bytes_;
}

void PendingReply::on_disconnect(std::function<void()> gone) {
  {
    const std::lock_guard lock(mutex_);
    if (!lost_) {
      if (stage_ != Stage::ended) std::swap(gone_, gone);
      return;
    }
  }
  gone();
}

PendingReply::Output PendingReply::take() {
  const std::lock_guard lock(mutex_);
  Output output = std::exchange(next_, {});
  next_.stream = output.stream;
  next_.ended = output.ended;
  next_.aborted = output.aborted;
  next_.overrun = output.overrun;
  return output;
}

bool PendingReply::is_overrun() const {
  const std::lock_guard lock(mutex_);
  return next_.overrun;
}

void PendingReply::count_sent(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  unsent_bytes_ -= bytes;
}

void PendingReply::close() {
  std::function<void()> gone;
  {
    const std::lock_guard lock(mutex_);
    if (!wake_) return;
    wake_ = nullptr;
    lost_ = stage_ != Stage::ended;
    gone = std::exchange(gone_, nullptr);
    next_ = {};
    unsent_bytes_ = 0;
  }
  if (gone) gone();
}

}  // namespace carat
