#include "server/server.h"

#include <utility>

#include "server/api_routes.h"
#include "server/chat_page.h"
#include "server/http_error.h"
#include "server/static_file.h"

namespace carat {
namespace {

constexpr int kRetryLoading_s = 5, kRetryDraining_s = 1;

bool is_open_to_all(const HttpRequest& head) { return head.path == "/health"; }

/// What a link on a page elsewhere may lead to.
bool is_harmless(const HttpRequest& head) { return head.path == "/" || head.path == "/health"; }

/// Where keys are asked for, or the network can reach the server anyway, its name protects nothing.
std::optional<std::vector<std::string>> required_names(const ServerOptions& options) {
  if (!options.api_keys.empty() || !is_loopback(options.http.host)) return std::nullopt;
  return options.allowed_hosts;
}

/// What can be answered without a model.
bool is_about_server(const HttpRequest& head) {
  return head.path == "/health" || head.path == "/metrics" || head.path == "/version";
}

HttpRoute respond_with(std::function<HttpResponse()> make) {
  return
      [make = std::move(make)](const std::shared_ptr<const HttpRequest>&,
                               const std::shared_ptr<HttpExchange>& exchange) { exchange->respond(make()); };
}

}  // namespace

Server::Server(const ServerOptions& options, const AccessLog& log)
    : options_(options),
      log_(log),
      keys_(options.api_keys),
      cors_(options.cors_origins),
      guard_(cors_, required_names(options)),
      workers_(options.workers) {
  auto router = std::make_shared<HttpRouter>();
  add_own_routes(*router);
  http_ = std::make_unique<HttpServer>(options_.http, workers_, static_cast<HttpPolicy&>(*this),
                                       std::move(router));
}

Server::~Server() {
  http_.reset();  // tells the routes that their clients are gone
  workers_.stop();
  // Replies under way hold the model, so the engine has to end for them to let go; it may still post.
  if (model_) model_->engine.reset();
}

void Server::set_model(std::shared_ptr<ServedModel> model) {
  model->metrics = &metrics_;
  model->post = [this](std::function<void()> work) { workers_.post(std::move(work)); };
  auto router = std::make_shared<HttpRouter>();
  add_own_routes(*router);
  add_api_routes(*router, model);
  {
    const std::lock_guard lock(model_mutex_);
    model_ = std::move(model);
  }
  http_->set_router(std::move(router));
  ready_ = true;
}

bool Server::drain(std::chrono::milliseconds patience) {
  draining_ = true;
  return http_->drain(patience);
}

std::shared_ptr<const ServedModel> Server::model() const {
  const std::lock_guard lock(model_mutex_);
  return model_;
}

void Server::add_own_routes(HttpRouter& router) {
  const auto get = [&](const char* path, HttpRoute route) {
    router.add("GET", path, std::move(route), RouteThread::network);
  };
  get("/", static_file(chat_page(), "text/html; charset=utf-8",
                       {{"content-security-policy", std::string(kChatPagePolicy)}}));
  get("/health", respond_with([this] { return health(); }));
  get("/version", respond_with([] {
        return HttpResponse{.status = 200, .body = R"({"version":")" CARAT_VERSION R"("})"};
      }));
  get("/metrics", respond_with([this] {
        return HttpResponse{.status = 200,
                            .body = metrics_text(),
                            .content_type = "text/plain; version=0.0.4; charset=utf-8"};
      }));
}

HttpResponse Server::unavailable(std::string_view path) const {
  if (draining_) return busy_response("the server is shutting down", kRetryDraining_s, path);
  return busy_response("the model is being loaded", kRetryLoading_s, path);
}

HttpResponse Server::health() const {
  if (draining_ || !ready_) return unavailable("/health");
  if (const std::string failure = model()->engine->failure(); !failure.empty())
    return error_response({.status = 503, .message = "the device has failed: " + failure}, "/health");
  return {.status = 200, .body = R"({"status":"ok"})"};
}

std::string Server::metrics_text() const {
  const auto served = model();
  if (!served) return metrics_.text(options_.metrics_prefix, "", nullptr);
  const EngineStats stats = served->engine->stats();
  return metrics_.text(options_.metrics_prefix, served->names.front(), &stats);
}

std::optional<HttpResponse> Server::refuse(const HttpRequest& head) {
  if (auto preflight = cors_.answer_preflight(head)) return preflight;
  if (!is_harmless(head)) {
    if (const auto objection = guard_.objection(head))
      return error_response({.status = 403, .message = *objection, .code = "forbidden"}, head.path);
  }
  if (!is_open_to_all(head) && !keys_.allow(head)) {
    HttpResponse response = error_response(
        {.status = 401,
         .message = "no valid API key: send it as \"Authorization: Bearer KEY\" or \"x-api-key: KEY\"",
         .code = "invalid_api_key"},
        head.path);
    // For the page a browser asks its user, and sends the key along with what the page asks for.
    response.headers.push_back(
        {"www-authenticate", head.path == "/" ? R"(Basic realm="API key as the password")" : "Bearer"});
    return response;
  }
  if (is_about_server(head) || ready_) return std::nullopt;  // also while it drains: what has come is served
  return unavailable(head.path);
}

void Server::complete(const HttpRequest& request, HttpResponse& head) { cors_.complete(request, head); }

void Server::finished(const HttpRequest& request, const HttpOutcome& outcome) {
  metrics_.count_http(outcome.status);
  log_.request(request, outcome);
}

}  // namespace carat
