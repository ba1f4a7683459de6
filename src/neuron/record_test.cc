#include "neuron/record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace thermocline::neuron {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(RecordLayoutTest, PartsFollowEachOtherInTheirOwnTypes) {
  // 256 elements: Q4_K 144 bytes, Q4_K 144, Q6_K 210.
  const auto layout =
      MakeRecordLayout(DType::kQ4_K, DType::kQ4_K, DType::kQ6_K, 256);
  ASSERT_TRUE(layout.has_value()) << layout.error().message;
  EXPECT_EQ(layout->gate_offset(), 0u);
  EXPECT_EQ(layout->up_offset(), 144u);
  EXPECT_EQ(layout->down_offset(), 288u);
  EXPECT_EQ(layout->used_bytes(), 498u);
  EXPECT_EQ(layout->stride, 512u);
}

TEST(RecordLayoutTest, WithoutAGateUpComesFirst) {
  const auto layout =
      MakeRecordLayout(std::nullopt, DType::kF16, DType::kF32, 7);
  ASSERT_TRUE(layout.has_value());
  EXPECT_EQ(layout->up_offset(), 0u);
  EXPECT_EQ(layout->down_offset(), 14u);
  EXPECT_EQ(layout->used_bytes(), 42u);
  EXPECT_EQ(layout->stride, 64u);
}

TEST(RecordLayoutTest, StridesAreMultiplesOfTheAlignment) {
  const auto tight =
      MakeRecordLayout(DType::kF32, DType::kF32, DType::kF32, 16);
  EXPECT_EQ(tight->used_bytes(), 192u);
  EXPECT_EQ(tight->stride, 192u);
  const auto storage = MakeRecordLayout(DType::kF32, DType::kF32, DType::kF32,
                                        16, kStorageAlignment);
  EXPECT_EQ(storage->stride, 4096u);
}

TEST(RecordLayoutTest, RefusesWhatCannotBeBundled) {
  const auto blocks =
      MakeRecordLayout(DType::kQ8_0, DType::kQ8_0, DType::kQ4_K, 96);
  ASSERT_FALSE(blocks.has_value());
  EXPECT_EQ(blocks.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(blocks.error().message,
              AllOf(HasSubstr("down"), HasSubstr("Q4_K"), HasSubstr("256"),
                    HasSubstr("96")));
  const auto type =
      MakeRecordLayout(DType::kF32, DType::kIQ2_XS, DType::kF32, 256);
  ASSERT_FALSE(type.has_value());
  EXPECT_EQ(type.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(type.error().message,
              AllOf(HasSubstr("up"), HasSubstr("IQ2_XS")));
  EXPECT_FALSE(
      MakeRecordLayout(DType::kI8, DType::kF32, DType::kF32, 256).has_value());
}

TEST(ViewRecordsTest, RowsLieAStrideApart) {
  const auto layout =
      MakeRecordLayout(DType::kF32, DType::kF16, DType::kF32, 4).value();
  std::vector<std::byte> bytes(3 * layout.stride);
  const RecordViews views = ViewRecords(layout, bytes.data(), 3);
  EXPECT_EQ(views.gate.data, bytes.data());
  EXPECT_EQ(views.gate.row(2), bytes.data() + 2 * layout.stride);
  EXPECT_EQ(views.up.row(1), bytes.data() + layout.stride + 16);
  EXPECT_EQ(views.up.dtype, DType::kF16);
  EXPECT_EQ(views.down_t.row(1), bytes.data() + layout.stride + 24);
  EXPECT_EQ(views.down_t.shape.num_rows(), 3u);
  EXPECT_EQ(views.down_t.shape.ne[0], 4u);
}

TEST(ViewRecordsTest, NoGateIsNoView) {
  const auto layout =
      MakeRecordLayout(std::nullopt, DType::kF16, DType::kF16, 4).value();
  std::vector<std::byte> bytes(layout.stride);
  EXPECT_FALSE(ViewRecords(layout, bytes.data(), 1).gate);
}

TEST(ViewRecordsTest, RecordsThatAreNotInMemoryAreThereAllTheSame) {
  const auto layout =
      MakeRecordLayout(DType::kF32, DType::kF16, DType::kF32, 4).value();
  const RecordViews views = ViewRecords(layout, nullptr, 3);
  for (const TensorView& view : {views.gate, views.up, views.down_t}) {
    EXPECT_TRUE(view);
    EXPECT_FALSE(view.in_memory());
    EXPECT_EQ(view.row_stride(), layout.stride);
  }
}

}  // namespace
}  // namespace thermocline::neuron
