#include "server/http_serving.h"

#include "server/http_wire.h"

namespace carat {

ActiveRequest::~ActiveRequest() {
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
  server_.policy.finished(head_, outcome);
}

std::string ActiveRequest::framed(PendingReply::Output& output) {
  std::string bytes;
  if (output.head) {
    server_.policy.complete(head_, *output.head);
    output.head->headers.push_back({"x-request-id", head_.id});
    ReplyFraming framing;
    chunked_ = output.stream && is_http_1_1;
    keep_alive = keep_alive && !server_.draining && (chunked_ || !output.stream);
    if (!output.stream) framing.length = output.bytes.size();
    framing.keep_alive = keep_alive;
    framing.chunked = chunked_;
    outcome.status = output.head->status;
    failure_ = std::move(output.head->failure);
    bytes = reply_head(*output.head, framing);
  }
  if (head_.method == "HEAD") return bytes;
  bytes += chunked_ ? chunk(output.bytes) : output.bytes;
  if (chunked_ && output.ended && !output.aborted) bytes += kLastChunk;
  return bytes;
}

std::string ActiveRequest::framed_failure(const HttpError& error) {
  keep_alive = false;
  PendingReply::Output output;
  if (outcome.status == 0) {
    output = PendingReply::Output::whole(error_response(error, head_.path));
  } else if (failure_) {
    output.bytes = failure_(error);
  }
  return framed(output);
}

}  // namespace carat
