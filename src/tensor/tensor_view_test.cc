#include "tensor/tensor_view.h"

#include <gtest/gtest.h>

#include <vector>

namespace thermocline {
namespace {

TEST(ShapeTest, CountsAndText) {
  const Shape shape = {{64, 3, 2, 1}, 3};
  EXPECT_EQ(shape.num_rows(), 6u);
  EXPECT_EQ(shape.num_elems(), 384u);
  EXPECT_EQ(ToString(shape), "[64, 3, 2]");
  EXPECT_EQ(ToString(Shape{{4096, 32000}, 2}), "[4096, 32000]");
  EXPECT_EQ(ToString(Shape{}), "[]");
}

TEST(TensorViewTest, RowsFollowEachOther) {
  const std::vector<std::byte> bytes(2 * 36);
  const TensorView view = {DType::kQ4_0, {{64, 2, 1, 1}, 2}, bytes.data()};
  EXPECT_TRUE(view);
  EXPECT_TRUE(view.in_memory());
  EXPECT_EQ(view.row_bytes(), 36u);
  EXPECT_EQ(view.num_bytes(), 72u);
  EXPECT_EQ(view.row(1), bytes.data() + 36);
  EXPECT_FALSE(TensorView());
}

TEST(TensorViewTest, AbsentIsNotTheSameAsNotInMemory) {
  EXPECT_FALSE(TensorView().in_memory());
  const TensorView elsewhere = {DType::kQ4_0, {{64, 2, 1, 1}, 2}, nullptr, 128};
  EXPECT_TRUE(elsewhere);
  EXPECT_FALSE(elsewhere.in_memory());
  EXPECT_EQ(elsewhere.num_bytes(), 72u);
  EXPECT_EQ(elsewhere.row_stride(), 128u);
#ifndef NDEBUG
  EXPECT_DEATH((void)elsewhere.row(1), "in_memory");
#endif
}

TEST(TensorViewTest, RowsOfRecordsLieAStrideApart) {
  const std::vector<std::byte> bytes(2 * 128);
  const TensorView view = {
      DType::kQ4_0, {{64, 2, 1, 1}, 2}, bytes.data() + 36, 128};
  EXPECT_EQ(view.row_bytes(), 36u);
  EXPECT_EQ(view.num_bytes(), 72u);
  EXPECT_EQ(view.row_stride(), 128u);
  EXPECT_EQ(view.row(1), bytes.data() + 36 + 128);
}

}  // namespace
}  // namespace thermocline
