// `carat serve`: listens, loads the model, and serves it until a signal says to stop.
#include <fcntl.h>
#include <sys/poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "base/cpu_count.h"
#include "base/error.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "cli/served_model.h"
#include "cli/signals.h"
#include "cli/streams.h"
#include "engine/engine.h"
#include "server/browser_guard.h"
#include "server/server.h"

namespace carat {
namespace {

using namespace std::chrono_literals;

/// The first of SIGTERM, SIGINT and SIGHUP asks for the end, the next one ends the program at once.
class StopSignal {
 public:
  StopSignal() {
    if (::pipe2(pipe_.data(), O_CLOEXEC) != 0) fail(ErrorKind::unavailable, "can't create a pipe");
    for (const int signal : {SIGTERM, SIGINT, SIGHUP}) catch_first(signal, tell);
  }

  /// Whether one has come, or comes within `patience`; without end when that is negative.
  bool comes_within(std::chrono::milliseconds patience) const {
    pollfd told{.fd = pipe_[0], .events = POLLIN, .revents = 0};
    int ready = 0;
    do {
      ready = ::poll(&told, 1, static_cast<int>(patience.count()));
    } while (ready < 0 && errno == EINTR);
    return ready > 0;
  }

 private:
  static inline std::array<int, 2> pipe_{};
  static inline volatile std::sig_atomic_t is_told_ = 0;

  static void tell(int signal) {
    if (is_told_) std::raise(signal);  // not caught a second time
    is_told_ = 1;
    const int error = errno;
    [[maybe_unused]] const ssize_t written = ::write(pipe_[1], "", 1);
    errno = error;
  }
};

/// As many descriptors as this process may have, one per connection and some to spare.
std::size_t most_connections(int wanted) {
  rlimit limit{};
  constexpr rlim_t kSpare = 64;
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return static_cast<std::size_t>(wanted);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  return std::clamp<rlim_t>(limit.rlim_cur > kSpare ? limit.rlim_cur - kSpare : 1, 1,
                            static_cast<rlim_t>(wanted));
}

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

ServerOptions server_options(const ServeOptions& options) {
  ServerOptions server;
  server.http.host = options.host;
  server.http.port = options.port;
  server.http.threads = options.io_threads;
  server.http.tls_certificate = options.tls_certificate.value_or("");
  server.http.tls_key = options.tls_key.value_or("");
  server.http.most_connections = most_connections(options.max_connections);
  server.http.request_timeout = milliseconds(options.request_timeout_s);
  server.api_keys = options.api_keys;
  if (options.api_key_file) {
    const auto keys = parse_api_keys(read_file(*options.api_key_file), *options.api_key_file);
    server.api_keys.insert(server.api_keys.end(), keys.begin(), keys.end());
  }
  server.cors_origins = options.cors_origins;
  server.allowed_hosts = options.allowed_hosts;
  server.metrics_prefix = options.metrics_prefix;
  server.workers = std::clamp(usable_cpu_count(), 2, 8);
  return server;
}

LogLevel log_level(const std::string& name) {
  if (name == "quiet") return LogLevel::quiet;
  if (name == "error") return LogLevel::error;
  return name == "debug" ? LogLevel::debug : LogLevel::info;
}

AccessLog make_log(const ServeOptions& options) {
  return AccessLog(log_level(options.log_level), options.log_json,
                   [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); });
}

/// The network can reach a server that asks for nothing.
void warn_if_open(const ServerOptions& server, const std::string& address, const AccessLog& log) {
  const std::string& host = server.http.host;
  if (!server.api_keys.empty() || is_loopback(host) || host.starts_with("unix:")) return;
  log.message(LogLevel::error, "warning: whoever can reach " + address +
                                   " may use the model: no API key is asked for; give --api-key-file FILE, "
                                   "or listen on this machine alone with --host 127.0.0.1");
}

std::shared_ptr<ServedModel> load(const ServeOptions& options, const AccessLog& log, Progress& bar) {
  const std::string& path = options.model;
  const auto warn = [&](const std::string& text) { log.message(LogLevel::error, "warning: " + text); };
  auto served = load_served_model(path, options.engine, options.devices, {}, warn,
                                  [&](double done) { bar.update(done); });
  served->names = options.names;
  if (served->names.empty()) served->names = {std::filesystem::path(path).lexically_normal().string()};
  if (std::filesystem::is_directory(path) && options.names.empty())
    served->names = {std::filesystem::canonical(path).filename().string()};
  served->accepts_any_name = options.any_model;
  served->refuses_unknown_fields = options.strict_api;
  served->allows_special = options.allow_special;
  return served;
}

/// Loading can't be interrupted, and nothing of it needs to be saved.
[[noreturn]] void end_while_loading(std::unique_ptr<Server> server, const AccessLog& log) {
  log.message(LogLevel::info, "shutting down: the model was still being loaded");
  server.reset();
  std::_Exit(0);
}

}  // namespace

int serve_command(const ServeOptions& options) {
  if (options.tls_certificate.has_value() != options.tls_key.has_value())
    fail(ErrorKind::invalid_argument, "--ssl-cert and --ssl-key go together");
  const StopSignal stop;
  const AccessLog log = make_log(options);
  const ServerOptions how = server_options(options);
  auto server = std::make_unique<Server>(how, log);
  warn_if_open(how, server->address(), log);
  log.message(LogLevel::info,
              "loading " + options.model + "; " + server->address() + "/health says when it is ready");
  Progress bar("loading", options.log_json || options.log_level != "info");
  auto loading = std::async(std::launch::async, [&] { return load(options, log, bar); });
  while (loading.wait_for(0s) != std::future_status::ready) {
    if (!stop.comes_within(20ms)) continue;
    bar.end();
    end_while_loading(std::move(server), log);
  }
  const auto served = loading.get();
  bar.end();
  const std::string name = served->names.front();
  const int context = served->engine->max_context();
  server->set_model(served);
  log.message(LogLevel::info, "serving " + name + " with a context of " + std::to_string(context) +
                                  " tokens on " + server->address());
  stop.comes_within(-1ms);
  log.message(LogLevel::info, "shutting down: replies under way have " +
                                  std::to_string(static_cast<int>(options.drain_timeout_s)) + " s");
  if (!server->drain(milliseconds(options.drain_timeout_s)))
    log.message(LogLevel::error, "the time is up: replies still under way are cut");
  return 0;
}

}  // namespace carat
