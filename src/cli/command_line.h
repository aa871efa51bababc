// The flags of every command, parsed and handed to the command as a plain struct.
#pragma once

namespace carat {

/// Parses, runs the command and turns errors into one line on stderr. Returns the exit code: 0 ok, 1 error (a
/// bad file, a failed check), 2 usage, 130 interrupted.
int run_command_line(int argc, char** argv);

}  // namespace carat
