#include "os/node_shares.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace thermocline::os {
namespace {

// Core i is on node i % num_nodes; the second half of the CPUs are hardware
// threads of the first half's cores.
Topology FakeTopology(int num_cpus, int num_nodes) {
  Topology topology;
  topology.num_cores = std::max(1, num_cpus / 2);
  topology.num_numa_nodes = num_nodes;
  for (int i = 0; i < num_cpus; ++i) {
    const int core = i % topology.num_cores;
    topology.cpus.push_back(
        {.id = i, .core = core, .package = 0, .numa_node = core % num_nodes});
  }
  return topology;
}

TEST(NodeShares, SharesMakeTheWholeInOrder) {
  for (const std::vector<size_t>& first_workers :
       {std::vector<size_t>{0, 1}, {0, 7}, {0, 1, 2}, {0, 3, 4, 9}}) {
    for (const size_t n : {0, 1, 2, 10, 1001}) {
      size_t end = 0;
      for (size_t node = 0; node + 1 < first_workers.size(); ++node) {
        const ElemRange share = NodeShare(n, node, first_workers);
        EXPECT_EQ(share.begin, end);
        EXPECT_LE(share.begin, share.end);
        end = share.end;
        const double exact =
            static_cast<double>(n) *
            static_cast<double>(first_workers[node + 1] - first_workers[node]) /
            static_cast<double>(first_workers.back());
        EXPECT_NEAR(static_cast<double>(share.size()), exact, 1.0);
      }
      EXPECT_EQ(end, n);
    }
  }
}

TEST(NodeShares, OneNodeTakesCpusInOrder) {
  const WorkerPlaces places = PlaceWorkers(FakeTopology(4, 1), 3, 0);
  EXPECT_EQ(places.cpus, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(places.nodes, (std::vector<size_t>{0, 0, 0}));
  EXPECT_EQ(places.node_ids, std::vector<int>{0});
  EXPECT_EQ(places.first_workers, (std::vector<size_t>{0, 3}));
}

// No other worker is put where the caller runs.
TEST(NodeShares, TheCallerKeepsItsCore) {
  EXPECT_EQ(PlaceWorkers(FakeTopology(8, 1), 4, 2).cpus,
            (std::vector<int>{2, 0, 1, 3}));
  // CPU 6 is the second hardware thread of that core.
  EXPECT_EQ(PlaceWorkers(FakeTopology(8, 1), 4, 6).cpus,
            (std::vector<int>{2, 0, 1, 3}));
  // With more workers than cores the core's other thread gets one.
  EXPECT_EQ(PlaceWorkers(FakeTopology(8, 1), 8, 2).cpus,
            (std::vector<int>{2, 0, 1, 3, 4, 5, 6, 7}));
  // A CPU that is not in the topology.
  EXPECT_EQ(PlaceWorkers(FakeTopology(8, 1), 2, 99).cpus,
            (std::vector<int>{0, 1}));
}

TEST(NodeShares, WorkersAreSpreadOverNodes) {
  // Nodes: CPUs 0 2 4 6 and 1 3 5 7, of which 4-7 are second threads.
  const WorkerPlaces places = PlaceWorkers(FakeTopology(8, 2), 4, 1);
  EXPECT_EQ(places.cpus, (std::vector<int>{1, 0, 2, 3}));
  EXPECT_EQ(places.nodes, (std::vector<size_t>{1, 0, 0, 1}));
  EXPECT_EQ(places.node_ids, (std::vector<int>{0, 1}));
  EXPECT_EQ(places.first_workers, (std::vector<size_t>{0, 2, 4}));
}

TEST(NodeShares, SpreadInProportionToCpus) {
  Topology topology = FakeTopology(8, 1);
  for (Cpu& cpu : topology.cpus) cpu.numa_node = cpu.id < 6 ? 3 : 5;
  const WorkerPlaces places = PlaceWorkers(topology, 4, 0);
  EXPECT_EQ(places.node_ids, (std::vector<int>{3, 5}));
  EXPECT_EQ(places.first_workers, (std::vector<size_t>{0, 3, 4}));
  EXPECT_EQ(places.cpus, (std::vector<int>{0, 1, 2, 6}));
}

TEST(NodeShares, ASingleWorkerIsOnTheCallersNode) {
  for (const int caller_cpu : {0, 1}) {
    const WorkerPlaces places = PlaceWorkers(FakeTopology(8, 2), 1, caller_cpu);
    EXPECT_EQ(places.cpus, std::vector<int>{caller_cpu});
    EXPECT_EQ(places.nodes, std::vector<size_t>{0});
    EXPECT_EQ(places.node_ids, std::vector<int>{caller_cpu});
    EXPECT_EQ(places.first_workers, (std::vector<size_t>{0, 1}));
  }
}

TEST(NodeShares, MoreWorkersThanCpusRunAnywhere) {
  const WorkerPlaces places = PlaceWorkers(FakeTopology(2, 1), 4, 1);
  EXPECT_EQ(places.cpus, (std::vector<int>{0, 1, WorkerPlaces::kAnyCpu,
                                           WorkerPlaces::kAnyCpu}));
}

TEST(NodeShares, NoCpusAreOneNode) {
  const WorkerPlaces places = PlaceWorkers(Topology(), 3, 0);
  EXPECT_EQ(places.cpus, std::vector<int>(3, WorkerPlaces::kAnyCpu));
  EXPECT_EQ(places.first_workers, (std::vector<size_t>{0, 3}));
}

// Every worker has a place, no CPU has two, and first_workers counts them.
TEST(NodeShares, PlacesAgree) {
  for (const int num_cpus : {1, 2, 6, 16}) {
    for (const int num_nodes : {1, 2, 3}) {
      const Topology topology = FakeTopology(num_cpus, num_nodes);
      for (int num_workers = 1; num_workers <= 20; ++num_workers) {
        const int caller_cpu = num_workers % num_cpus;
        const WorkerPlaces places =
            PlaceWorkers(topology, num_workers, caller_cpu);
        ASSERT_EQ(places.cpus.size(), static_cast<size_t>(num_workers));
        ASSERT_EQ(places.nodes.size(), static_cast<size_t>(num_workers));
        std::vector<size_t> num_on_node(places.node_ids.size(), 0);
        for (const size_t node : places.nodes) ++num_on_node.at(node);
        for (size_t node = 0; node < num_on_node.size(); ++node) {
          EXPECT_GT(num_on_node[node], 0u);
          EXPECT_EQ(places.first_workers[node + 1] - places.first_workers[node],
                    num_on_node[node]);
        }
        std::vector<int> cpus = places.cpus;
        std::erase(cpus, WorkerPlaces::kAnyCpu);
        std::ranges::sort(cpus);
        EXPECT_EQ(std::ranges::adjacent_find(cpus), cpus.end());
      }
    }
  }
}

}  // namespace
}  // namespace thermocline::os
