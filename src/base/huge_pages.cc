#include "base/huge_pages.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <utility>

#include "base/cgroup.h"
#include "base/error.h"
#include "base/memory_text.h"

namespace carat {

HugePages::HugePages(std::size_t bytes, const char* purpose) {
  if (bytes == 0) return;
  size_ = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  const std::size_t mapped_bytes = size_ + kPageBytes;
  void* mapped = MAP_FAILED;
  errno = ENOMEM;  // of a size so large that it overflows when rounded up
  if (mapped_bytes > bytes) {
    mapped = ::mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  }
  if (mapped == MAP_FAILED) {
    fail(ErrorKind::out_of_memory, memory_text_up(bytes), " for ", purpose, ": ", std::strerror(errno));
  }
  mapping_ = {static_cast<std::byte*>(mapped), mapped_bytes};
  const auto address = reinterpret_cast<std::uintptr_t>(mapped);
  data_ = mapping_.data() + ((address + kPageBytes - 1) / kPageBytes * kPageBytes - address);
#ifdef MADV_HUGEPAGE
  ::madvise(data_, size_, MADV_HUGEPAGE);  // advice: without it only speed is lost
#endif
}

HugePages::~HugePages() {
  if (!mapping_.empty()) ::munmap(mapping_.data(), mapping_.size());
}

HugePages::HugePages(HugePages&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      mapping_(std::exchange(other.mapping_, {})) {}

HugePages& HugePages::operator=(HugePages&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(mapping_, other.mapping_);
  return *this;
}

std::size_t available_memory_bytes() {
  std::optional<uint64_t> available = cgroup_free_bytes(kCgroupRoot, own_cgroup());
  std::ifstream meminfo("/proc/meminfo");
  std::string rest;
  for (std::string key; meminfo >> key; std::getline(meminfo, rest)) {
    uint64_t kib = 0;
    if (key != "MemAvailable:" || !(meminfo >> kib)) continue;
    available = std::min(available.value_or(kib << 10), kib << 10);
  }
  return available ? std::max<uint64_t>(*available, 1) : 0;
}

}  // namespace carat
