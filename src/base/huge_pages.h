// Anonymous memory in 2 MiB pages, for weights that are streamed: two threads read it twice as fast as the 4
// KiB pages of a mapped file, because every page miss and every stop of the hardware prefetcher at a page's
// end falls away.
#pragma once
#include <cstddef>
#include <span>

namespace carat {

/// Zeroed memory that becomes resident page by page when it is first written; a page lies on the node of the
/// thread that writes it first.
class HugePages {
 public:
  static constexpr std::size_t kPageBytes = std::size_t{2} << 20;

  HugePages() = default;
  /// Throws Error{out_of_memory}, naming `purpose`, when the address range can't be had.
  HugePages(std::size_t bytes, const char* purpose);
  ~HugePages();
  HugePages(HugePages&& other) noexcept;
  HugePages& operator=(HugePages&& other) noexcept;

  /// Aligned to 2 MiB.
  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::span<std::byte> mapping_;  // what was mapped: up to one page more, for the alignment
};

/// Bytes of memory this process may still take: what the machine and its cgroup (v2) have free, at least 1; 0
/// when unknown.
std::size_t available_memory_bytes();

}  // namespace carat
