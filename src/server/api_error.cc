#include "server/api_error.h"

#include <new>
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
  return error_body({error.status, error.what(), error.type, error.param, error.code}, ErrorShape::openai);
}

std::string anthropic_error_json(const ApiError& error) {
  return error_body({.status = error.status, .message = error.what()}, ErrorShape::anthropic);
}

HttpResponse to_response(const ApiError& error, std::string body) {
  HttpResponse response{.status = error.status, .body = std::move(body)};
  if (error.status == 429 || error.status == 503) response.headers.push_back({"Retry-After", "1"});
  return response;
}

}  // namespace carat
