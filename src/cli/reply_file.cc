#include "cli/reply_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace carat {

ReplyFile::ReplyFile(const std::filesystem::path& path) : name_(path.string()) {
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd_ < 0) fail_to("can't be opened");
  try {
    struct stat info{};
    if (::fstat(fd_, &info) != 0) fail_to("can't be read");
    if (!S_ISREG(info.st_mode)) fail(ErrorKind::unavailable, name_, ": not a regular file");
    if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) fail(ErrorKind::unavailable, name_, ": another process is writing it");
      fail_to("can't be locked");
    }
    read_replies();
    if (end_ < info.st_size && ::ftruncate(fd_, end_) != 0) fail_to("its cut-off last line can't be removed");
    if (::lseek(fd_, end_, SEEK_SET) < 0) fail_to("can't be written");
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

ReplyFile::~ReplyFile() { ::close(fd_); }

void ReplyFile::fail_to(const char* what) const {
  fail(ErrorKind::unavailable, name_, ": ", what, ": ", std::strerror(errno));
}

void ReplyFile::read_replies() {
  std::string rest, block(std::size_t{1} << 20, '\0');
  uint64_t number = 0;
  for (;;) {
    const ssize_t count = ::read(fd_, block.data(), block.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_to("can't be read");
    if (count == 0) break;
    rest.append(block, 0, static_cast<std::size_t>(count));
    std::size_t first = 0;
    for (std::size_t end; (end = rest.find('\n', first)) != rest.npos; first = end + 1) {
      read_line(std::string_view(rest).substr(first, end - first), ++number);
      end_ += static_cast<int64_t>(end - first) + 1;
    }
    rest.erase(0, first);
  }
  const std::string_view common = std::string_view(kReplyBegins).substr(0, rest.size());
  if (!rest.starts_with(common))
    fail(ErrorKind::corrupt, name_, ": its last line is not a reply of carat batch; give another file");
}

void ReplyFile::read_line(std::string_view line, uint64_t number) {
  constexpr uint64_t kMostRequests = uint64_t{1} << 28;
  try {
    const BatchReplyId reply = parse_batch_reply(line);
    if (reply.index >= kMostRequests) fail(ErrorKind::corrupt, "has index ", reply.index, ", which can't be");
    mark(reply);
  } catch (const Error& error) {
    fail(ErrorKind::corrupt, name_, ": line ", number, " ", error.what(), "; give another file");
  }
}

void ReplyFile::mark(const BatchReplyId& reply) {
  if (reply.index >= hashes_.size()) hashes_.resize(reply.index + 1);
  hashes_[reply.index] = reply.line_hash;
  ++replies_;
  if (reply.failed) ++failed_;
}

bool ReplyFile::has(uint64_t index, uint32_t line_hash) const {
  if (index >= hashes_.size() || hashes_[index] == 0) return false;
  if (hashes_[index] == line_hash) return true;
  fail(ErrorKind::invalid_argument, name_, ": the reply with index ", index,
       " is to another request than line ", index + 1,
       " of the input has now; remove that reply to have the line answered, or give another file");
}

void ReplyFile::check_end(uint64_t lines) const {
  if (hashes_.size() <= lines) return;
  fail(ErrorKind::invalid_argument, name_, ": the input now ends before the request of the reply with index ",
       hashes_.size() - 1, "; remove that reply, or give another file");
}

void ReplyFile::append(std::string_view line, const BatchReplyId& reply) {
  for (std::string_view left = line; !left.empty();) {
    const ssize_t count = ::write(fd_, left.data(), left.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      const int why = errno;
      if (::ftruncate(fd_, end_) == 0) ::lseek(fd_, end_, SEEK_SET);
      errno = why;
      fail_to("can't be written");
    }
    left.remove_prefix(static_cast<std::size_t>(count));
  }
  end_ += static_cast<int64_t>(line.size());
  mark(reply);
  has_unsynced_ = true;
  sync_if_due();
}

void ReplyFile::sync_if_due() {
  if (has_unsynced_ && std::chrono::steady_clock::now() - synced_ >= std::chrono::seconds(1)) sync();
}

void ReplyFile::sync() {
  if (::fdatasync(fd_) != 0) fail_to("can't be written to the disk");
  has_unsynced_ = false;
  synced_ = std::chrono::steady_clock::now();
}

}  // namespace carat
