// A Hugging Face checkpoint directory as a table of named, memory-mapped tensors.
// Format: https://huggingface.co/docs/safetensors (8-byte header length, JSON header, data).
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"

namespace carat {

/// `other`: a dtype this program has no use for, such as "F4". A tensor of that kind is listed like any
/// other, so that one in a vision tower doesn't stop the text model; whoever needs it must refuse it, with
/// `dtype_name`.
enum class DType { f64, f32, f16, bf16, i64, i32, i16, i8, u8, boolean, f8_e4m3, f8_e5m2, other };

/// Bytes of one element; 0 for `other`.
std::size_t size_bytes(DType dtype);
/// The name used in safetensors headers, such as "BF16".
std::string_view name(DType dtype);

struct Tensor {
  std::string name;
  DType dtype;
  std::vector<int64_t> shape;
  /// Row-major, little-endian, of any alignment: copy into floats rather than cast. Valid while the
  /// Checkpoint lives.
  std::span<const std::byte> bytes;
  int file;                // index into Checkpoint::files()
  std::string dtype_name;  // as the file spells it
};

/// Immutable after open(); safe to read from any thread.
class Checkpoint {
 public:
  /// Opens `model.safetensors`, or the shards that `model.safetensors.index.json` lists, in `directory`.
  /// Everything is validated before the first tensor is handed out: header bounds, shape times dtype equal to
  /// the span, spans that fill the file without overlap, gap or rest, each indexed tensor present in its
  /// shard. Throws Error{not_found} (no such directory, file or shard) or Error{corrupt} (naming file,
  /// tensor, numbers).
  static std::shared_ptr<const Checkpoint> open(const std::filesystem::path& directory);

  /// Null when there is no tensor of this name.
  const Tensor* find(std::string_view name) const;
  const std::map<std::string, Tensor, std::less<>>& tensors() const { return tensors_; }
  const std::vector<MappedFile>& files() const { return files_; }
  const std::filesystem::path& directory() const { return directory_; }
  /// The file a tensor lies in, for messages: its name alone, and with the directory.
  std::string file_name(const Tensor& tensor) const;
  std::string path(const Tensor& tensor) const;

 private:
  Checkpoint() = default;
  void add_file(const std::filesystem::path& path);

  std::filesystem::path directory_;
  std::vector<MappedFile> files_;
  std::map<std::string, Tensor, std::less<>> tensors_;
};

}  // namespace carat
