#include "io/safetensors_writer.h"

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/error.h"

namespace carat {
namespace {

std::size_t data_bytes(const TensorHeader& tensor) {
  std::size_t bytes = size_bytes(tensor.dtype);
  for (const int64_t size : tensor.shape) bytes *= static_cast<std::size_t>(size);
  return bytes;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path, std::span<const TensorHeader> tensors,
                                     const std::map<std::string, std::string>& metadata)
    : path_(path), part_(path.string() + ".part"), file_(part_, std::ios::binary | std::ios::trunc) {
  check("can't be created");
  nlohmann::ordered_json header;
  if (!metadata.empty()) header["__metadata__"] = metadata;
  for (const TensorHeader& tensor : tensors) {
    const std::size_t begin = left_;
    left_ += data_bytes(tensor);
    header[tensor.name] = {
        {"dtype", name(tensor.dtype)}, {"shape", tensor.shape}, {"data_offsets", {begin, left_}}};
  }
  std::string text = header.dump();
  text.append((64 - (text.size() + 8) % 64) % 64,
              ' ');  // so that the data begins on a cache line of the mapped file
  static_assert(std::endian::native == std::endian::little);
  const uint64_t length = text.size();
  std::array<char, sizeof length> prefix;
  std::memcpy(prefix.data(), &length, sizeof length);
  file_.write(prefix.data(), prefix.size());
  file_.write(text.data(), static_cast<std::streamsize>(text.size()));
  check("can't be written");
}

SafetensorsWriter::~SafetensorsWriter() {
  file_.close();
  std::error_code ignored;
  std::filesystem::remove(part_, ignored);  // gone already after finish()
}

void SafetensorsWriter::write(std::span<const std::byte> bytes) {
  CHECK(bytes.size() <= left_);
  left_ -= bytes.size();
  file_.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  check("can't be written");
}

void SafetensorsWriter::finish() {
  CHECK(left_ == 0);
  file_.close();
  check("can't be written");
  std::error_code error;
  std::filesystem::rename(part_, path_, error);
  if (error)
    fail(ErrorKind::unavailable, path_.string(), ": can't be renamed from ", part_.string(), ": ",
         error.message());
}

void SafetensorsWriter::check(const char* what) {
  if (!file_) fail(ErrorKind::unavailable, part_.string(), ": ", what, ": ", std::strerror(errno));
}

}  // namespace carat
