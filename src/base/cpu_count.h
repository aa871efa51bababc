// How many threads are worth starting: what scheduling, the container and the chip leave to this process.
#pragma once
#include <filesystem>
#include <optional>
#include <string_view>

namespace carat {

/// Physical cores this process may run on, at most its cgroup's CPU quota rounded up; at least 1.
int usable_cpu_count();

/// The quota of one cgroup v2 `cpu.max` file ("max 100000", "150000 100000") in CPUs; none when unlimited or
/// not understood.
std::optional<double> parse_cpu_max(std::string_view text);

/// The smallest quota of the cgroup v2 group `group` ("/a/b") and its ancestors below `root`, or of v1's cpu
/// controller when there is no v2 file.
std::optional<double> cgroup_cpu_quota(const std::filesystem::path& root, std::string_view group);

}  // namespace carat
