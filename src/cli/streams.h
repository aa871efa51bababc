// Standard input and output as the commands use them.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>

namespace carat {

/// Writes and flushes all of `text`. False when the reader has closed the pipe, which ends a command quietly.
/// Throws Error{unavailable} for any other failure, such as a full disk. Needs SIGPIPE to be ignored.
bool write_stdout(std::string_view text);

/// To the end. Throws Error{unavailable}.
std::string read_stdin();
/// A whole file. Throws Error{not_found}.
std::string read_file(const std::filesystem::path& path);

}  // namespace carat
