#include "base/log.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <ctime>

#include "base/utf8.h"

namespace carat {
namespace {

std::atomic<LogLevel> least_level{LogLevel::warning};
std::atomic<LogFormat> line_format{LogFormat::text};

std::string_view name(LogLevel level) {
  static constexpr std::array<std::string_view, 5> kNames{"debug", "info", "warning", "error", "off"};
  return kNames[static_cast<std::size_t>(level)];
}

/// UTC with milliseconds, RFC 3339.
std::string timestamp() {
  using namespace std::chrono;
  const auto now = system_clock::now();
  const std::time_t seconds = system_clock::to_time_t(now);
  const auto ms = static_cast<int>(duration_cast<milliseconds>(now.time_since_epoch()).count() % 1000);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  std::array<char, 32> date{};
  const std::size_t length = std::strftime(date.data(), date.size(), "%Y-%m-%dT%H:%M:%S", &utc);
  std::array<char, 8> fraction{};
  std::snprintf(fraction.data(), fraction.size(), ".%03dZ", ms);
  return std::string(date.data(), length) + fraction.data();
}

/// Always valid JSON: what is not UTF-8 becomes U+FFFD.
std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (std::size_t pos = 0; pos < text.size();) {
    const Utf8Scan scan = scan_utf8(text, pos);
    const auto c = static_cast<unsigned char>(text[pos]);
    if (scan.state != Utf8Scan::State::whole) {
      out += "\\ufffd";
    } else if (c == '"' || c == '\\') {
      out += {'\\', text[pos]};
    } else if (c < 0x20) {
      std::array<char, 8> escape{};
      std::snprintf(escape.data(), escape.size(), "\\u%04x", c);
      out += escape.data();
    } else {
      out += text.substr(pos, scan.bytes);
    }
    pos += scan.bytes;
  }
  return out + '"';
}

}  // namespace

void set_log(LogLevel least, LogFormat format) {
  least_level = least;
  line_format = format;
}

bool log_enabled(LogLevel level) { return level >= least_level.load(std::memory_order_relaxed); }

std::string format_log_line(LogLevel level, std::string_view message, LogFormat format) {
  std::string line;
  if (format == LogFormat::json) {
    line.append("{\"time\":\"").append(timestamp()).append("\",\"level\":\"").append(name(level));
    line.append("\",\"message\":").append(json_string(message)).append("}\n");
  } else {
    line.append(name(level)).append(": ").append(message).append("\n");
  }
  return line;
}

void write_log(LogLevel level, std::string_view message) {
  const std::string line = format_log_line(level, message, line_format);
  // Nothing sensible can be done when stderr is closed.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace carat
