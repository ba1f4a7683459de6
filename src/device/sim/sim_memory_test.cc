#include "device/sim/sim_memory.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>

#include "base/units.h"

namespace thermocline::device {
namespace {

TEST(SimMemory, WhatIsAllocatedIsPoison) {
  SimMemory memory(1000, true);
  std::byte* data = memory.Allocate(12, MemoryKind::kDevice, "it").value();
  float value = 0.0f;
  std::memcpy(&value, data + 8, sizeof(value));
  EXPECT_TRUE(std::isnan(value));
  memory.Free(MemoryKind::kDevice, data, 12);
}

TEST(SimMemory, RefusalsHaveTheNumbers) {
  SimMemory memory(4096, true);
  std::byte* data = memory.Allocate(4000, MemoryKind::kDevice, "it").value();
  const auto more = memory.Allocate(97, MemoryKind::kDevice, "the records");
  ASSERT_FALSE(more.has_value());
  EXPECT_EQ(more.error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(more.error().message,
            "the records needs 97 B (97 bytes) of the device's memory, of "
            "which 96 B (96 bytes) is free");
  // Pinned memory is the host's.
  std::byte* pinned = memory.Allocate(5000, MemoryKind::kPinned, "x").value();
  std::byte* last = memory.Allocate(96, MemoryKind::kDevice, "x").value();
  EXPECT_EQ(memory.allocated_bytes(MemoryKind::kDevice), 4096u);
  EXPECT_EQ(memory.peak_bytes(MemoryKind::kPinned), 5000u);
  memory.Free(MemoryKind::kDevice, data, 4000);
  memory.Free(MemoryKind::kDevice, last, 96);
  memory.Free(MemoryKind::kPinned, pinned, 5000);
  EXPECT_EQ(memory.allocated_bytes(MemoryKind::kDevice), 0u);
  EXPECT_EQ(memory.peak_bytes(MemoryKind::kDevice), 4096u);
}

TEST(SimMemory, FindsWhatAnAddressLiesIn) {
  SimMemory memory(1 << 20, true);
  std::byte* data = memory.Allocate(100, MemoryKind::kDevice, "x").value();
  std::byte* pinned = memory.Allocate(50, MemoryKind::kPinned, "x").value();
  EXPECT_EQ(memory.Find(data + 99)->num_bytes, 1u);
  EXPECT_EQ(memory.Find(data)->kind, MemoryKind::kDevice);
  EXPECT_EQ(memory.Find(pinned + 10)->num_bytes, 40u);
  EXPECT_EQ(memory.Find(pinned)->kind, MemoryKind::kPinned);
  EXPECT_FALSE(memory.Find(data + 100).has_value());
  EXPECT_FALSE(memory.Find(&memory).has_value());
  EXPECT_TRUE(memory.MeetsBuffer(data - 4, 5));
  EXPECT_FALSE(memory.MeetsBuffer(data - 4, 4));
  memory.Free(MemoryKind::kDevice, data, 100);
  EXPECT_FALSE(memory.Find(data).has_value());
  memory.Free(MemoryKind::kPinned, pinned, 50);
}

// A card of 24 GB on any machine: addresses that may be written.
TEST(SimMemory, WithoutDataItIsAddresses) {
  SimMemory memory(26 * kGiB, false);
  std::byte* data =
      memory.Allocate(25 * kGiB, MemoryKind::kDevice, "x").value();
  data[25 * kGiB - 1] = std::byte{1};
  EXPECT_EQ(data[0], std::byte{0});
  EXPECT_FALSE(
      memory.Allocate(2 * kGiB, MemoryKind::kDevice, "more").has_value());
  memory.Free(MemoryKind::kDevice, data, 25 * kGiB);
  EXPECT_EQ(memory.Allocate(0, MemoryKind::kDevice, "none").value(), nullptr);
}

}  // namespace
}  // namespace thermocline::device
