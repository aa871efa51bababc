#include "server/http_parser.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <random>
#include <utility>

#include "base/error.h"
#include "server/percent.h"

namespace carat {
namespace {

namespace http = boost::beast::http;

/// A path without its %XX; none when one is broken or stands for a zero byte.
std::optional<std::string> decoded(std::string_view text) {
  std::string path;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      path += text[i];
      continue;
    }
    const int byte = percent_byte(text.substr(i));
    if (byte <= 0) return std::nullopt;
    path += static_cast<char>(byte);
    i += 2;
  }
  return path;
}

/// Fills path and query from "/path?query", "http://host/path" or "*".
bool read_target(std::string_view target, HttpRequest& request) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!target.starts_with(scheme)) continue;
    const std::size_t slash = target.find_first_of("/?", scheme.size());
    target = slash == target.npos ? "/" : target.substr(slash);
  }
  target = target.substr(0, target.find('#'));
  const std::size_t mark = target.find('?');
  if (mark != target.npos) request.query = target.substr(mark + 1);
  const auto path = decoded(target.substr(0, mark));
  if (!path) return false;
  request.path = *path;
  return request.path.starts_with("/") || (request.path == "*" && request.method == "OPTIONS");
}

/// One that can go into headers and logs as it is.
bool is_sane_id(std::string_view id) {
  return !id.empty() && id.size() <= 128 && std::ranges::all_of(id, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-_.:/+=").find(c) != std::string_view::npos;
  });
}

std::string new_id() {
  thread_local std::mt19937_64 random{std::random_device{}()};
  char text[40];
  std::snprintf(text, sizeof text, "req_%016llx%016llx", static_cast<unsigned long long>(random()),
                static_cast<unsigned long long>(random()));
  return text;
}

}  // namespace

struct HttpParser::Beast {
  http::request_parser<http::string_body> parser;
};

HttpParser::HttpParser(Limits limits) : limits_(limits) { next(); }
HttpParser::~HttpParser() = default;

void HttpParser::next() {
  beast_ = std::make_unique<Beast>();
  beast_->parser.header_limit(static_cast<std::uint32_t>(limits_.header_bytes));
  beast_->parser.body_limit(limits_.body_bytes);
  request_.reset();
  skip_line_ends();
}

void HttpParser::feed(std::string_view bytes) {
  input_.append(bytes);
  if (!request_) skip_line_ends();
}

/// Some clients end a body with one; it is no beginning of a request.
void HttpParser::skip_line_ends() { input_.erase(0, input_.find_first_not_of("\r\n")); }

bool HttpParser::keep_alive() const { return beast_->parser.keep_alive(); }
bool HttpParser::is_http_1_1() const { return beast_->parser.get().version() >= 11; }
bool HttpParser::expects_continue() const {
  return boost::beast::iequals(beast_->parser.get()[http::field::expect], "100-continue");
}

HttpParser::State HttpParser::fail_with(int status, std::string message) {
  if (!request_) {
    request_ = std::make_shared<HttpRequest>();
    request_->id = new_id();
    const auto& begun = beast_->parser.get();  // as far as it was read
    request_->method = std::string(begun.method_string());
    read_target(std::string_view(begun.target().data(), begun.target().size()), *request_);
  }
  failed_status_ = status;
  failure_ = std::move(message);
  return State::failed;
}

HttpParser::State HttpParser::parse() {
  if (failed_status_ != 0) return State::failed;
  auto& parser = beast_->parser;
  while (!parser.is_done() && !input_.empty()) {
    boost::system::error_code error;
    const std::size_t used = parser.put(boost::asio::buffer(input_), error);
    input_.erase(0, used);
    if (error == http::error::need_more) break;
    if (error == http::error::body_limit || error == http::error::buffer_overflow) {
      return fail_with(413, "the body is larger than the " + std::to_string(limits_.body_bytes) +
                                " bytes that are allowed");
    }
    if (error == http::error::header_limit) {
      if (parser.get().target().empty()) return fail_with(414, "the request's target is too long");
      return fail_with(431, "the headers are longer than the " + std::to_string(limits_.header_bytes) +
                                " bytes that are allowed");
    }
    if (error == http::error::bad_version)
      return fail_with(505, "only HTTP/1.0 and HTTP/1.1 are spoken here");
    if (error) return fail_with(400, "this is no HTTP request: " + error.message());
    if (parser.is_header_done() && !request_) return read_head();
  }
  if (parser.is_done()) return State::done;
  return request_ ? State::body : State::head;
}

HttpParser::State HttpParser::read_head() {
  const auto& message = beast_->parser.get();
  request_ = std::make_shared<HttpRequest>();
  request_->method = std::string(message.method_string());
  for (const auto& field : message) {
    request_->headers.push_back({std::string(field.name_string()), std::string(field.value())});
  }
  const std::string_view id = request_->header("x-request-id");
  request_->id = is_sane_id(id) ? std::string(id) : new_id();
  if (!read_target(std::string_view(message.target().data(), message.target().size()), *request_))
    return fail_with(400, "the request's target is no path");
  if (is_http_1_1() && message.count(http::field::host) != 1)
    return fail_with(400, "an HTTP/1.1 request needs exactly one Host header");
  if (message.count(http::field::expect) > 0 && !expects_continue())
    return fail_with(417, "Expect: only 100-continue is known");
  return beast_->parser.is_done() ? State::done : State::body;
}

std::shared_ptr<const HttpRequest> HttpParser::take() {
  CHECK(request_ && beast_->parser.is_done());
  request_->body = std::move(beast_->parser.get().body());
  return std::move(request_);
}

}  // namespace carat
