// Runs the built `carat` on a terminal of its own, as a user sits before it.
#pragma once
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/child.h"
#include "support/temp_directory.h"

namespace carat {

class Terminal {
 public:
  /// `home`: where the program may keep its history; by default a place of this terminal alone.
  explicit Terminal(std::vector<std::string> args, std::string home = {}) {
    if (home.empty()) home = home_.path();
    struct winsize size{24, 80, 0, 0};
    pid_ = ::forkpty(&fd_, nullptr, nullptr, &size);
    if (pid_ < 0) throw std::runtime_error("no terminal to be had");
    if (pid_ > 0) return;
    ::setenv("XDG_STATE_HOME", home.c_str(), 1);
    args.insert(args.begin(), CARAT_PROGRAM);
    std::vector<char*> argv;
    for (std::string& arg : args) argv.push_back(arg.data());
    argv.push_back(nullptr);
    reset_signals();
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  ~Terminal() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    ::close(fd_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void type(std::string_view keys) const {
    ASSERT_EQ(::write(fd_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }

  /// Waits until `text` comes; returns what came before it since the last wait, and fails when it doesn't.
  std::string wait_for(std::string_view text) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(120);
    while (std::chrono::steady_clock::now() < end) {
      if (const std::size_t at = seen_.find(text); at != seen_.npos) {
        const std::string before = seen_.substr(0, at);
        seen_.erase(0, at + text.size());
        return before;
      }
      if (!read_more()) break;
    }
    ADD_FAILURE() << "\"" << text << "\" didn't come; on the screen: " << seen_;
    return {};
  }

  /// The exit code, once the program has ended.
  int wait() {
    while (read_more()) {
    }
    return wait_for_end(std::exchange(pid_, -1));
  }
  const std::string& rest() const { return seen_; }

 private:
  /// False when the program has closed the terminal, or nothing comes for a long time.
  bool read_more() {
    struct pollfd ready{fd_, POLLIN, 0};
    if (::poll(&ready, 1, 60'000) <= 0) return false;
    char buffer[4096];
    const ssize_t count = ::read(fd_, buffer, sizeof buffer);
    if (count <= 0) return false;
    seen_.append(buffer, static_cast<std::size_t>(count));
    return true;
  }

  TempDirectory home_;
  int fd_ = -1;
  pid_t pid_ = -1;
  std::string seen_;
};

}  // namespace carat
