#include "io/safetensors.h"

#include <set>
#include <string>

#include "base/error.h"
#include "base/utf8.h"
#include "io/json_object.h"
#include "io/safetensors_header.h"

namespace carat {
namespace fs = std::filesystem;
namespace {

/// True also for a dangling link (an interrupted download): opening it then says what is wrong.
bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::symlink_status(path, ignored).type() != fs::file_type::not_found;
}

void check_directory(const fs::path& directory) {
  std::error_code error;
  const fs::file_status status = fs::status(directory, error);
  if (status.type() == fs::file_type::not_found) {
    fail(ErrorKind::not_found, directory.string(), ": no such directory");
  }
  if (error) fail(ErrorKind::not_found, directory.string(), ": ", error.message());
  if (status.type() != fs::file_type::directory) {
    fail(ErrorKind::not_found, directory.string(),
         ": not a directory; give the folder that holds config.json");
  }
}

/// The shard that each tensor lies in.
std::map<std::string, std::string> read_index(const fs::path& path) {
  const MappedFile file(path, kMostConfigBytes);
  const JsonObject weight_map = JsonObject::parse(file.text(), path.string()).object("weight_map");
  std::map<std::string, std::string> shards;
  for (const std::string& tensor : weight_map.keys()) {
    const std::string shard = weight_map.string(tensor, "");
    // A shard is a file beside the index: nothing in a download may make us open files elsewhere.
    if (shard.empty() || shard == "." || shard == ".." ||
        shard.find_first_of(std::string_view("/\\\0", 3)) != shard.npos) {
      fail(ErrorKind::corrupt, path.string(), ": tensor ", in_quotes(tensor), ": the shard ",
           in_quotes(shard), " is not a plain file name");
    }
    shards.emplace(tensor, shard);
  }
  if (shards.empty()) fail(ErrorKind::corrupt, path.string(), ": weight_map lists no tensor");
  return shards;
}

}  // namespace

std::shared_ptr<const Checkpoint> Checkpoint::open(const fs::path& directory) {
  check_directory(directory);
  const std::shared_ptr<Checkpoint> checkpoint(new Checkpoint);
  checkpoint->directory_ = directory;
  const fs::path single = directory / "model.safetensors", index = directory / "model.safetensors.index.json";
  if (is_there(single)) {
    checkpoint->add_file(single);
    return checkpoint;
  }
  if (!is_there(index)) {
    fail(ErrorKind::not_found, directory.string(),
         ": no model.safetensors and no model.safetensors.index.json; other weight formats are not read");
  }
  const std::map<std::string, std::string> shard_of = read_index(index);
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : shard_of) shards.insert(shard);
  for (const std::string& shard : shards) {
    if (!is_there(directory / shard)) {
      fail(ErrorKind::not_found, (directory / shard).string(), ": missing; ", index.filename().string(),
           " names it as a shard");
    }
    checkpoint->add_file(directory / shard);
  }
  for (const auto& [tensor, shard] : shard_of) {
    const Tensor* found = checkpoint->find(tensor);
    if (!found || checkpoint->file_name(*found) != shard) {
      fail(ErrorKind::corrupt, (directory / shard).string(), ": tensor ", in_quotes(tensor),
           " is not in it, although ", index.filename().string(), " says so");
    }
  }
  return checkpoint;
}

void Checkpoint::add_file(const fs::path& path) {
  const int file = static_cast<int>(files_.size());
  files_.emplace_back(path);
  for (Tensor& tensor : parse_safetensors(files_.back().bytes(), path.string())) {
    tensor.file = file;
    const auto [place, added] = tensors_.try_emplace(tensor.name, std::move(tensor));
    if (!added) {
      fail(ErrorKind::corrupt, path.string(), ": tensor ", in_quotes(place->first), " is also in ",
           file_name(place->second));
    }
  }
}

const Tensor* Checkpoint::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

std::string Checkpoint::file_name(const Tensor& tensor) const {
  return files_[static_cast<std::size_t>(tensor.file)].path().filename().string();
}

std::string Checkpoint::path(const Tensor& tensor) const {
  return files_[static_cast<std::size_t>(tensor.file)].path().string();
}

}  // namespace carat
