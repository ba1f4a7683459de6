#include "os/cgroup.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <fstream>

namespace thermocline::os {
namespace {

// The group `path` and every group around it.
void AddGroups(const std::string& mount, std::string path, int version,
               std::vector<CgroupFolder>& folders) {
  while (true) {
    while (!path.empty() && path.back() == '/') path.pop_back();
    folders.push_back({mount + path, version});
    if (path.empty()) return;
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
}

// A positive number; nullopt for "max", -1 and what is none.
std::optional<int64_t> ParsePositive(std::string_view word) {
  int64_t value = 0;
  const auto [end, error] =
      std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size() || value <= 0) {
    return std::nullopt;
  }
  return value;
}

std::optional<int64_t> NextPositive(std::istream& file) {
  std::string word;
  if (!(file >> word)) return std::nullopt;
  return ParsePositive(word);
}

// The quota of one group, in CPUs.
std::optional<double> QuotaOf(const CgroupFolder& group) {
  std::optional<int64_t> quota, period;
  if (group.version == 2) {
    std::ifstream file(group.path + "/cpu.max");  // "QUOTA PERIOD"
    quota = NextPositive(file);
    period = NextPositive(file);
  } else {
    std::ifstream quota_file(group.path + "/cpu.cfs_quota_us");
    std::ifstream period_file(group.path + "/cpu.cfs_period_us");
    quota = NextPositive(quota_file);
    period = NextPositive(period_file);
  }
  if (!quota || !period) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

}  // namespace

std::vector<CgroupFolder> FindCgroups(std::string_view controller,
                                      const std::string& proc_root,
                                      const std::string& sys_root) {
  const std::string mounts = sys_root + "/fs/cgroup";
  const std::string wanted = "," + std::string(controller) + ",";
  std::vector<CgroupFolder> folders;
  std::ifstream file(proc_root + "/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {  // "id:controllers:path"
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) {
      AddGroups(mounts, path, 2, folders);
    } else if (("," + controllers + ",").find(wanted) != std::string::npos) {
      AddGroups(mounts + "/" + std::string(controller), path, 1, folders);
      // Controllers that share a mount have a name each only by a link.
      if (controllers != controller) {
        AddGroups(mounts + "/" + controllers, path, 1, folders);
      }
    }
  }
  return folders;
}

std::optional<double> ReadCpuQuota(const std::string& proc_root,
                                   const std::string& sys_root) {
  std::optional<double> least;
  for (const CgroupFolder& group : FindCgroups("cpu", proc_root, sys_root)) {
    const std::optional<double> quota = QuotaOf(group);
    if (quota) least = std::min(least.value_or(*quota), *quota);
  }
  return least;
}

}  // namespace thermocline::os
