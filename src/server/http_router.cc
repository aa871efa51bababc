#include "server/http_router.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "server/http_error.h"

namespace carat {
namespace {

bool matches_below(std::string_view pattern, std::string_view path) {
  if (!pattern.ends_with("/*")) return false;
  pattern.remove_suffix(1);
  return path.size() > pattern.size() && path.starts_with(pattern);
}

}  // namespace

void HttpRouter::add(std::string method, std::string pattern, HttpRoute route, RouteThread thread) {
  entries_.push_back({std::move(method), std::move(pattern), std::move(route), thread});
}

HttpRouter::Match HttpRouter::find(std::string_view method, std::string_view path) const {
  const bool whole = std::ranges::any_of(entries_, [&](const Entry& e) { return e.pattern == path; });
  Match match;
  std::vector<std::string> methods;
  for (const Entry& entry : entries_) {
    if (whole ? entry.pattern != path : !matches_below(entry.pattern, path)) continue;
    methods.push_back(entry.method);
    const bool answers = entry.method == method || (entry.method == "GET" && method == "HEAD");
    if (!answers || match.route) continue;
    match.route = &entry.route;
    match.thread = entry.thread;
  }
  if (std::ranges::count(methods, "GET") > 0) methods.emplace_back("HEAD");
  if (!methods.empty()) methods.emplace_back("OPTIONS");
  for (const std::string& m : methods) match.allow += (match.allow.empty() ? "" : ", ") + m;
  return match;
}

HttpResponse refusal(const HttpRouter::Match& match, const HttpRequest& request) {
  if (match.allow.empty()) {
    return error_response(
        {.status = 404, .message = "there is nothing at " + request.path, .code = "unknown_url"},
        request.path);
  }
  HttpResponse response{.status = 204, .body = {}, .content_type = {}};
  if (request.method != "OPTIONS") {
    response = error_response(
        {.status = 405, .message = request.path + " takes " + match.allow, .code = "method_not_allowed"},
        request.path);
  }
  response.headers.push_back({"allow", match.allow});
  return response;
}

void run_route(const HttpRoute& route, const std::shared_ptr<const HttpRequest>& request,
               const std::shared_ptr<HttpExchange>& exchange) {
  try {
    route(request, exchange);
  } catch (const std::exception& error) {
    exchange->respond(error_response(http_error_of(error), request->path));
  }
}

}  // namespace carat
