#include "os/memory_policy.h"

#include <gtest/gtest.h>

#include "os/memory.h"
#include "os/test_memory_policy.h"

namespace thermocline::os {
namespace {

constexpr size_t kPageBytes = 4096;

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
  for (const int node : {-1, 1024, 1 << 30}) {
    const Status status = PreferNode(memory, node);
    ASSERT_FALSE(status.has_value()) << node;
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument) << node;
  }
  // Of this one the kernel is asked, which may not be allowed.
  const Status status = PreferNode(memory, 1023);
  ASSERT_FALSE(status.has_value());
  if (PreferNode(memory, 0).has_value()) {
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
  } else {
    EXPECT_EQ(status.error().code, ErrorCode::kUnsupported);
  }
}

}  // namespace
}  // namespace thermocline::os
