// What a route has said so far in reply to one request, and what its connection has not sent yet. The two
// sides meet here: routes call make_exchange()'s object from any thread, the connection everything else from
// its own.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "server/http.h"

namespace carat {

class PendingReply : public std::enable_shared_from_this<PendingReply> {
 public:
  /// `wake` is called, from any thread, when there is something new for the connection; it must not call
  /// back.
  PendingReply(std::function<void()> wake, std::size_t most_unsent_bytes);

  std::shared_ptr<HttpExchange> make_exchange();

  struct Output {
    std::optional<HttpResponse> head;  // once; its body is in `bytes`
    bool stream = false;
    std::string bytes;
    bool ended = false;    // nothing comes behind `bytes`
    bool aborted = false;  // ended without being whole
    bool overrun = false;  // the client reads too slowly: not even `bytes` is worth sending

    static Output whole(HttpResponse response);
  };
  /// What has come since the last call.
  Output take();
  /// Whether the client reads too slowly.
  bool is_overrun() const;
  /// So many payload bytes of what was taken are with the client.
  void count_sent(std::size_t bytes);
  /// The client has left, or the reply is over: what routes still say is dropped, `wake` isn't called any
  /// more. Tells the route unless it has ended its reply.
  void close();

 private:
  class Exchange;
  enum class Stage { nothing, stream, ended };

  void respond(HttpResponse response);
  void begin_stream(HttpResponse head);
  void write(std::string bytes);
  void end(bool aborted);
  std::size_t unsent_bytes() const;
  void on_disconnect(std::function<void()> gone);
  /// The last exchange is gone.
  void drop();
  void end_locked(bool aborted);

  mutable std::mutex mutex_;
  std::function<void()> wake_;  // empty: closed
  std::function<void()> gone_;
  bool lost_ = false;  // closed before its end
  const std::size_t most_unsent_bytes_;
  std::size_t unsent_bytes_ = 0;
  Stage stage_ = Stage::nothing;
  Output next_;
};

}  // namespace carat
