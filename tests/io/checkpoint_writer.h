// Writes safetensors files for tests: right ones from tensors, wrong ones from any header and data.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace carat {

struct TensorToWrite {
  std::string name, dtype;  // dtype as in the file: "F32"
  std::vector<int64_t> shape;
  std::string bytes;
};

/// A file of any header, data and claimed header length (by default the true one).
inline std::string safetensors_file(std::string_view header, std::string_view data, int64_t claimed = -1) {
  const uint64_t length = claimed < 0 ? header.size() : static_cast<uint64_t>(claimed);
  std::string file;
  for (int i = 0; i < 8; ++i) file.push_back(static_cast<char>(length >> 8 * i & 255));
  return file.append(header).append(data);
}

/// A valid file of these tensors, one after another.
inline std::string safetensors_file(const std::vector<TensorToWrite>& tensors) {
  std::string header = "{", data;
  for (const TensorToWrite& t : tensors) {
    if (header.size() > 1) header += ",";
    header += "\"" + t.name + "\":{\"dtype\":\"" + t.dtype + "\",\"shape\":[";
    for (std::size_t i = 0; i < t.shape.size(); ++i) header += (i ? "," : "") + std::to_string(t.shape[i]);
    header += "],\"data_offsets\":[" + std::to_string(data.size()) + ",";
    data += t.bytes;
    header += std::to_string(data.size()) + "]}";
  }
  return safetensors_file(header + "}", data);
}

}  // namespace carat
