// What tests that start the built `carat` as a child process share.
#pragma once
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>

#include <chrono>

#include "support/comes_true.h"

namespace carat {

/// For the child, before it becomes `carat`: signals end it even when the tests run where they are ignored,
/// as under nohup and in background jobs of scripts. `ignored` is one that stays ignored.
inline void reset_signals(int ignored = 0) {
  for (const int number : {SIGHUP, SIGINT, SIGTERM}) ::signal(number, number == ignored ? SIG_IGN : SIG_DFL);
}

/// The exit code, or 128 + signal when a signal ended it, as in a shell. A child that doesn't end is killed,
/// and the test fails.
inline int wait_for_end(pid_t child, std::chrono::seconds patience = std::chrono::seconds(300)) {
  int status = 0;
  if (!comes_true([&] { return ::waitpid(child, &status, WNOHANG) != 0; }, patience)) {
    ADD_FAILURE() << "the program didn't end within " << patience.count() << " s";
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace carat
