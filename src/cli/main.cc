// The `carat` program: everything it can do is in the commands; see command_line.cc for their flags.
#include "cli/command_line.h"

int main(int argc, char** argv) { return carat::run_command_line(argc, argv); }
