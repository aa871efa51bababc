#include "server/static_file.h"

#include <cstdint>
#include <cstdio>
#include <utility>

namespace carat {

HttpRoute static_file(std::string_view content, std::string content_type, std::vector<HttpHeader> headers) {
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const char c : content) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  char tag[24];
  std::snprintf(tag, sizeof tag, "\"%016llx\"", static_cast<unsigned long long>(hash));
  headers.insert(headers.end(),
                 {{"etag", tag}, {"cache-control", "no-cache"}, {"x-content-type-options", "nosniff"}});
  return
      [content, type = std::move(content_type), headers = std::move(headers), tag = std::string(tag)](
          const std::shared_ptr<const HttpRequest>& request, const std::shared_ptr<HttpExchange>& exchange) {
        HttpResponse response{.status = 200, .body = {}, .content_type = type, .headers = headers};
        if (request->header("if-none-match") == tag) {
          response.status = 304;
        } else {
          response.body = content;
        }
        exchange->respond(std::move(response));
      };
}

}  // namespace carat
