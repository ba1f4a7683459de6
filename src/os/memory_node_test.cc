#include "os/memory_node.h"

#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/memory.h"

namespace thermocline::os {
namespace {

constexpr size_t kPageBytes = 4096;

// The policy of one address, -1 where the system does not tell.
int PolicyAt(const std::byte* address, unsigned long* nodes) {
  int mode = -1;
  constexpr unsigned long kNumNodes = sizeof(*nodes) * 8;
  const long result =
      syscall(SYS_get_mempolicy, &mode, nodes, kNumNodes, address, MPOL_F_ADDR);
  return result == 0 ? mode : -1;
}

TEST(PreferNodeTest, NodeZeroIsEverywhere) {
  const AlignedBuffer buffer = AlignedBuffer::Allocate(4 * kPageBytes).value();
  const std::span<std::byte> middle(buffer.data() + 1, 3 * kPageBytes);
  const Status status = PreferNode(middle, 0);
  if (!status && status.error().code == ErrorCode::kUnsupported) {
    GTEST_SKIP() << "needs a kernel with mbind: " << status.error().message;
  }
  ASSERT_TRUE(status.has_value()) << status.error().message;
  const size_t first_whole =
      -reinterpret_cast<uintptr_t>(middle.data()) % kPageBytes;
  unsigned long nodes = 0;
  EXPECT_EQ(PolicyAt(middle.data() + first_whole, &nodes), MPOL_PREFERRED);
  EXPECT_EQ(nodes, 1u);
  EXPECT_EQ(PolicyAt(middle.data() + first_whole - 1, &nodes), MPOL_DEFAULT);
  EXPECT_EQ(PolicyAt(middle.data() + first_whole + 3 * kPageBytes, &nodes),
            MPOL_DEFAULT);
}

TEST(PreferNodeTest, LessThanAPageIsLeftAlone) {
  const AlignedBuffer buffer = AlignedBuffer::Allocate(4 * kPageBytes).value();
  EXPECT_TRUE(PreferNode({buffer.data() + 64, 128}, 0).has_value());
  EXPECT_TRUE(PreferNode({}, 0).has_value());
}

TEST(PreferNodeTest, NodesThatAreNotThere) {
  const AlignedBuffer buffer = AlignedBuffer::Allocate(4 * kPageBytes).value();
  const std::span<std::byte> memory(buffer.data(), buffer.size());
  for (const int node : {-1, 1023, 1024, 1 << 30}) {
    EXPECT_FALSE(PreferNode(memory, node).has_value()) << node;
  }
}

}  // namespace
}  // namespace thermocline::os
