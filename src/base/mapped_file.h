// A read-only memory map of a whole file. The map follows the file: whoever cuts it while it is mapped takes
// the process down (SIGBUS), as with any mmap; replacing the file (write a new one, rename) is safe.
#pragma once
#include <cstddef>
#include <filesystem>
#include <limits>
#include <span>
#include <string_view>

namespace carat {

/// Most bytes of config.json and the other small files of a checkpoint.
inline constexpr std::size_t kMostConfigBytes = std::size_t{16} << 20;

class MappedFile {
 public:
  enum class Access { sequential, random };

  /// Throws Error{not_found} when the file can't be opened or is not a regular file, Error{unavailable} when
  /// it can't be mapped, Error{corrupt} when it is larger than `most_bytes`: parsing it whole would take long
  /// and much memory, and no real file of its kind comes near.
  explicit MappedFile(const std::filesystem::path& path,
                      std::size_t most_bytes = std::numeric_limits<std::size_t>::max());
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  const std::filesystem::path& path() const { return path_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }
  /// Tells the kernel how [offset, offset + length) will be read.
  void advise(std::size_t offset, std::size_t length, Access access) const;

 private:
  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Starts reading mapped bytes from the disk where they are not in memory yet, without waiting for them.
void prefetch_pages(std::span<const std::byte> mapped);

}  // namespace carat
