#include "cli/streams.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"

namespace carat {
namespace {

/// Appends what there is, at least a byte. False at the end.
bool read_some(int fd, const std::string& name, std::string& text) {
  char buffer[1 << 16];
  for (;;) {
    const ssize_t count = ::read(fd, buffer, sizeof buffer);
    if (count == 0) return false;
    if (count > 0 && text.size() + static_cast<std::size_t>(count) > kMostTextBytes) {
      fail(ErrorKind::unavailable, name, ": more than ", kMostTextBytes, " bytes; give a part of it");
    }
    if (count > 0) {
      text.append(buffer, static_cast<std::size_t>(count));
      return true;
    }
    if (errno != EINTR) fail(ErrorKind::unavailable, name, ": ", std::strerror(errno));
  }
}

std::string read_all(int fd, const std::string& name) {
  std::string text;
  while (read_some(fd, name, text)) {
  }
  return text;
}

}  // namespace

void hold_standard_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest free number is `fd`. The wrong direction makes reading or writing fail.
    [[maybe_unused]] const int held = ::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

bool write_stdout(std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(STDOUT_FILENO, text.data(), text.size());
    if (count >= 0) {
      text.remove_prefix(static_cast<std::size_t>(count));
    } else if (errno == EPIPE) {
      return false;
    } else if (errno != EINTR) {
      fail(ErrorKind::unavailable, "standard output: ", std::strerror(errno));
    }
  }
  return true;
}

void print_message(std::string_view message) {
  std::fprintf(stderr, "carat: %s\n", printable(message).c_str());
}

std::function<void(const std::string&)> warning_printer(bool quiet) {
  if (quiet) return {};
  return [](const std::string& warning) { print_message("warning: " + warning); };
}

std::string read_stdin() { return read_all(STDIN_FILENO, "standard input"); }

bool LineReader::next(std::string& line) {
  buffer_.erase(0, at_);
  at_ = 0;
  std::size_t searched = 0, newline = 0;
  while ((newline = buffer_.find('\n', searched)) == std::string::npos) {
    searched = buffer_.size();
    if (read_some(STDIN_FILENO, "standard input", buffer_)) continue;
    line = std::exchange(buffer_, {});
    return !line.empty();
  }
  line.assign(buffer_, 0, newline);
  at_ = newline + 1;
  return true;
}

std::string read_file(const std::filesystem::path& path) {
  struct File {
    int fd;
    ~File() {
      if (fd >= 0) ::close(fd);
    }
  } file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0) fail(ErrorKind::not_found, path.string(), ": ", std::strerror(errno));
  struct stat info{};
  if (::fstat(file.fd, &info) != 0 || (!S_ISREG(info.st_mode) && !S_ISFIFO(info.st_mode))) {
    fail(ErrorKind::not_found, path.string(), ": neither a regular file nor a pipe");
  }
  return read_all(file.fd, path.string());
}

}  // namespace carat
