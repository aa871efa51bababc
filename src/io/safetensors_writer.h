// Writes one safetensors file, tensor after tensor, without holding it in memory.
#pragma once
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "io/safetensors.h"

namespace carat {

struct TensorHeader {
  std::string name;
  DType dtype;
  std::vector<int64_t> shape;
};

class SafetensorsWriter {
 public:
  /// Writes the header. The file has the name `path` only after finish(); until then it is called path +
  /// ".part", which the destructor removes. All members throw Error{unavailable} when writing fails, as on a
  /// full disk.
  SafetensorsWriter(const std::filesystem::path& path, std::span<const TensorHeader> tensors,
                    const std::map<std::string, std::string>& metadata);
  ~SafetensorsWriter();
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  /// The next bytes of the data: the tensors in the order of the header, without gaps.
  void write(std::span<const std::byte> bytes);
  void finish();

 private:
  void check(const char* what);

  std::filesystem::path path_, part_;
  std::ofstream file_;
  std::size_t left_ = 0;  // bytes of data still to come
};

}  // namespace carat
