#include "server/cors.h"

#include <algorithm>

namespace carat {

bool Cors::allows(std::string_view origin) const {
  return !origin.empty() &&
         std::ranges::any_of(origins_, [&](const std::string& o) { return o == "*" || o == origin; });
}

std::optional<HttpResponse> Cors::answer_preflight(const HttpRequest& request) const {
  const bool asks = request.method == "OPTIONS" && !request.header("access-control-request-method").empty();
  if (!asks || !allows(request.header("origin"))) return std::nullopt;
  HttpResponse reply{.status = 204, .body = {}, .content_type = {}};
  const std::string_view headers = request.header("access-control-request-headers");
  reply.headers = {{"access-control-allow-methods", "GET, HEAD, POST, OPTIONS"},
                   {"access-control-allow-headers",
                    headers.empty() ? "authorization, content-type" : std::string(headers)},
                   {"access-control-max-age", "600"}};
  return reply;
}

void Cors::complete(const HttpRequest& request, HttpResponse& reply) const {
  if (origins_.empty()) return;
  reply.headers.push_back({"vary", "Origin"});
  const std::string_view origin = request.header("origin");
  if (!allows(origin)) return;
  reply.headers.push_back({"access-control-allow-origin", std::string(origin)});
  reply.headers.push_back({"access-control-expose-headers", "x-request-id, retry-after"});
}

}  // namespace carat
