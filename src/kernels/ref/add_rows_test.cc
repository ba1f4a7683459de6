// Known answers that every table must give.
#include <limits>

#include "kernels/testing.h"
#include "tensor/codec.h"

namespace thermocline::kernels {
namespace {

using ::testing::ElementsAre;

class AddRowsTest : public IsaTest {};
TC_FOR_EACH_ISA(AddRowsTest);

const std::vector<float> kThreeRows = {1, 2, 3, 10, 20, 30, 100, 200, 300};

TEST_P(AddRowsTest, ListedRowsInAnyOrderAndTwice) {
  const std::vector<uint32_t> ids = {2, 0, 2};
  const std::vector<float> coefs = {1, -1, 0.5f};
  std::vector<float> out = {1000, 2000, 3000};
  kernels().add_rows(DType::kF32)({.rows = AsBytes(kThreeRows.data()),
                                   .row_bytes = 12,
                                   .ids = ids.data(),
                                   .coefs = coefs.data(),
                                   .num_rows = 3,
                                   .n = 3,
                                   .out = out.data()});
  EXPECT_THAT(out, ElementsAre(1149, 2298, 3447));
}

TEST_P(AddRowsTest, WithoutIdsTheFirstRows) {
  const std::vector<float> coefs = {2, 3};
  std::vector<float> out(3);
  AddRowsArgs args = {.rows = AsBytes(kThreeRows.data()),
                      .row_bytes = 12,
                      .ids = nullptr,
                      .coefs = coefs.data(),
                      .num_rows = 2,
                      .n = 3,
                      .out = out.data()};
  kernels().add_rows(DType::kF32)(args);
  EXPECT_THAT(out, ElementsAre(32, 64, 96));
  args.num_rows = 0;
  kernels().add_rows(DType::kF32)(args);
  EXPECT_THAT(out, ElementsAre(32, 64, 96));
}

// A quantised row is what the codec makes of it.
TEST_P(AddRowsTest, QuantisedRowsAreDecoded) {
  for (DType dtype : kQuantTypes) {
    const WeightRows weights(dtype, 3, 512, 6, 5);
    std::vector<float> row(512), out(512);
    DequantizeRow(dtype, weights.row(1), row);
    const uint32_t id = 1;
    const float one = 1;
    kernels().add_rows(dtype)({.rows = weights.data(),
                               .row_bytes = weights.row_bytes(),
                               .ids = &id,
                               .coefs = &one,
                               .num_rows = 1,
                               .n = 512,
                               .out = out.data()});
    if (!RoundsCoefs(GetParam(), dtype)) {
      EXPECT_EQ(out, row) << NameOf(dtype);
      continue;
    }
    // The only coefficient is the largest and stays as it is, but for what
    // floats round.
    const auto scales = NibbleScales(dtype, weights.row(1), 512);
    for (size_t c = 0; c < 512; ++c) {
      const double magnitude = std::abs(row[c]) + 15 * std::abs(scales[c]);
      ASSERT_NEAR(out[c], row[c], 4 * kRounding * magnitude) << c;
    }
  }
}

TEST_P(AddRowsTest, NotANumberStaysInItsColumn) {
  std::vector<float> rows(2 * 19, 1.0f);
  rows[19 + 18] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> coefs = {1, 1};
  std::vector<float> out(19);
  kernels().add_rows(DType::kF32)({.rows = AsBytes(rows.data()),
                                   .row_bytes = 76,
                                   .ids = nullptr,
                                   .coefs = coefs.data(),
                                   .num_rows = 2,
                                   .n = 19,
                                   .out = out.data()});
  EXPECT_EQ(out[17], 2);
  EXPECT_TRUE(std::isnan(out[18]));
}

}  // namespace
}  // namespace thermocline::kernels
