// Any bytes as a safetensors file: an Error of one line, or tensors that lie inside the file and match their
// shapes.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "io/safetensors_header.h"

namespace carat {
namespace {

void check_file(std::span<const std::byte> file) {
  try {
    const std::byte* next = nullptr;
    for (const Tensor& tensor : parse_safetensors(file, "fuzz")) {
      CHECK(tensor.bytes.data() >= file.data());
      CHECK(tensor.bytes.data() + tensor.bytes.size() <= file.data() + file.size());
      CHECK(!next || tensor.bytes.data() == next);
      next = tensor.bytes.data() + tensor.bytes.size();
      if (tensor.dtype == DType::other) continue;
      std::size_t bytes = size_bytes(tensor.dtype);
      for (const int64_t dimension : tensor.shape) {
        CHECK(dimension >= 0);
        bytes *= static_cast<std::size_t>(dimension);
      }
      CHECK(bytes == tensor.bytes.size());
    }
  } catch (const Error& error) {
    CHECK(std::string_view(error.what()).find('\n') == std::string_view::npos);
  }
}

}  // namespace
}  // namespace carat

/// The first byte chooses: 0 takes the rest as a whole file; another value n takes it as a header, to which
/// the right length and n - 1 bytes of data are added, so that the fuzzer need not discover the length field.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  if (data[0] == 0) {
    carat::check_file(std::as_bytes(std::span(data + 1, size - 1)));
    return 0;
  }
  std::string file;
  const uint64_t header_bytes = size - 1;
  for (int i = 0; i < 8; ++i) file.push_back(static_cast<char>(header_bytes >> 8 * i & 255));
  file.append(reinterpret_cast<const char*>(data) + 1, size - 1).append(data[0] - std::size_t{1}, 'd');
  carat::check_file(std::as_bytes(std::span(file)));
  return 0;
}
