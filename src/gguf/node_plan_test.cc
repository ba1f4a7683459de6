#include "gguf/node_plan.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/units.h"
#include "os/memory.h"

namespace thermocline::gguf {
namespace {

// Cores spread over nodes: cpu_nodes[i] is the node of CPU and core i.
os::Topology TopologyOf(const std::vector<int>& cpu_nodes, int num_nodes) {
  os::Topology topology;
  for (int i = 0; i < static_cast<int>(cpu_nodes.size()); ++i) {
    topology.cpus.push_back({i, i, 0, cpu_nodes[static_cast<size_t>(i)]});
  }
  topology.num_cores = static_cast<int>(cpu_nodes.size());
  topology.num_numa_nodes = num_nodes;
  return topology;
}

// A shard of tensors in F32, one after the other.
class Shard {
 public:
  TensorInfo& Add(uint64_t width, uint64_t num_rows,
                  uint64_t num_matrices = 1) {
    TensorInfo info;
    info.dtype = DType::kF32;
    info.shape.ne = {width, num_rows, num_matrices, 1};
    info.num_bytes = 4 * width * num_rows * num_matrices;
    tensors_.push_back(info);
    return tensors_.back();
  }
  std::vector<NodeBytes> Plan(const os::Topology& topology,
                              size_t header_bytes = 0) {
    size_t num_bytes = header_bytes;
    for (TensorInfo& info : tensors_) num_bytes += info.num_bytes;
    bytes_.resize(num_bytes);
    const std::byte* data = bytes_.data() + header_bytes;
    for (TensorInfo& info : tensors_) {
      info.data = data;
      data += info.num_bytes;
    }
    return PlanNodes(tensors_, 0, bytes_, topology);
  }
  std::vector<TensorInfo>& tensors() { return tensors_; }

 private:
  std::vector<TensorInfo> tensors_;
  std::vector<std::byte> bytes_;
};

TEST(PlanNodesTest, OneNodeHasNothingToPlan) {
  Shard shard;
  shard.Add(1024, 4096);
  EXPECT_TRUE(shard.Plan(TopologyOf({0, 0}, 1)).empty());
}

TEST(PlanNodesTest, EveryMatrixIsCutByTheShares) {
  Shard shard;
  shard.Add(1024, 4096);     // 16 MiB
  shard.Add(1024, 2048, 2);  // two matrices of 8 MiB
  EXPECT_EQ(shard.Plan(TopologyOf({0, 1}, 2)),
            (std::vector<NodeBytes>{{0, 8 * kMiB, 0},
                                    {8 * kMiB, 16 * kMiB, 1},
                                    {16 * kMiB, 20 * kMiB, 0},
                                    {20 * kMiB, 24 * kMiB, 1},
                                    {24 * kMiB, 28 * kMiB, 0},
                                    {28 * kMiB, 32 * kMiB, 1}}));
}

TEST(PlanNodesTest, NodesCountByTheirCoresAndKeepTheirNumbers) {
  Shard shard;
  shard.Add(1024, 4096);
  EXPECT_EQ(
      shard.Plan(TopologyOf({2, 2, 2, 5}, 2)),
      (std::vector<NodeBytes>{{0, 12 * kMiB, 2}, {12 * kMiB, 16 * kMiB, 5}}));
}

// Without gaps, ends at the file's end, and only huge pages are cut apart.
TEST(PlanNodesTest, CutsAreAtHugePages) {
  Shard shard;
  shard.Add(1024, 1500);
  shard.Add(1024, 1);
  shard.Add(1024, 3333);
  const auto plan = shard.Plan(TopologyOf({0, 1, 2}, 3), 5'000);
  ASSERT_FALSE(plan.empty());
  EXPECT_EQ(plan.front().begin, 0u);
  for (size_t i = 1; i < plan.size(); ++i) {
    EXPECT_EQ(plan[i].begin, plan[i - 1].end);
    EXPECT_NE(plan[i].node, plan[i - 1].node);
    EXPECT_EQ(plan[i].begin % os::kHugePageBytes, 0u);
  }
}

TEST(PlanNodesTest, SmallTensorsLieOnOneNode) {
  Shard shard;
  shard.Add(1024, 300);
  shard.Add(1024, 300);
  const auto plan = shard.Plan(TopologyOf({0, 1}, 2));
  ASSERT_EQ(plan.size(), 1u);
  EXPECT_EQ(plan[0].begin, 0u);
}

TEST(PlanNodesTest, OtherShardsAreLeftOut) {
  Shard shard;
  shard.Add(1024, 4096);
  shard.Add(1024, 4096).shard_idx = 1;
  const auto plan = shard.Plan(TopologyOf({0, 1}, 2));
  ASSERT_FALSE(plan.empty());
  EXPECT_EQ(plan.back().end, 16 * kMiB);
}

TEST(PlaceOnNodesTest, NodeZeroTakesAll) {
  const auto buffer = os::AlignedBuffer::Allocate(4 * kMiB).value();
  const std::span<std::byte> memory(buffer.data(), buffer.size());
  PlaceOnNodes({{{0, 2 * kMiB, 0}, {2 * kMiB, 4 * kMiB, 0}}}, memory);
  memory[3 * kMiB] = std::byte{1};
  EXPECT_EQ(memory[3 * kMiB], std::byte{1});
}

}  // namespace
}  // namespace thermocline::gguf
