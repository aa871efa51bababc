// The control group (v2) of this process: who bounds its CPUs and its memory. Used by cpu_count and
// available_memory_bytes().
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace carat {

/// Where the hierarchy is mounted.
inline constexpr const char* kCgroupRoot = "/sys/fs/cgroup";

/// The group of this process, such as "/a/b"; "/" when unknown.
std::string own_cgroup();

/// The directories of `group` below `root` and of its ancestors, innermost first and `root` last: each of
/// them may set a limit.
std::vector<std::filesystem::path> cgroup_directories(const std::filesystem::path& root,
                                                      std::string_view group);

/// Empty when the file can't be read.
std::string first_line(const std::filesystem::path& path);

/// The least that `group` or one of its ancestors leaves: its memory.max minus what is in use, where the page
/// cache counts as free, since the kernel gives it back. None when there is no limit.
std::optional<uint64_t> cgroup_free_bytes(const std::filesystem::path& root, std::string_view group);

}  // namespace carat
