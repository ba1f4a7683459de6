// How work and memory are cut over NUMA nodes: one formula for the thread pool
// and for whoever places the memory that the pool's workers read.
#ifndef THERMOCLINE_OS_NODE_SHARES_H_
#define THERMOCLINE_OS_NODE_SHARES_H_

#include <cstddef>
#include <span>
#include <vector>

#include "os/topology.h"

namespace thermocline::os {

struct ElemRange {
  size_t begin, end;
  size_t size() const { return end - begin; }
};

// The part of [0, n) that belongs to node `node`: contiguous, in the order of
// the nodes, in proportion to their workers. first_workers: for each node the
// number of workers on the nodes before it, then the number of all, > 0.
// Requires node + 1 < first_workers.size() and n * all < 2^64.
inline ElemRange NodeShare(size_t n, size_t node,
                           std::span<const size_t> first_workers) {
  const auto bound = [&](size_t num_before) {
    const size_t all = first_workers.back();
    return num_before == all ? n : n * num_before / all;
  };
  return {bound(first_workers[node]), bound(first_workers[node + 1])};
}

// Where the workers of a pool live. Nodes are those that have workers, by
// index here and by the kernel's number in node_ids, ascending.
struct WorkerPlaces {
  static constexpr int kAnyCpu = -1;
  std::vector<int> cpus;      // per worker; kAnyCpu: the node has no more
  std::vector<size_t> nodes;  // per worker: index of its node
  std::vector<int> node_ids;
  std::vector<size_t> first_workers;  // as NodeShare takes them
};

// Spreads workers over nodes in proportion to their CPUs, over cores before
// second hardware threads. Worker 0 is the caller: its place is the first CPU
// of caller_cpu's core (of the first core, if that is not in the topology),
// which no other worker gets; where workers outnumber cores, that core's other
// threads are taken like all. Requires num_workers > 0.
WorkerPlaces PlaceWorkers(const Topology& topology, int num_workers,
                          int caller_cpu);

}  // namespace thermocline::os

#endif  // THERMOCLINE_OS_NODE_SHARES_H_
