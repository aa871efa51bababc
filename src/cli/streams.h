// Standard input and output as the commands use them.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>

namespace carat {

/// Writes and flushes all of `text`. False when the reader has closed the pipe, which ends a command quietly.
/// Throws Error{unavailable} for any other failure, such as a full disk. Needs SIGPIPE to be ignored.
bool write_stdout(std::string_view text);

/// Prompts and texts: more than any context holds, little enough to keep in memory.
inline constexpr std::size_t kMostTextBytes = std::size_t{1} << 30;

/// To the end. Throws Error{unavailable}, also for more than kMostTextBytes.
std::string read_stdin();
/// A whole file or pipe. Throws Error{not_found}, or Error{unavailable} as read_stdin().
std::string read_file(const std::filesystem::path& path);

/// "carat: MESSAGE" on standard error, on one line and unable to drive a terminal, whatever a file or a user
/// put into it. All errors and warnings go through here.
void print_message(std::string_view message);

}  // namespace carat
