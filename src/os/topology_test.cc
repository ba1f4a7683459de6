#include "os/topology.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "os/test_folder.h"

namespace thermocline::os {
namespace {

std::vector<int> Ids(const Topology& topology) {
  std::vector<int> ids;
  for (const Cpu& cpu : topology.cpus) ids.push_back(cpu.id);
  return ids;
}

// Two packages of two cores of two threads; siblings are i and i + 4; package
// and NUMA node 1 have the odd cores.
void WriteTwoPackages(const TestFolder& sys, const std::string& siblings_file) {
  for (int id = 0; id < 8; ++id) {
    const std::string folder =
        "devices/system/cpu/cpu" + std::to_string(id) + "/topology/";
    const int core = id % 4;
    sys.Write(folder + siblings_file,
              std::to_string(core) + "," + std::to_string(core + 4) + "\n");
    sys.Write(folder + "physical_package_id", std::to_string(core % 2) + "\n");
    sys.Write(folder + "core_id", "0\n");  // repeats: must not be trusted
  }
  sys.Write("devices/system/node/online", "0-1\n");
  sys.Write("devices/system/node/node0/cpulist", "0,2,4,6\n");
  sys.Write("devices/system/node/node1/cpulist", "1,3,5,7\n");
}

TEST(TopologyTest, FirstThreadsOfAllCoresComeFirst) {
  const TestFolder sys;
  WriteTwoPackages(sys, "core_cpus_list");
  const std::vector<int> allowed = {0, 1, 2, 3, 4, 5, 6, 7};
  const Topology topology = ReadTopology(sys.path(), allowed);
  EXPECT_EQ(Ids(topology), allowed);
  EXPECT_EQ(topology.num_cores, 4);
  EXPECT_EQ(topology.num_numa_nodes, 2);
  for (const Cpu& cpu : topology.cpus) {
    EXPECT_EQ(cpu.core, cpu.id % 4);
    EXPECT_EQ(cpu.package, cpu.id % 2);
    EXPECT_EQ(cpu.numa_node, cpu.id % 2);
  }
}

TEST(TopologyTest, NeighbouringSiblingsAreTakenApart) {
  const TestFolder sys;
  for (int id = 0; id < 4; ++id) {
    sys.Write("devices/system/cpu/cpu" + std::to_string(id) +
                  "/topology/thread_siblings_list",
              id < 2 ? "0-1\n" : "2-3\n");
  }
  const Topology topology = ReadTopology(sys.path(), std::vector{0, 1, 2, 3});
  EXPECT_EQ(Ids(topology), (std::vector<int>{0, 2, 1, 3}));
  EXPECT_EQ(topology.num_cores, 2);
  EXPECT_EQ(topology.num_numa_nodes, 1);
}

TEST(TopologyTest, OnlyAllowedCpusCount) {
  const TestFolder sys;
  WriteTwoPackages(sys, "thread_siblings_list");
  // CPU 4 is the second thread of core 0, but the first that may be used.
  const Topology topology = ReadTopology(sys.path(), std::vector{3, 4, 7});
  EXPECT_EQ(Ids(topology), (std::vector<int>{3, 4, 7}));
  EXPECT_EQ(topology.num_cores, 2);
}

TEST(TopologyTest, MissingFilesGiveOneCorePerCpu) {
  const TestFolder sys;
  const Topology topology = ReadTopology(sys.path(), std::vector{2, 5, 9});
  EXPECT_EQ(Ids(topology), (std::vector<int>{2, 5, 9}));
  EXPECT_EQ(topology.num_cores, 3);
  EXPECT_EQ(topology.num_numa_nodes, 1);
  EXPECT_EQ(topology.cpus[2].core, 9);
}

TEST(TopologyTest, NonsenseIsIgnored) {
  const TestFolder sys;
  const std::string folder = "devices/system/cpu/cpu0/topology/";
  sys.Write(folder + "core_cpus_list", "x-y,,-3,99999999999999999999\n");
  sys.Write(folder + "physical_package_id", "-1\n");
  sys.Write("devices/system/node/online", "0-999999999\n");
  const Topology topology = ReadTopology(sys.path(), std::vector{0});
  ASSERT_EQ(topology.cpus.size(), 1u);
  EXPECT_EQ(topology.cpus[0].core, 0);
  EXPECT_EQ(topology.cpus[0].package, 0);
  EXPECT_EQ(topology.num_cores, 1);
}

TEST(TopologyTest, NothingAllowedStillHasACore) {
  const TestFolder sys;
  EXPECT_EQ(ReadTopology(sys.path(), std::vector<int>{}).num_cores, 1);
}

TEST(TopologyTest, AQuotaBoundsTheThreads) {
  struct Case {
    std::optional<double> quota;
    int num_cores, num_threads;
  };
  for (const Case& c :
       {Case{std::nullopt, 8, 8}, Case{1.0, 8, 1}, Case{0.2, 8, 1},
        Case{3.5, 8, 3}, Case{8.0, 8, 8}, Case{1e15, 8, 8}, Case{2.0, 1, 1}}) {
    const Topology topology = {.num_cores = c.num_cores, .cpu_quota = c.quota};
    EXPECT_EQ(topology.num_default_threads(), c.num_threads)
        << c.quota.value_or(0) << " of " << c.num_cores;
  }
  const TestFolder root;
  root.Write("proc/self/cgroup", "0::/\n");
  root.Write("sys/fs/cgroup/cpu.max", "100000 100000\n");
  const Topology topology = ReadTopology(root / "sys", root / "proc");
  EXPECT_EQ(topology.cpu_quota, 1.0);
  EXPECT_EQ(topology.num_default_threads(), 1);
}

TEST(TopologyTest, ThisMachine) {
  const Topology topology = ReadTopology();
  EXPECT_GE(topology.num_cores, 1);
  EXPECT_LE(static_cast<size_t>(topology.num_cores), topology.cpus.size());
  std::vector<int> ids = Ids(topology);
  std::sort(ids.begin(), ids.end());
  EXPECT_EQ(std::unique(ids.begin(), ids.end()), ids.end());
  EXPECT_LE(ids.size(), std::thread::hardware_concurrency());
}

}  // namespace
}  // namespace thermocline::os
