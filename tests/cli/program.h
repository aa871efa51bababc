// Runs the built `carat` as a user would, and says what it printed and how it ended.
#pragma once
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/demo_model.h"
#include "cli/child.h"
#include "support/temp_directory.h"

extern char** environ;

namespace carat {

const std::string kTestData = CARAT_SOURCE_DIR "/tests/data/";

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Finished {
  int code;  // 128 + signal when a signal ended it, as in a shell
  std::string out, err;
};

/// A running program. Its environment is ours without CARAT_* and HF_* variables, plus `environment`.
class Program {
 public:
  explicit Program(std::vector<std::string> args, std::string_view input = "",
                   std::vector<std::string> environment = {}) {
    const std::string in = files_.write("in", input), out = out_path(), err = err_path();
    start(std::move(args), std::move(environment), ::open(in.c_str(), O_RDONLY | O_CLOEXEC),
          ::open(out.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600),
          ::open(err.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  }
  /// With standard output going to `out`, which is closed here. The program begins with signal `ignored`
  /// ignored.
  Program(std::vector<std::string> args, int out, int ignored = 0) : ignored_(ignored) {
    start(std::move(args), {}, ::open("/dev/null", O_RDONLY | O_CLOEXEC), out,
          ::open(err_path().c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  }

  ~Program() {
    if (pid_ < 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  void interrupt() const { signal(SIGINT); }
  void signal(int number) const { ::kill(pid_, number); }

  /// What it has written to standard error so far.
  std::string errors() const { return read_text(err_path()); }

  Finished wait() {
    const int code = wait_for_end(std::exchange(pid_, -1));
    return {code, read_text(out_path()), read_text(err_path())};
  }

 private:
  std::string out_path() const { return files_.path() / "out"; }
  std::string err_path() const { return files_.path() / "err"; }

  static std::vector<char*> pointers(std::vector<std::string>& strings) {
    std::vector<char*> list;
    for (std::string& s : strings) list.push_back(s.data());
    list.push_back(nullptr);
    return list;
  }

  void start(std::vector<std::string> args, std::vector<std::string> environment, int in, int out, int err) {
    args.insert(args.begin(), CARAT_PROGRAM);
    for (char** variable = environ; *variable; ++variable) {
      const std::string_view text = *variable;
      if (text.rfind("CARAT_", 0) != 0 && text.rfind("HF_", 0) != 0) environment.emplace_back(text);
    }
    const std::vector<char*> argv = pointers(args), envp = pointers(environment);
    pid_ = ::fork();
    if (pid_ < 0) throw std::runtime_error("can't fork");
    if (pid_ == 0) {
      ::dup2(in, STDIN_FILENO);
      ::dup2(out, STDOUT_FILENO);
      ::dup2(err, STDERR_FILENO);
      reset_signals(ignored_);
      ::execve(argv[0], argv.data(), envp.data());
      ::_exit(127);
    }
    for (const int fd : {in, out, err}) ::close(fd);
  }

  TempDirectory files_;
  int ignored_ = 0;
  pid_t pid_ = -1;  // until wait()
};

inline Finished run_program(std::vector<std::string> args, std::string_view input = "",
                            std::vector<std::string> environment = {}) {
  return Program(std::move(args), input, std::move(environment)).wait();
}

/// One line, "carat: ...", and nothing on standard output.
inline void expect_one_line_error(const Finished& finished, int code, std::string_view part = "") {
  EXPECT_EQ(finished.code, code) << finished.err;
  EXPECT_EQ(finished.out, "");
  EXPECT_EQ(finished.err.rfind("carat: ", 0), 0u) << finished.err;
  EXPECT_EQ(finished.err.find('\n'), finished.err.size() - 1) << finished.err;
  EXPECT_NE(finished.err.find(part), std::string::npos) << "no \"" << part << "\" in: " << finished.err;
}

/// A copy of a checkpoint that a test may change.
inline void copy_checkpoint(const std::filesystem::path& from, const TempDirectory& to) {
  std::filesystem::copy(from, to.path(), std::filesystem::copy_options::recursive);
}

}  // namespace carat
