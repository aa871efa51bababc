#include "io/part_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace carat {
namespace fs = std::filesystem;
namespace {

constexpr const char* kLockName = ".writing";

void sync(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool done = fd >= 0 && ::fsync(fd) == 0;
  const int error = errno;
  if (fd >= 0) ::close(fd);
  if (!done)
    fail(ErrorKind::unavailable, path.string(), ": can't be written to the disk: ", std::strerror(error));
}

}  // namespace

PartDirectory::PartDirectory(fs::path target) : target_(target.lexically_normal()) {
  if (target_.filename().empty()) target_ = target_.parent_path();  // "out/", "out/."
  part_ = target_.string() + ".part";
  std::error_code error;
  if (fs::exists(fs::symlink_status(target_, error))) {
    fail(ErrorKind::invalid_argument, target.string(), " exists already; name a new directory");
  }
  if (fs::exists(fs::symlink_status(part_, error))) remove_leftover();
  fs::create_directories(part_, error);
  if (error) fail(ErrorKind::unavailable, part_.string(), ": can't be created: ", error.message());
  lock();
}

PartDirectory::~PartDirectory() {
  std::error_code ignored;
  fs::remove_all(part_, ignored);
  if (lock_ >= 0) ::close(lock_);
}

/// Only what a run of ours made and no longer writes is removed.
void PartDirectory::remove_leftover() const {
  std::error_code error;
  const int lock = ::open((part_ / kLockName).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (lock < 0) {
    if (fs::is_empty(part_, error) && !error) return;
    fail(ErrorKind::invalid_argument, part_.string(),
         " exists and is not what an interrupted run left; move it away or name another directory");
  }
  const bool free = ::flock(lock, LOCK_EX | LOCK_NB) == 0;
  if (free) fs::remove_all(part_, error);
  ::close(lock);
  if (!free) fail(ErrorKind::invalid_argument, part_.string(), ": another program is writing it");
  if (error) fail(ErrorKind::unavailable, part_.string(), ": can't be removed: ", error.message());
}

void PartDirectory::lock() {
  const fs::path path = part_ / kLockName;
  lock_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (lock_ >= 0 && ::flock(lock_, LOCK_EX | LOCK_NB) == 0) return;
  const int error = errno;
  if (lock_ >= 0) ::close(lock_);
  fail(ErrorKind::unavailable, path.string(), ": can't be created: ", std::strerror(error));
}

void PartDirectory::commit() {
  std::error_code error;
  fs::remove(part_ / kLockName, error);
  for (const fs::directory_entry& entry : fs::directory_iterator(part_, error)) sync(entry.path());
  if (error) fail(ErrorKind::unavailable, part_.string(), ": can't be listed: ", error.message());
  sync(part_);
  fs::rename(part_, target_, error);
  if (error) {
    fail(ErrorKind::unavailable, part_.string(), ": can't be renamed to ", target_.string(), ": ",
         error.message());
  }
  const fs::path parent = target_.parent_path();
  sync(parent.empty() ? fs::path(".") : parent);
}

}  // namespace carat
