#include "base/cgroup.h"

#include <algorithm>
#include <charconv>
#include <fstream>

namespace carat {
namespace {

/// None for "max", which says that there is no limit, and for a missing file.
std::optional<uint64_t> read_bytes(const std::filesystem::path& path) {
  const std::string text = first_line(path);
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

uint64_t page_cache_bytes(const std::filesystem::path& memory_stat) {
  uint64_t total = 0, value = 0;
  std::ifstream file(memory_stat);
  for (std::string key; file >> key >> value;) {
    if (key == "active_file" || key == "inactive_file") total += value;
  }
  return total;
}

}  // namespace

std::string own_cgroup() {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("0::")) return line.substr(3);
  }
  return "/";
}

std::vector<std::filesystem::path> cgroup_directories(const std::filesystem::path& root,
                                                      std::string_view group) {
  std::vector<std::filesystem::path> directories;
  std::filesystem::path relative = std::filesystem::path(group).relative_path();
  for (; !relative.empty(); relative = relative.parent_path()) directories.push_back(root / relative);
  directories.push_back(root);
  return directories;
}

std::string first_line(const std::filesystem::path& path) {
  std::string line;
  std::getline(std::ifstream(path) >> std::ws, line);
  return line;
}

std::optional<uint64_t> cgroup_free_bytes(const std::filesystem::path& root, std::string_view group) {
  std::optional<uint64_t> least;
  for (const std::filesystem::path& directory : cgroup_directories(root, group)) {
    const auto limit = read_bytes(directory / "memory.max");
    if (!limit) continue;
    const uint64_t charged = read_bytes(directory / "memory.current").value_or(0);
    const uint64_t used = charged - std::min(charged, page_cache_bytes(directory / "memory.stat"));
    const uint64_t left = *limit - std::min(*limit, used);
    least = std::min(least.value_or(left), left);
  }
  return least;
}

}  // namespace carat
