#include "bench/op_layer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "tensor/codec.h"

namespace thermocline::bench {
namespace {

using ::testing::HasSubstr;

constexpr DType kOpTypes[] = {DType::kQ4_0, DType::kQ8_0, DType::kF16};

std::vector<float> RowOf(const OpLayer& layer, OpPart part, size_t neuron) {
  const OpShape& shape = layer.shape();
  std::vector<std::byte> bytes(BytesOf(shape.dtype, shape.width));
  layer.WriteRow(part, neuron, bytes.data());
  std::vector<float> row(shape.width);
  DequantizeRow(shape.dtype, bytes.data(), row);
  return row;
}

// The same from what a codec reads.
std::vector<float> SumOf(const OpLayer& layer, const std::vector<uint32_t>& ids,
                         size_t row) {
  const auto x = layer.x(row);
  const auto dot = [&](OpPart part, size_t neuron) {
    const auto weights = RowOf(layer, part, neuron);
    return std::inner_product(x.begin(), x.end(), weights.begin(), 0.0);
  };
  std::vector<double> sum(layer.shape().width);
  for (const uint32_t i : ids) {
    const double gate = dot(OpPart::kGate, i);
    const double h = gate / (1.0 + std::exp(-gate)) * dot(OpPart::kUp, i);
    const auto down = RowOf(layer, OpPart::kDown, i);
    for (size_t c = 0; c < sum.size(); ++c) sum[c] += h * down[c];
  }
  return {sum.begin(), sum.end()};
}

TEST(OpLayerTest, WantsWhatItsRowsGive) {
  for (const DType dtype : kOpTypes) {
    OpLayer layer({.dtype = dtype, .width = 96, .num_neurons = 37}, 3);
    const std::vector<uint32_t> ids = {0, 3, 20, 36};
    for (const size_t row : {0, 7}) {
      const auto status =
          layer.Check("it", ids, row, false, SumOf(layer, ids, row));
      EXPECT_TRUE(status.has_value()) << status.error().message;
    }
  }
}

TEST(OpLayerTest, WhatIsNotThatIsAnError) {
  OpLayer layer({.dtype = DType::kF16, .width = 65, .num_neurons = 200}, 3);
  std::vector<uint32_t> ids(200);
  std::iota(ids.begin(), ids.end(), 0u);
  const std::vector<float> right = SumOf(layer, ids, 1);
  std::vector<float> nan = right;
  nan[64] = std::numeric_limits<float>::quiet_NaN();
  std::vector<uint32_t> fewer = ids;
  fewer.erase(fewer.begin() + 100);
  for (const auto& wrong : {nan, SumOf(layer, fewer, 1), SumOf(layer, ids, 2),
                            std::vector<float>(65, 0.0f)}) {
    const Status status = layer.Check("cuda0", ids, 1, false, wrong);
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().code, ErrorCode::kCorrupt);
    EXPECT_THAT(status.error().message, HasSubstr("cuda0: a wrong result"));
  }
}

TEST(OpLayerTest, DownMatricesHoldTheSameAsRecords) {
  for (const DType dtype : kOpTypes) {
    const OpLayer layer({.dtype = dtype, .width = 32, .num_neurons = 33}, 1);
    ASSERT_EQ(layer.shape().num_padded(), 64u);
    std::vector<std::byte> bytes(BytesOf(dtype, 64));
    std::vector<float> row(64);
    for (size_t c = 0; c < 32; ++c) {
      layer.WriteDownRow(c, bytes.data());
      DequantizeRow(dtype, bytes.data(), row);
      for (size_t i = 0; i < 64; ++i) {
        ASSERT_EQ(row[i], RowOf(layer, OpPart::kDown, i)[c]);
      }
    }
    // Behind the last neuron there is nothing.
    EXPECT_EQ(row[33], 0.0f);
  }
}

TEST(OpLayerTest, ASeedMakesIt) {
  const OpShape shape = {.width = 64, .num_neurons = 5};
  const auto first = RowOf(OpLayer(shape, 1), OpPart::kUp, 4);
  EXPECT_EQ(first, RowOf(OpLayer(shape, 1), OpPart::kUp, 4));
  EXPECT_NE(first, RowOf(OpLayer(shape, 2), OpPart::kUp, 4));
}

TEST(OpLayerTest, RefusesShapes) {
  struct Case {
    OpShape shape;
    const char* part;
  };
  for (const Case& c :
       {Case{{.width = 100}, "100 is no multiple of 32, Q4_0's block"},
        Case{{.width = 0}, "width of 0"},
        Case{{.num_neurons = 0}, "neurons of 0"},
        Case{{.num_neurons = size_t{1} << 40}, "neurons of 1099511627776"},
        Case{{.dtype = DType::kQ6_K}, "weights of Q6_K"}}) {
    const Status status = CheckShape(c.shape);
    ASSERT_FALSE(status.has_value()) << c.part;
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(status.error().message, HasSubstr(c.part));
  }
  EXPECT_TRUE(CheckShape({.dtype = DType::kF16, .width = 7}).has_value());
}

}  // namespace
}  // namespace thermocline::bench
