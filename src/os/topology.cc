#include "os/topology.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "os/cgroup.h"

namespace thermocline::os {
namespace {

// More than any kernel is built for.
constexpr int kMaxCpuId = 1 << 16;

std::optional<std::string> ReadLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return line;
}

std::optional<int> ParseInt(std::string_view text) {
  int value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

// "0-3,8,10-11" as ids; what does not parse is left out.
std::vector<int> ParseCpuList(std::string_view text) {
  std::vector<int> ids;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    const size_t dash = item.find('-');
    const auto first = ParseInt(item.substr(0, dash));
    const auto last = dash == std::string_view::npos
                          ? first
                          : ParseInt(item.substr(dash + 1));
    if (!first || !last || *first < 0 || *last >= kMaxCpuId) continue;
    for (int id = *first; id <= *last; ++id) ids.push_back(id);
  }
  return ids;
}

std::vector<int> AllowedCpus() {
  for (int num_cpus = 1024; num_cpus <= kMaxCpuId; num_cpus *= 2) {
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(
        CPU_ALLOC(static_cast<size_t>(num_cpus)),
        [](cpu_set_t* s) { CPU_FREE(s); });
    const size_t num_bytes = CPU_ALLOC_SIZE(static_cast<size_t>(num_cpus));
    if (set == nullptr) break;
    // Fails while the set is smaller than the kernel's own.
    if (sched_getaffinity(0, num_bytes, set.get()) != 0) continue;
    std::vector<int> ids;
    for (int id = 0; id < num_cpus; ++id) {
      if (CPU_ISSET_S(static_cast<size_t>(id), num_bytes, set.get())) {
        ids.push_back(id);
      }
    }
    if (!ids.empty()) return ids;
  }
  return {0};
}

// Hardware threads of one core list each other as siblings: the least of them
// names the core. The kernel's own core numbers repeat between clusters.
int CoreOf(const std::string& topology_folder, int id) {
  for (const char* name : {"core_cpus_list", "thread_siblings_list"}) {
    const auto line = ReadLine(topology_folder + name);
    if (!line) continue;
    const std::vector<int> siblings = ParseCpuList(*line);
    if (!siblings.empty()) return std::ranges::min(siblings);
  }
  return id;
}

int PackageOf(const std::string& topology_folder) {
  const auto line = ReadLine(topology_folder + "physical_package_id");
  return line ? std::max(ParseInt(*line).value_or(0), 0) : 0;
}

std::map<int, int> NumaNodes(const std::string& sys_root) {
  const std::string folder = sys_root + "/devices/system/node/";
  std::map<int, int> node_of_cpu;
  const auto online = ReadLine(folder + "online");
  if (!online) return node_of_cpu;
  for (const int node : ParseCpuList(*online)) {
    const auto cpus =
        ReadLine(folder + "node" + std::to_string(node) + "/cpulist");
    if (!cpus) continue;
    for (const int id : ParseCpuList(*cpus)) node_of_cpu[id] = node;
  }
  return node_of_cpu;
}

}  // namespace

int Topology::num_default_threads() const {
  if (!cpu_quota || *cpu_quota >= num_cores) return num_cores;
  return std::max(1, static_cast<int>(*cpu_quota));
}

Topology ReadTopology(const std::string& sys_root,
                      const std::string& proc_root) {
  Topology topology = ReadTopology(sys_root, AllowedCpus());
  topology.cpu_quota = ReadCpuQuota(proc_root, sys_root);
  return topology;
}

Topology ReadTopology(const std::string& sys_root,
                      std::span<const int> allowed_cpus) {
  const std::map<int, int> node_of_cpu = NumaNodes(sys_root);
  std::map<std::pair<int, int>, int> num_seen;  // by package and core
  std::set<int> nodes;
  std::vector<std::vector<Cpu>> by_rank;  // [i]: the i-th thread of every core
  for (const int id : allowed_cpus) {
    const std::string folder = sys_root + "/devices/system/cpu/cpu" +
                               std::to_string(id) + "/topology/";
    const auto node = node_of_cpu.find(id);
    const Cpu cpu = {id, CoreOf(folder, id), PackageOf(folder),
                     node == node_of_cpu.end() ? 0 : node->second};
    const auto rank = static_cast<size_t>(num_seen[{cpu.package, cpu.core}]++);
    if (rank == by_rank.size()) by_rank.emplace_back();
    by_rank[rank].push_back(cpu);
    nodes.insert(cpu.numa_node);
  }

  Topology topology;
  for (const auto& cpus : by_rank) {
    topology.cpus.insert(topology.cpus.end(), cpus.begin(), cpus.end());
  }
  topology.num_cores = std::max(1, static_cast<int>(num_seen.size()));
  topology.num_numa_nodes = std::max(1, static_cast<int>(nodes.size()));
  return topology;
}

}  // namespace thermocline::os
