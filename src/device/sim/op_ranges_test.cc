#include "device/sim/op_check.h"

#include <gtest/gtest.h>

#include <string>

#include "device/sim/sim_layout.h"

namespace thermocline::device {
namespace {

// Bytes at an address that nothing looks at.
template <typename T>
T* At(uintptr_t address) {
  return reinterpret_cast<T*>(address);
}

uint64_t ReadsOf(const OpRanges& ranges, const std::string& name) {
  for (const OpRange& range : ranges.all()) {
    if (range.name == name) return range.reads;
  }
  ADD_FAILURE() << "no " << name;
  return 0;
}

TEST(OpRanges, AnFfnReadsWhatIsListedAndOpens) {
  const size_t q4 = SimRowBytes(DType::kQ4_0, 96);  // 54 bytes, padded
  const size_t q8 = SimRowBytes(DType::kQ8_0, 96);
  const size_t f16 = SimRowBytes(DType::kF16, 96);
  EXPECT_EQ(q4, 64u);
  EXPECT_EQ(q8, 112u);
  EXPECT_EQ(f16, 192u);
  kernels::SparseFfnArgs ffn{.n = 96,
                             .num_neurons = 100,
                             .num_slots = 10,
                             .num_tokens = 2,
                             .record_bytes = q4 + q8 + f16,
                             .gate_dtype = DType::kQ4_0,
                             .up_dtype = DType::kQ8_0,
                             .down_dtype = DType::kF16,
                             .up_bias = At<float>(16)};
  const SimCounts counts{.listed = 7, .opened = 3};
  const OpRanges gated = RangesOf(ffn, counts);
  EXPECT_EQ(ReadsOf(gated, "records"), 7 * q4 + 3 * (q8 + f16));
  EXPECT_EQ(ReadsOf(gated, "up_bias"), 3u * 4);
  EXPECT_EQ(ReadsOf(gated, "x"), 2u * 96 * 4);
  ffn.gated = false;
  const OpRanges plain = RangesOf(ffn, counts);
  EXPECT_EQ(ReadsOf(plain, "records"), 7 * q8 + 3 * f16);
  EXPECT_EQ(ReadsOf(plain, "up_bias"), 7u * 4);
  EXPECT_EQ(LargestCounts(ffn), (SimCounts{.listed = 10, .opened = 10}));
}

TEST(OpRanges, AttentionReadsKeysAndValuesOnce) {
  const kernels::DecodeAttentionArgs attention{.kv = {.page_bytes = 65536,
                                                      .num_kv_heads = 2,
                                                      .k_width = 64,
                                                      .v_width = 32},
                                               .num_tokens = 3,
                                               .num_heads = 8,
                                               .max_positions = 70,
                                               .table_stride = 5};
  const OpRanges ranges = RangesOf(attention, {.positions = 100});
  EXPECT_EQ(ReadsOf(ranges, "kv"), 100u * 2 * (64 + 32) * 2);
  EXPECT_EQ(ReadsOf(ranges, "page_table"), 3u * 2 * 4);
  EXPECT_EQ(ReadsOf(ranges, "partials"), 0u);
  EXPECT_EQ(LargestCounts(attention), (SimCounts{.positions = 210}));
}

TEST(OpRanges, WhatIsInNoBufferIsRefusedByName) {
  SimMemory memory(1 << 20, true);
  std::byte* data = memory.Allocate(4096, MemoryKind::kDevice, "x").value();
  std::byte* pinned = memory.Allocate(4096, MemoryKind::kPinned, "x").value();
  const auto floats = [](std::byte* bytes) {
    return reinterpret_cast<float*>(bytes);
  };
  kernels::AddRowsScaledArgs add{
      .n = 512, .x = floats(data), .out = floats(pinned)};
  const auto check = [&] {
    const Status status = CheckRanges(add, RangesOf(add, {}), memory);
    return status.has_value() ? "" : status.error().message;
  };
  EXPECT_EQ(check(), "");
  EXPECT_EQ(
      TrafficOf(RangesOf(add, {}), memory),
      (SimTraffic{.device_bytes = 2048, .up_bytes = 2048, .down_bytes = 2048}));
  add.x = nullptr;
  EXPECT_EQ(check(), "AddRowsScaledArgs: x is null");
  add.x = floats(data + 4);
  EXPECT_EQ(check(), "AddRowsScaledArgs: x is not aligned to 16 bytes");
  add.x = floats(data + 2064);
  EXPECT_EQ(check(),
            "AddRowsScaledArgs: x has 2048 bytes where its buffer has 2032 "
            "left");
  add.x = floats(data);
  memory.Free(MemoryKind::kDevice, data, 4096);
  EXPECT_EQ(check(),
            "AddRowsScaledArgs: x lies in no buffer of the device, or in one "
            "that is freed");
  memory.Free(MemoryKind::kPinned, pinned, 4096);
}

}  // namespace
}  // namespace thermocline::device
