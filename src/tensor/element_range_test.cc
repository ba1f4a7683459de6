#include "tensor/element_range.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tensor/codec.h"

namespace thermocline {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr DType kTypes[] = {DType::kF32,  DType::kF16,  DType::kBF16,
                            DType::kQ8_0, DType::kQ4_0, DType::kQ4_1,
                            DType::kQ5_0, DType::kQ5_1, DType::kQ4_K,
                            DType::kQ5_K, DType::kQ6_K};

// The largest number comes back at its size, wherever it stands and whatever
// stands beside it; nothing is cut off.
TEST(ElementRangeTest, TheLargestIsStored) {
  for (const DType dtype : kTypes) {
    const float largest = LargestIn(dtype);
    for (const float value : {largest, -largest}) {
      for (const float other : {0.0f, value / 2, -value}) {
        std::vector<float> row(256, other);
        row[17] = value;
        std::vector<std::byte> bytes(BytesOf(dtype, row.size()));
        QuantizeRow(dtype, row, bytes.data());
        std::vector<float> back(row.size());
        DequantizeRow(dtype, bytes.data(), back);
        // A type with eight levels on one side of zero and seven on the other
        // cuts off an eighth.
        const double error = std::fabs(double{back[17]} - double{value});
        EXPECT_LE(error, 0.126 * std::fabs(double{value}))
            << NameOf(dtype) << " " << value << " beside " << other;
      }
    }
  }
}

TEST(ElementRangeTest, FindsTheFirst) {
  std::vector<float> row(100, 1.0f);
  for (const DType dtype : kTypes) {
    EXPECT_EQ(FindUnstorable(dtype, row), std::nullopt);
    row[70] = kInf;
    EXPECT_EQ(FindUnstorable(dtype, row), 70u);
    row[31] = kNan;
    EXPECT_EQ(FindUnstorable(dtype, row), 31u);
    row[0] = -kInf;
    EXPECT_EQ(FindUnstorable(dtype, row), 0u);
    row[0] = LargestIn(dtype);
    EXPECT_EQ(FindUnstorable(dtype, row), 31u);
    row[0] = row[31] = row[70] = 1.0f;
  }
  row[5] = 65520.0f;
  EXPECT_EQ(FindUnstorable(DType::kF16, row), 5u);
  EXPECT_EQ(FindUnstorable(DType::kBF16, row), std::nullopt);
}

TEST(ElementRangeTest, SaysWhatToDo) {
  EXPECT_EQ(DescribeUnstorable(DType::kQ4_0, kNan), "an element that is nan");
  EXPECT_EQ(DescribeUnstorable(DType::kF16, -1e6f),
            "an element -1000000, too large for F16; choose BF16 or F32");
  EXPECT_EQ(DescribeUnstorable(DType::kBF16, 3.4e38f),
            "an element 3.4e+38, too large for BF16; choose F32");
}

}  // namespace
}  // namespace thermocline
