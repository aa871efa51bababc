// Which route answers which request.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/http.h"

namespace carat {

/// Where a route is called. What answers on the network thread is never behind requests that are being read.
enum class RouteThread { worker, network };

class HttpRouter {
 public:
  /// `pattern` is a path, or ends in "/*" for all paths below it, for which a whole path always wins. A GET
  /// route also answers HEAD.
  void add(std::string method, std::string pattern, HttpRoute route,
           RouteThread thread = RouteThread::worker);

  struct Match {
    const HttpRoute* route = nullptr;
    RouteThread thread = RouteThread::worker;
    std::string allow;  // the methods of this path, as in the header Allow; empty: no such path
  };
  Match find(std::string_view method, std::string_view path) const;

 private:
  struct Entry {
    std::string method, pattern;
    HttpRoute route;
    RouteThread thread;
  };
  std::vector<Entry> entries_;
};

/// For a request that has no route: 404, 405, or the methods that OPTIONS asks for.
HttpResponse refusal(const HttpRouter::Match& match, const HttpRequest& request);
/// Turns what the route throws into a reply.
void run_route(const HttpRoute& route, const std::shared_ptr<const HttpRequest>& request,
               const std::shared_ptr<HttpExchange>& exchange);

}  // namespace carat
