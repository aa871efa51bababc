// An exchange that keeps what a route replies, for tests without a network.
#pragma once
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "server/http.h"

namespace carat {

class RecordedExchange final : public HttpExchange {
 public:
  void respond(HttpResponse response) override { finish(std::move(response)); }
  void begin_stream(HttpResponse head) override {
    const std::lock_guard lock(mutex_);
    head_ = std::move(head);
    is_stream_ = true;
  }
  void write(std::string bytes) override {
    const std::lock_guard lock(mutex_);
    head_.body += bytes;
    changed_.notify_all();
  }
  void end() override { finish_stream(false); }
  void abort() override { finish_stream(true); }
  std::size_t unsent_bytes() const override { return 0; }
  void on_disconnect(std::function<void()> gone) override {
    const std::lock_guard lock(mutex_);
    gone_ = std::move(gone);
  }

  /// As when the client leaves.
  void disconnect() {
    std::function<void()> gone;
    {
      const std::lock_guard lock(mutex_);
      gone = gone_;
    }
    if (gone) gone();
  }

  /// The whole reply; waits for its end.
  const HttpResponse& reply() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::seconds(60), [this] { return done_; }))
      throw std::runtime_error("no reply within a minute");
    return head_;
  }
  /// Waits for so many bytes of a stream.
  void wait_for_bytes(std::size_t bytes) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(60), [&] { return done_ || head_.body.size() >= bytes; });
  }
  nlohmann::json json() { return nlohmann::json::parse(reply().body); }
  bool is_stream() const { return is_stream_; }
  bool aborted() const { return aborted_; }

 private:
  void finish(HttpResponse response) {
    const std::lock_guard lock(mutex_);
    head_ = std::move(response);
    done_ = true;
    changed_.notify_all();
  }
  void finish_stream(bool aborted) {
    const std::lock_guard lock(mutex_);
    aborted_ = aborted;
    done_ = true;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  HttpResponse head_;
  std::function<void()> gone_;
  bool is_stream_ = false, aborted_ = false, done_ = false;
};

/// One server-sent event.
struct SentEvent {
  std::string name;  // empty: none
  std::string data;
};

inline std::vector<SentEvent> sent_events(const std::string& body) {
  std::vector<SentEvent> events;
  SentEvent event;
  std::size_t at = 0;
  while (at < body.size()) {
    const std::size_t end = body.find('\n', at);
    if (end == body.npos) throw std::runtime_error("the last event is cut off");
    const std::string line = body.substr(at, end - at);
    at = end + 1;
    if (line.starts_with("event: ")) event.name = line.substr(7);
    if (line.starts_with("data: ")) event.data = line.substr(6);
    if (line.empty() && !event.data.empty()) events.push_back(std::exchange(event, {}));
  }
  return events;
}

}  // namespace carat
