#include "server/http_error.h"

#include <new>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"

namespace carat {
namespace {

nlohmann::json text_or_null(const std::string& text) {
  return text.empty() ? nlohmann::json() : nlohmann::json(text);
}

}  // namespace

ErrorShape error_shape(std::string_view path) {
  constexpr std::string_view kMessages = "/v1/messages";
  const bool is_below = path.starts_with(kMessages) && path.substr(kMessages.size()).starts_with('/');
  return path == kMessages || is_below ? ErrorShape::anthropic : ErrorShape::openai;
}

std::string_view error_type(int status, ErrorShape shape) {
  const bool is_openai = shape == ErrorShape::openai;
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return is_openai ? "invalid_request_error" : "not_found_error";
    case 413:
      return is_openai ? "invalid_request_error" : "request_too_large";
    case 503:
      return is_openai ? "server_error" : "overloaded_error";
    case 504:
      return is_openai ? "server_error" : "timeout_error";
    default:
      if (status < 500) return "invalid_request_error";
      return is_openai ? "server_error" : "api_error";
  }
}

std::string error_body(const HttpError& error, ErrorShape shape) {
  nlohmann::ordered_json body;
  if (shape == ErrorShape::anthropic) {
    body["type"] = "error";
    body["error"] = {{"type", error_type(error.status, shape)}, {"message", error.message}};
  } else {
    body["error"] = {{"message", error.message},
                     {"type", error_type(error.status, shape)},
                     {"param", text_or_null(error.param)},
                     {"code", text_or_null(error.code)}};
  }
  return body.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

HttpResponse error_response(const HttpError& error, std::string_view path) {
  return {.status = error.status, .body = error_body(error, error_shape(path))};
}

HttpError http_error_of(const std::exception& exception) {
  if (dynamic_cast<const std::bad_alloc*>(&exception))
    return {.status = 503, .message = "out of memory for this request", .code = "overloaded"};
  const auto* error = dynamic_cast<const Error*>(&exception);
  if (!error) return {.status = 500, .message = "something went wrong inside the server"};
  switch (error->kind()) {
    case ErrorKind::invalid_argument:
      return {.status = 400, .message = error->what()};
    case ErrorKind::unsupported:
      return {.status = 400, .message = error->what(), .code = "unsupported"};
    case ErrorKind::unavailable:
      return {.status = 503, .message = error->what(), .code = "overloaded"};
    default:
      return {.status = 500, .message = error->what()};
  }
}

HttpResponse busy_response(std::string message, int retry_after_s, std::string_view path) {
  HttpResponse response =
      error_response({.status = 503, .message = std::move(message), .code = "busy"}, path);
  response.headers.push_back({"retry-after", std::to_string(retry_after_s)});
  return response;
}

}  // namespace carat
