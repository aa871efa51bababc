#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace carat {

MappedFile::MappedFile(const std::filesystem::path& path, std::size_t most_bytes) : path_(path) {
  // O_NONBLOCK: opening a FIFO returns at once instead of waiting for a writer; regular files don't care.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) fail(ErrorKind::not_found, path.string(), ": ", std::strerror(errno));
  struct stat info{};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd);
    fail(ErrorKind::not_found, path.string(), ": not a regular file");
  }
  size_ = static_cast<std::size_t>(info.st_size);
  if (size_ > most_bytes) {
    ::close(fd);
    fail(ErrorKind::corrupt, path.string(), ": ", size_, " bytes; a file of this kind has at most ",
         most_bytes);
  }
  if (size_ > 0) {  // mmap refuses length 0; an empty file is an empty span
    void* data = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
    const int error = errno;
    ::close(fd);
    if (data == MAP_FAILED) fail(ErrorKind::unavailable, path.string(), ": mmap: ", std::strerror(error));
    data_ = static_cast<const std::byte*>(data);
  } else {
    ::close(fd);
  }
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

void MappedFile::advise(std::size_t offset, std::size_t length, Access access) const {
  if (!data_) return;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t start = offset / page * page;
  // Advice only: a kernel that refuses it costs speed, never correctness.
  ::madvise(const_cast<std::byte*>(data_) + start, length + (offset - start),
            access == Access::random ? MADV_RANDOM : MADV_SEQUENTIAL);
}

void prefetch_pages(std::span<const std::byte> mapped) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<std::uintptr_t>(mapped.data());
  const std::uintptr_t start = address / page * page;
  ::madvise(reinterpret_cast<void*>(start), address - start + mapped.size(), MADV_WILLNEED);
}

}  // namespace carat
