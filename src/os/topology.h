// CPUs that this process may use, and how they share cores and NUMA nodes.
#ifndef THERMOCLINE_OS_TOPOLOGY_H_
#define THERMOCLINE_OS_TOPOLOGY_H_

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
};

// Reads sysfs under `sys_root`; missing files give one core per allowed CPU.
Topology ReadTopology(const std::string& sys_root = "/sys");

// The same for a given list of CPUs instead of the affinity mask.
Topology ReadTopology(const std::string& sys_root,
                      std::span<const int> allowed_cpus);

}  // namespace thermocline::os

#endif  // THERMOCLINE_OS_TOPOLOGY_H_
