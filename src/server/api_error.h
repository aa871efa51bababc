// What a client is told when a request can't be served. Thrown by the parsing and checking of requests, and
// turned into the error body of the API that was called.
#pragma once
#include <exception>
#include <sstream>
#include <stdexcept>
#include <string>

#include "base/error.h"
#include "server/http.h"

namespace carat {

/// The status of the response, and what OpenAI's error body says beside its type. Empty `param` and `code`
/// become null.
struct ApiError : std::runtime_error {
  ApiError(int http_status, std::string field, std::string error_code, const std::string& message)
      : std::runtime_error(message),
        status(http_status),
        param(std::move(field)),
        code(std::move(error_code)) {}

  int status;
  std::string param;  // the field at fault, such as "messages[2].content"
  std::string code;   // "context_length_exceeded", ...
};

/// Throws a 400 that names the field.
template <class... Parts>
[[noreturn]] void bad_request(const std::string& param, const Parts&... parts) {
  std::ostringstream message;
  (message << ... << parts);
  throw ApiError(400, param, "", message.str());
}

/// An error of the engine or the chat template, in the terms of the API.
ApiError to_api_error(const std::exception& error);
/// The exception that is being handled.
ApiError current_api_error();

HttpError http_error(const ApiError& error);
std::string openai_error_json(const ApiError& error);
std::string anthropic_error_json(const ApiError& error);

/// The whole response, with Retry-After where trying again helps.
HttpResponse to_response(const ApiError& error, std::string body);

}  // namespace carat
