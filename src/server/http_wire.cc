#include "server/http_wire.h"

#include <cstdio>
#include <ctime>

#include "base/ascii.h"

namespace carat {
namespace {

const char* reason(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 204:
      return "No Content";
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 422:
      return "Unprocessable Content";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Unknown";
  }
}

void add_header(std::string& head, std::string_view name, std::string_view value) {
  for (const char c : name) head += ascii_lower(c);
  head += ": ";
  for (const char c : value)
    if (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f) head += c;
  head += "\r\n";
}

std::string date() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[40];
  return {text, std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &utc)};
}

}  // namespace

std::string reply_head(const HttpResponse& response, const ReplyFraming& framing) {
  std::string head = "HTTP/1.1 " + std::to_string(response.status) + " " + reason(response.status) + "\r\n";
  add_header(head, "date", date());
  add_header(head, "connection", framing.keep_alive ? "keep-alive" : "close");
  if (!response.content_type.empty()) add_header(head, "content-type", response.content_type);
  if (framing.length && response.status != 204 && response.status != 304)
    add_header(head, "content-length", std::to_string(*framing.length));
  if (framing.chunked) add_header(head, "transfer-encoding", "chunked");
  for (const HttpHeader& header : response.headers) add_header(head, header.name, header.value);
  return head + "\r\n";
}

std::string whole_reply(const HttpResponse& response) {
  return reply_head(response, {.keep_alive = false, .length = response.body.size()}) + response.body;
}

std::string chunk(std::string_view bytes) {
  if (bytes.empty()) return {};
  char size[24];
  std::snprintf(size, sizeof size, "%zx\r\n", bytes.size());
  return size + std::string(bytes) + "\r\n";
}

}  // namespace carat
