// Replies that say what went wrong, all with the body of OpenAI's API:
// {"error": {"message", "type", "param", "code"}}.
#pragma once
#include <exception>
#include <string>

#include "server/http.h"

namespace carat {

struct HttpError {
  int status = 400;
  std::string message;
  std::string type = {};              // empty: what goes with the status, such as "invalid_request_error"
  std::string param = {}, code = {};  // empty: null
};

/// {"error": ...}. Bytes that are not UTF-8 are replaced.
std::string error_body(const HttpError& error);
HttpResponse error_response(const HttpError& error);
/// What a client is told of an exception: the messages of Error are meant for users, others are not shown.
HttpError http_error_of(const std::exception& error);
/// 429 or 503 with Retry-After.
HttpResponse busy_response(int status, std::string message, int retry_after_s);

}  // namespace carat
