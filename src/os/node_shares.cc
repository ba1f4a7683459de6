#include "os/node_shares.h"

#include <algorithm>
#include <map>

#include "base/check.h"

namespace thermocline::os {
namespace {

struct Node {
  std::vector<int> cpus;
  size_t num_workers = 0;
};

// Rounds the cumulated shares, so that the sum is right.
void ShareOut(size_t num_workers, size_t num_cpus, std::map<int, Node>& nodes) {
  size_t num_cpus_before = 0;
  size_t num_placed = 0;
  for (auto& [id, node] : nodes) {
    num_cpus_before += node.cpus.size();
    const size_t num_until =
        (num_workers * num_cpus_before + num_cpus / 2) / num_cpus;
    node.num_workers = num_until - num_placed;
    num_placed = num_until;
  }
}

}  // namespace

WorkerPlaces PlaceWorkers(const Topology& topology, int num_workers,
                          int caller_cpu) {
  TC_CHECK(num_workers > 0);
  // A machine that tells nothing about its CPUs is one node of unknown ones.
  if (topology.cpus.empty()) {
    const auto count = static_cast<size_t>(num_workers);
    return {.cpus = std::vector<int>(count, WorkerPlaces::kAnyCpu),
            .nodes = std::vector<size_t>(count, 0),
            .node_ids = {0},
            .first_workers = {0, count}};
  }
  const auto find = [&](auto matches) {
    const auto found = std::ranges::find_if(topology.cpus, matches);
    return found == topology.cpus.end() ? topology.cpus.front() : *found;
  };
  const Cpu current = find([&](const Cpu& c) { return c.id == caller_cpu; });
  const Cpu caller = find([&](const Cpu& c) {
    return c.core == current.core && c.package == current.package;
  });

  std::map<int, Node> nodes;
  for (const Cpu& cpu : topology.cpus) {
    nodes[cpu.numa_node].cpus.push_back(cpu.id);
  }
  ShareOut(static_cast<size_t>(num_workers), topology.cpus.size(), nodes);
  Node& home = nodes[caller.numa_node];
  if (home.num_workers == 0) {
    const auto fullest = std::ranges::max_element(
        nodes, {}, [](const auto& entry) { return entry.second.num_workers; });
    --fullest->second.num_workers;
    ++home.num_workers;
  }
  std::erase(home.cpus, caller.id);

  WorkerPlaces places;
  places.cpus = {caller.id};
  places.nodes = {0};
  places.first_workers = {0};
  for (const auto& [id, node] : nodes) {
    if (node.num_workers == 0) continue;
    const size_t node_idx = places.node_ids.size();
    if (&node == &home) places.nodes[0] = node_idx;
    for (size_t i = &node == &home ? 1 : 0; i < node.num_workers; ++i) {
      const size_t cpu_idx = &node == &home ? i - 1 : i;
      places.cpus.push_back(cpu_idx < node.cpus.size() ? node.cpus[cpu_idx]
                                                       : WorkerPlaces::kAnyCpu);
      places.nodes.push_back(node_idx);
    }
    places.node_ids.push_back(id);
    places.first_workers.push_back(places.first_workers.back() +
                                   node.num_workers);
  }
  return places;
}

}  // namespace thermocline::os
