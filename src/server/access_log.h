// One line per request, and what the server has to say besides: as text for people, or as JSON for machines.
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "server/http.h"
#include "server/http_server.h"

namespace carat {

enum class LogLevel { quiet, error, info, debug };

class AccessLog {
 public:
  /// `sink` takes whole lines without their end; from any thread, one at a time is its business.
  AccessLog(LogLevel level, bool json, std::function<void(const std::string& line)> sink)
      : level_(level), json_(json), sink_(std::move(sink)) {}

  /// Requests that failed are errors (5xx), others info; those of balancers and collectors, /health and
  /// /metrics, are debug.
  void request(const HttpRequest& head, const HttpOutcome& outcome) const;
  void message(LogLevel level, std::string_view text) const;

 private:
  LogLevel level_;
  bool json_;
  std::function<void(const std::string& line)> sink_;
};

}  // namespace carat
