// The server as a whole: HTTP, the APIs, keys, logs, metrics, and the state that /health shows. It listens
// before there is a model, so that balancers can tell "loading" from "gone".
#pragma once
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/access_log.h"
#include "server/api_model.h"
#include "server/auth.h"
#include "server/browser_guard.h"
#include "server/cors.h"
#include "server/http_router.h"
#include "server/http_server.h"
#include "server/metrics.h"
#include "server/workers.h"

namespace carat {

struct ServerOptions {
  HttpOptions http;
  std::vector<std::string> api_keys, cors_origins;
  std::vector<std::string> allowed_hosts;  // names of this server, for when only this machine reaches it
  std::string metrics_prefix = "carat";
  int workers = 2;  // threads that parse and tokenize
};

class Server final : private HttpPolicy {
 public:
  /// Listens from now on; everything but /health, /metrics and /version waits for set_model(). `log` must
  /// outlive the server. Throws as HttpServer does.
  Server(const ServerOptions& options, const AccessLog& log);
  /// Ends all replies and lets go of the model.
  ~Server() override;

  /// Begins to serve `model`, whose `metrics` and `post` are set here.
  void set_model(std::shared_ptr<ServedModel> model);
  /// Takes no more connections, and serves what comes by those there are until all is answered. /health says
  /// so. False when that isn't done after `patience`.
  bool drain(std::chrono::milliseconds patience);

  std::string address() const { return http_->address(); }
  int port() const { return http_->port(); }

 private:
  std::optional<HttpResponse> refuse(const HttpRequest& head) override;
  void complete(const HttpRequest& request, HttpResponse& head) override;
  void finished(const HttpRequest& request, const HttpOutcome& outcome) override;

  void add_own_routes(HttpRouter& router);
  HttpResponse health() const;
  /// 503, as the server is loading or draining. `path`: of the request that gets the reply.
  HttpResponse unavailable(std::string_view path) const;
  std::string metrics_text() const;
  std::shared_ptr<const ServedModel> model() const;

  const ServerOptions options_;
  const AccessLog& log_;
  const ApiKeys keys_;
  const Cors cors_;
  const BrowserGuard guard_;
  Metrics metrics_;
  std::atomic<bool> ready_{false}, draining_{false};
  mutable std::mutex model_mutex_;
  std::shared_ptr<ServedModel> model_;
  Workers workers_;
  std::unique_ptr<HttpServer> http_;
};

}  // namespace carat
