// Log lines to stderr, as text for people or as JSON lines for log collectors. What a command prints as its
// result does not go through here.
#pragma once
#include <sstream>
#include <string>
#include <string_view>

namespace carat {

enum class LogLevel { debug, info, warning, error, off };
enum class LogFormat { text, json };

/// Process-wide; may be called at any time. At first: warnings and errors, as text.
void set_log(LogLevel least, LogFormat format);
bool log_enabled(LogLevel level);

/// "warning: MESSAGE", or {"time":"2026-01-31T12:00:00.000Z","level":"warning","message":"MESSAGE"}.
std::string format_log_line(LogLevel level, std::string_view message, LogFormat format);
/// Writes one line with one system call, so that lines of several threads don't mix.
void write_log(LogLevel level, std::string_view message);

/// log(LogLevel::info, "loaded ", n, " tensors"): the parts are written one after another.
template <class... Parts>
void log(LogLevel level, const Parts&... parts) {
  if (!log_enabled(level)) return;
  std::ostringstream message;
  (message << ... << parts);
  write_log(level, message.str());
}

}  // namespace carat
