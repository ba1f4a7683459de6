#include "os/memory.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "base/units.h"
#include "os/test_folder.h"

namespace thermocline::os {
namespace {

TEST(AlignedBufferTest, IsAlignedAndZero) {
  for (const size_t size : {size_t{1}, size_t{63}, size_t{64}, size_t{4097},
                            size_t{1} << 20, (size_t{3} << 20) + 5}) {
    auto buffer = AlignedBuffer::Allocate(size);
    ASSERT_TRUE(buffer.has_value());
    EXPECT_EQ(buffer->size(), size);
    const auto address = reinterpret_cast<uintptr_t>(buffer->data());
    EXPECT_EQ(address % (size < kMiB ? 64 : kHugePageBytes), 0u);
    for (const std::byte b : buffer->as<std::byte>(size)) {
      ASSERT_EQ(b, std::byte{0});
    }
    buffer->as<std::byte>(size).back() = std::byte{1};
  }
}

TEST(AlignedBufferTest, EmptyIsFine) {
  const auto buffer = AlignedBuffer::Allocate(0);
  ASSERT_TRUE(buffer.has_value());
  EXPECT_EQ(buffer->size(), 0u);
  EXPECT_TRUE(buffer->as<float>(0).empty());
}

TEST(AlignedBufferTest, MovesKeepTheMemory) {
  AlignedBuffer a = AlignedBuffer::Allocate(100).value();
  std::byte* const data = a.data();
  AlignedBuffer b = std::move(a);
  EXPECT_EQ(b.data(), data);
  AlignedBuffer c = AlignedBuffer::Allocate(size_t{2} << 20).value();
  c = std::move(b);
  EXPECT_EQ(c.data(), data);
  EXPECT_EQ(c.size(), 100u);
}

// A model's size, on a machine that has less.
TEST(AlignedBufferTest, WhatIsReservedCostsWhatIsTouched) {
  constexpr size_t kSize = size_t{1} << 38;
  const uint64_t before = ReadProcessMemory().anonymous_bytes;
  auto buffer = AlignedBuffer::Reserve(kSize);
  ASSERT_TRUE(buffer.has_value()) << buffer.error().message;
  EXPECT_EQ(buffer->size(), kSize);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % 4096, 0u);
  EXPECT_EQ(buffer->data()[kSize / 2], std::byte{0});
  buffer->data()[kSize - 1] = std::byte{1};
  EXPECT_LT(ReadProcessMemory().anonymous_bytes, before + 16 * kMiB);
  EXPECT_EQ(AlignedBuffer::Reserve(0)->size(), 0u);
  EXPECT_FALSE(AlignedBuffer::Reserve(size_t{1} << 60).has_value());
}

TEST(AlignedBufferTest, RefusalNamesTheSize) {
  for (const size_t size : {~size_t{0}, size_t{1} << 60}) {
    const auto buffer = AlignedBuffer::Allocate(size);
    ASSERT_FALSE(buffer.has_value());
    EXPECT_EQ(buffer.error().code, ErrorCode::kResourceExhausted);
    EXPECT_NE(buffer.error().message.find(FormatBytes(size)),
              std::string::npos);
  }
}

TEST(AlignedBufferDeathTest, ViewsMustFit) {
  const AlignedBuffer buffer = AlignedBuffer::Allocate(15).value();
  EXPECT_EQ(buffer.as<float>(3).size(), 3u);
  EXPECT_DEATH(buffer.as<float>(4), "check failed");
  EXPECT_DEATH(buffer.as<float>(~size_t{0} / 2), "check failed");
}

const char kMeminfo[] =
    "MemTotal:       16000 kB\n"
    "MemFree:         1000 kB\n"
    "MemAvailable:    9000 kB\n";

TEST(MemoryInfoTest, WithoutGroupsTheMachineCounts) {
  const TestFolder root;
  root.Write("proc/meminfo", kMeminfo);
  const MemoryInfo info = ReadMemoryInfo(root / "proc", root / "sys");
  EXPECT_EQ(info.total_bytes, 16000 * kKiB);
  EXPECT_EQ(info.available_bytes, 9000 * kKiB);
}

TEST(MemoryInfoTest, GroupsOfVersionTwoLimitWithTheirParents) {
  const TestFolder root;
  root.Write("proc/meminfo", kMeminfo);
  root.Write("proc/self/cgroup", "0::/outer/inner\n");
  root.Write("sys/fs/cgroup/outer/inner/memory.max", "max\n");
  root.Write("sys/fs/cgroup/outer/memory.max", "4096000\n");
  root.Write("sys/fs/cgroup/outer/memory.current", "3000000\n");
  root.Write("sys/fs/cgroup/outer/memory.stat",
             "anon 1\nactive_file 1000000\ninactive_file 500000\n");
  const MemoryInfo info = ReadMemoryInfo(root / "proc", root / "sys");
  EXPECT_EQ(info.total_bytes, 4096000u);
  EXPECT_EQ(info.available_bytes, 4096000u - 1500000u);
}

TEST(MemoryInfoTest, ContainersHaveTheirLimitsAtTheRoot) {
  const TestFolder root;
  root.Write("proc/meminfo", kMeminfo);
  root.Write("proc/self/cgroup", "0::/not/mounted/here\n");
  root.Write("sys/fs/cgroup/memory.max", "2048000\n");
  root.Write("sys/fs/cgroup/memory.current", "2100000\n");
  const MemoryInfo info = ReadMemoryInfo(root / "proc", root / "sys");
  EXPECT_EQ(info.total_bytes, 2048000u);
  EXPECT_EQ(info.available_bytes, 0u);
}

TEST(MemoryInfoTest, GroupsOfVersionOne) {
  const TestFolder root;
  root.Write("proc/meminfo", kMeminfo);
  root.Write("proc/self/cgroup",
             "5:cpu,cpuacct:/a\n4:memory:/job\n0::/ignored\n");
  root.Write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "5000000\n");
  root.Write("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "1000000\n");
  // "Unlimited" is a number close to 2^63.
  root.Write("sys/fs/cgroup/memory/memory.limit_in_bytes",
             "9223372036854771712\n");
  const MemoryInfo info = ReadMemoryInfo(root / "proc", root / "sys");
  EXPECT_EQ(info.total_bytes, 5000000u);
  EXPECT_EQ(info.available_bytes, 4000000u);
}

TEST(MemoryInfoTest, NonsenseFallsBackToTheMachine) {
  const TestFolder root;
  root.Write("proc/meminfo", "MemTotal: lots\nMemAvailable:\n");
  root.Write("proc/self/cgroup", "nonsense\n:::\n0::\n");
  const MemoryInfo info = ReadMemoryInfo(root / "proc", root / "sys");
  EXPECT_GT(info.total_bytes, kMiB);
  EXPECT_EQ(info.available_bytes, info.total_bytes);
}

TEST(MemoryInfoTest, ThisMachine) {
  const MemoryInfo info = ReadMemoryInfo();
  EXPECT_GT(info.total_bytes, 16 * kMiB);
  EXPECT_LE(info.available_bytes, info.total_bytes);
}

TEST(ProcessMemoryTest, GrowsWithTheBuffer) {
  const ProcessMemory before = ReadProcessMemory();
  EXPECT_GT(before.anonymous_bytes, 0u);
  constexpr size_t kSize = size_t{32} << 20;
  AlignedBuffer buffer = AlignedBuffer::Allocate(kSize).value();
  for (size_t i = 0; i < kSize; i += 4096) buffer.data()[i] = std::byte{1};
  const ProcessMemory after = ReadProcessMemory();
  EXPECT_GE(after.anonymous_bytes, before.anonymous_bytes + kSize / 2);
}

TEST(HugePageSharesTest, OfMemoryAndOfFiles) {
  const TestFolder root;
  root.Write("proc/self/smaps_rollup",
             "5581-7ffd ---p 00000000 00:00 0      [rollup]\n"
             "Rss:            10240 kB\n"
             "Anonymous:       8192 kB\n"
             "AnonHugePages:   6144 kB\n"
             "ShmemPmdMapped:     0 kB\n"
             "FilePmdMapped:   1024 kB\n");
  const HugePageShares shares = ReadHugePageShares(root / "proc");
  EXPECT_DOUBLE_EQ(shares.anonymous, 0.75);
  EXPECT_DOUBLE_EQ(shares.mapped, 0.5);
}

TEST(HugePageSharesTest, NothingWhereTheKernelDoesNotTell) {
  const TestFolder root;
  const HugePageShares shares = ReadHugePageShares(root / "proc");
  EXPECT_EQ(shares.anonymous, 0.0);
  EXPECT_EQ(shares.mapped, 0.0);
}

}  // namespace
}  // namespace thermocline::os
