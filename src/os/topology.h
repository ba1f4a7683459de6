// CPUs that this process may use, and how they share cores and NUMA nodes.
#ifndef THERMOCLINE_OS_TOPOLOGY_H_
#define THERMOCLINE_OS_TOPOLOGY_H_

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace thermocline::os {

struct Cpu {
  int id;    // the kernel's number
  int core;  // equal for hardware threads of one core of one package
  int package;
  int numa_node;  // 0 if unknown
};

struct Topology {
  std::vector<Cpu> cpus;  // allowed by the affinity mask; the first hardware
                          // thread of every core first, then the second ones
  int num_cores = 1;      // distinct (package, core) in cpus; >= 1
  int num_numa_nodes = 1;
  // How many CPUs' time a container's quota leaves; nullopt: no quota. Threads
  // beyond it, or that spin, use it up, and then all of them stand still.
  std::optional<double> cpu_quota;

  // As many threads as can compute all the time: one per core, fewer under a
  // quota; >= 1.
  int num_default_threads() const;
};

// Reads sysfs under `sys_root`, and which groups set quotas under `proc_root`;
// missing files give one core per allowed CPU, and no quota.
Topology ReadTopology(const std::string& sys_root = "/sys",
                      const std::string& proc_root = "/proc");

// The same for a given list of CPUs instead of the affinity mask, without
// quotas.
Topology ReadTopology(const std::string& sys_root,
                      std::span<const int> allowed_cpus);

}  // namespace thermocline::os

#endif  // THERMOCLINE_OS_TOPOLOGY_H_
