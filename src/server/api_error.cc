#include "server/api_error.h"

#include <algorithm>
#include <new>
#include <string_view>

#include "server/api_json.h"
#include "server/http_error.h"

namespace carat {
namespace {

/// The field that a message begins with: those of chat/conversation.h name it first.
std::string field_named_by(std::string_view message) {
  if (!message.starts_with("messages") && !message.starts_with("tools")) return {};
  return std::string(message.substr(0, message.find_first_of(" :")));
}

std::string_view anthropic_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    default:
      return status < 500 ? "invalid_request_error" : "api_error";
  }
}

}  // namespace

ApiError to_api_error(const Error& error) {
  const std::string message = error.what();
  switch (error.kind()) {
    case ErrorKind::invalid_argument:
      return {400, "invalid_request_error", field_named_by(message), "", message};
    case ErrorKind::unsupported:
      return {400, "invalid_request_error", field_named_by(message), "unsupported", message};
    case ErrorKind::unavailable:
      return {503, "server_error", "", "overloaded", message};
    default:
      return {500, "server_error", "", "", message};
  }
}

ApiError current_api_error() {
  try {
    throw;
  } catch (const ApiError& error) {
    return error;
  } catch (const Error& error) {
    return to_api_error(error);
  } catch (const std::bad_alloc&) {
    return {503, "server_error", "", "overloaded", "out of memory for this request"};
  } catch (const std::exception& error) {
    return {500, "server_error", "", "", std::string("internal error: ") + error.what()};
  }
}

std::string openai_error_json(const ApiError& error) {
  return error_body({error.status, error.what(), error.type, error.param, error.code});
}

std::string anthropic_error_json(const ApiError& error) {
  JsonText json;
  json.object([&] {
    json.field("type", "error");
    json.name("error").object(
        [&] { json.field("type", anthropic_type(error.status)).field("message", error.what()); });
  });
  return json.take();
}

HttpResponse to_response(const ApiError& error, std::string body) {
  HttpResponse response{.status = error.status, .body = std::move(body)};
  if (error.status == 429 || error.status == 503) response.headers.push_back({"Retry-After", "1"});
  return response;
}

}  // namespace carat
