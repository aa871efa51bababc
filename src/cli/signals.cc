#include "cli/signals.h"

#include <unistd.h>

#include <csignal>
#include <string_view>

namespace carat {
namespace {

/// Only calls that are safe in a signal handler.
void end_on_bus_error(int) {
  constexpr std::string_view kMessage = "carat: a model file was changed while in use\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kMessage.data(), kMessage.size());
  ::_exit(1);
}

void set_action(int signal, void (*handler)(int), int flags) {
  struct sigaction action{};
  action.sa_handler = handler;
  action.sa_flags = flags;
  ::sigaction(signal, &action, nullptr);
}

}  // namespace

void set_up_signals() {
  set_action(SIGPIPE, SIG_IGN, 0);
  set_action(SIGXFSZ, SIG_IGN, 0);
  set_action(SIGBUS, end_on_bus_error, 0);
}

void catch_first(int signal, void (*handler)(int)) {
  struct sigaction before{};
  if (::sigaction(signal, nullptr, &before) == 0 && before.sa_handler == SIG_IGN) return;
  set_action(signal, handler, static_cast<int>(SA_RESETHAND));
}

}  // namespace carat
