// Standard input and output as the commands use them.
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace carat {

/// Takes the place of standard streams that the program was started without, so that no file it opens is
/// mistaken for one. Using one is still an error.
void hold_standard_streams();

/// Writes and flushes all of `text`. False when the reader has closed the pipe, which ends a command quietly.
/// Throws Error{unavailable} for any other failure, such as a full disk. Needs SIGPIPE to be ignored.
bool write_stdout(std::string_view text);

/// Prompts and texts: more than any context holds, little enough to keep in memory.
inline constexpr std::size_t kMostTextBytes = std::size_t{1} << 30;

/// To the end. Throws Error{unavailable}, also for more than kMostTextBytes.
std::string read_stdin();
/// Standard input line by line.
class LineReader {
 public:
  /// The next line without its newline; false at the end. Throws as read_stdin().
  bool next(std::string& line);
  /// Whether next() has a whole line without reading.
  bool has_line() const { return buffer_.find('\n', at_) != std::string::npos; }

 private:
  std::string buffer_;
  std::size_t at_ = 0;  // where the next line begins
};

/// A whole file or pipe. Throws Error{not_found}, or Error{unavailable} as read_stdin().
std::string read_file(const std::filesystem::path& path);

/// "carat: MESSAGE" on standard error, on one line and unable to drive a terminal, whatever a file or a user
/// put into it. All errors and warnings go through here.
void print_message(std::string_view message);

/// Prints "carat: warning: ..."; empty when `quiet`. For load_model() and its like.
std::function<void(const std::string&)> warning_printer(bool quiet);

}  // namespace carat
