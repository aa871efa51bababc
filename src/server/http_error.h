// Replies that say what went wrong, in the words of the API that was called.
#pragma once
#include <exception>
#include <string>
#include <string_view>

#include "server/http.h"

namespace carat {

/// {"error": {"message", "type", "param", "code"}} or {"type": "error", "error": {"type", "message"}}.
enum class ErrorShape { openai, anthropic };

/// Of the API at `path`: Anthropic's has /v1/messages and what is below it, all else is OpenAI's.
ErrorShape error_shape(std::string_view path);

/// What the API calls an error of that status: "invalid_request_error".
std::string_view error_type(int status, ErrorShape shape);

/// All that a body says beside the type.
struct HttpError {
  int status = 400;
  std::string message;
  std::string param = {}, code = {};  // empty: null
};

/// Bytes that are not UTF-8 are replaced.
std::string error_body(const HttpError& error, ErrorShape shape = ErrorShape::openai);
/// `path`: of the request; empty when it isn't known.
HttpResponse error_response(const HttpError& error, std::string_view path = {});
/// What a client is told of an exception: the messages of Error are meant for users, others are not shown.
HttpError http_error_of(const std::exception& error);
/// 503 with Retry-After.
HttpResponse busy_response(std::string message, int retry_after_s, std::string_view path = {});

}  // namespace carat
