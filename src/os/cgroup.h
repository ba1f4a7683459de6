// Control groups: where the limits of this process are written down.
#ifndef THERMOCLINE_OS_CGROUP_H_
#define THERMOCLINE_OS_CGROUP_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace thermocline::os {

struct CgroupFolder {
  std::string path;
  int version;  // 1 or 2: they name their files differently
};

// The folders of the groups that this process is in for `controller` ("memory",
// "cpu"), and of those around them up to where they are mounted. A folder need
// not be there: inside a container a group's path can name one that is not
// mounted; the mount's own folder then has the limits. The roots are where
// procfs and sysfs are mounted.
std::vector<CgroupFolder> FindCgroups(std::string_view controller,
                                      const std::string& proc_root = "/proc",
                                      const std::string& sys_root = "/sys");

// How many CPUs' time the groups' quotas leave this process: the least of
// them, 1.5 for three halves of a CPU. nullopt: no quota.
std::optional<double> ReadCpuQuota(const std::string& proc_root = "/proc",
                                   const std::string& sys_root = "/sys");

}  // namespace thermocline::os

#endif  // THERMOCLINE_OS_CGROUP_H_
