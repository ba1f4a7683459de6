#include "gguf/node_plan.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/units.h"
#include "os/memory.h"
#include "os/memory_policy.h"
#include "os/test_memory_policy.h"

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

// Without gaps, from the first byte to the last cut, which is a huge page's
// too, and only huge pages are cut apart.
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
  // 18.9 MiB: nine pages, and less than half of a tenth.
  EXPECT_EQ(plan.back().end, 9 * os::kHugePageBytes);
}

TEST(PlanNodesTest, TheLastPageEndsWithTheFile) {
  Shard shard;
  shard.Add(1024, 3500);  // 13.7 MiB: most of a seventh page
  EXPECT_EQ(shard.Plan(TopologyOf({0, 1}, 2)).back().end, 1024u * 3500 * 4);
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

TEST(PlaceOnNodesTest, EachPartGoesWhereThePlanSays) {
  const auto buffer = os::AlignedBuffer::Allocate(4 * kMiB).value();
  const std::span<std::byte> memory(buffer.data(), buffer.size());
  const auto other = os::AlignedBuffer::Allocate(kMiB).value();
  if (!os::PreferNode({other.data(), other.size()}, 0)) {
    GTEST_SKIP() << "needs a kernel with mbind";
  }
  PlaceOnNodes({{{0, kMiB, 0}, {2 * kMiB, 3 * kMiB, 0}}}, memory);
  for (const size_t offset : {size_t{0}, 2 * kMiB}) {
    unsigned long nodes = 0;
    EXPECT_EQ(os::PolicyAt(&memory[offset], &nodes), MPOL_PREFERRED);
    EXPECT_EQ(nodes, 1u);
    EXPECT_EQ(os::PolicyAt(&memory[offset + kMiB], &nodes), MPOL_DEFAULT);
  }
}

}  // namespace
}  // namespace thermocline::gguf
