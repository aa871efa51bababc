#include "server/api_error.h"

#include <string_view>

#include "server/http_error.h"

namespace carat {
namespace {

/// The field that a message begins with: those of chat/conversation.h name it first.
std::string field_named_by(std::string_view message) {
  if (!message.starts_with("messages") && !message.starts_with("tools")) return {};
  return std::string(message.substr(0, message.find_first_of(" :")));
}

}  // namespace

ApiError to_api_error(const std::exception& exception) {
  const HttpError error = http_error_of(exception);
  return {error.status, error.status < 500 ? field_named_by(error.message) : "", error.code, error.message};
}

ApiError current_api_error() {
  try {
    throw;
  } catch (const ApiError& error) {
    return error;
  } catch (const std::exception& error) {
    return to_api_error(error);
  }
}

HttpError http_error(const ApiError& error) {
  return {.status = error.status, .message = error.what(), .param = error.param, .code = error.code};
}

std::string openai_error_json(const ApiError& error) {
  return error_body(http_error(error), ErrorShape::openai);
}

std::string anthropic_error_json(const ApiError& error) {
  return error_body(http_error(error), ErrorShape::anthropic);
}

HttpResponse to_response(const ApiError& error, std::string body) {
  HttpResponse response{.status = error.status, .body = std::move(body)};
  if (error.status == 503) response.headers.push_back({"Retry-After", "1"});
  return response;
}

}  // namespace carat
