#include "server/access_log.h"

#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

#include "base/utf8.h"

namespace carat {
namespace {

constexpr const char* kNames[] = {"quiet", "error", "info", "debug"};  // by LogLevel

/// Milliseconds, in UTC: 2026-01-31T12:00:00.000Z.
std::string timestamp() {
  std::timespec now{};
  std::timespec_get(&now, TIME_UTC);
  std::tm utc{};
  gmtime_r(&now.tv_sec, &utc);
  char date[32], text[48];
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &utc);
  std::snprintf(text, sizeof text, "%s.%03ldZ", date, now.tv_nsec / 1'000'000);
  return text;
}

LogLevel level_of(const HttpRequest& head, const HttpOutcome& outcome) {
  if (outcome.status >= 500 && head.path != "/health") return LogLevel::error;
  return head.path == "/health" || head.path == "/metrics" ? LogLevel::debug : LogLevel::info;
}

std::string dumped(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

void AccessLog::request(const HttpRequest& head, const HttpOutcome& outcome) const {
  const LogLevel level = level_of(head, outcome);
  if (level > level_) return;
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.3f", outcome.seconds);
  if (json_) {
    nlohmann::ordered_json line = {{"time", timestamp()},
                                   {"level", kNames[static_cast<int>(level)]},
                                   {"id", head.id},
                                   {"method", head.method},
                                   {"path", head.path},
                                   {"status", outcome.status},
                                   {"whole", outcome.whole},
                                   {"bytes", outcome.body_bytes},
                                   {"seconds", outcome.seconds}};
    if (const auto parent = head.header("traceparent"); !parent.empty())
      line["traceparent"] = std::string(parent.substr(0, 128));
    return sink_(dumped(line));
  }
  sink_(timestamp() + " " + printable(head.method, 20) + " " + printable(head.path, 200) + " " +
        std::to_string(outcome.status) + " " + std::to_string(outcome.body_bytes) + " bytes " + seconds +
        " s " + head.id + (outcome.whole ? "" : " (cut)"));
}

void AccessLog::message(LogLevel level, std::string_view text) const {
  if (level > level_) return;
  if (json_) {
    return sink_(dumped(
        {{"time", timestamp()}, {"level", kNames[static_cast<int>(level)]}, {"message", std::string(text)}}));
  }
  sink_(timestamp() + " " + printable(text));
}

}  // namespace carat
