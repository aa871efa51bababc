#include "base/cpu_count.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#ifdef __linux__
#include <sched.h>
#endif

#include "base/cgroup.h"

namespace carat {
namespace {

std::optional<double> parse_number(std::string_view text) {
  double value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc{} || result.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> smaller(std::optional<double> a, std::optional<double> b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

std::optional<double> v1_quota(const std::filesystem::path& directory) {
  const auto quota = parse_number(first_line(directory / "cpu.cfs_quota_us"));
  const auto period = parse_number(first_line(directory / "cpu.cfs_period_us"));
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return *quota / *period;
}

/// CPUs of the affinity mask, hardware threads of one core counted once: a second thread per core adds
/// nothing to code that fills the load or FMA ports, and two spinning siblings slow each other down.
int allowed_cores() {
#ifdef __linux__
  std::vector<cpu_set_t> mask(16);  // room for 16384 CPUs
  const std::size_t mask_bytes = mask.size() * sizeof(cpu_set_t);
  if (::sched_getaffinity(0, mask_bytes, mask.data()) == 0) {
    std::set<std::pair<std::string, std::string>> cores;
    for (int cpu = 0; cpu < static_cast<int>(mask_bytes * 8); ++cpu) {
      if (!CPU_ISSET_S(static_cast<std::size_t>(cpu), mask_bytes, mask.data())) continue;
      const std::string id = std::to_string(cpu);
      const std::filesystem::path topology = "/sys/devices/system/cpu/cpu" + id + "/topology";
      const std::string package = first_line(topology / "physical_package_id"),
                        core = first_line(topology / "core_id");
      cores.emplace(core.empty() ? "cpu" + id : package, core.empty() ? id : core);
    }
    return static_cast<int>(cores.size());
  }
#endif
  return static_cast<int>(std::thread::hardware_concurrency());
}

}  // namespace

std::optional<double> parse_cpu_max(std::string_view text) {
  const std::size_t space = text.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  const auto quota = parse_number(text.substr(0, space)), period = parse_number(text.substr(space + 1));
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;  // "max" has no number
  return *quota / *period;
}

std::optional<double> cgroup_cpu_quota(const std::filesystem::path& root, std::string_view group) {
  std::optional<double> quota;
  for (const std::filesystem::path& directory : cgroup_directories(root, group)) {
    quota = smaller(quota, parse_cpu_max(first_line(directory / "cpu.max")));
  }
  return quota ? quota : v1_quota(root / "cpu");
}

int usable_cpu_count() {
  int count = allowed_cores();
  if (const auto quota = cgroup_cpu_quota(kCgroupRoot, own_cgroup())) {
    count = static_cast<int>(std::min<double>(count, std::ceil(*quota)));
  }
  return std::max(count, 1);
}

}  // namespace carat
