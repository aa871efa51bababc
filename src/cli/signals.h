// What signals do to the program.
#pragma once

namespace carat {

/// For the whole program: a closed pipe or a full disk is a write that fails, and a model file that is cut
/// while it is mapped ends the program with a line that says so instead of a crash.
void set_up_signals();

/// The first of these signals calls `handler`, the second one ends the program. One that was ignored when the
/// program began, as nohup does with SIGHUP, stays ignored.
void catch_first(int signal, void (*handler)(int));

}  // namespace carat
