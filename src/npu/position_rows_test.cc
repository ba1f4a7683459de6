#include "npu/position_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "npu/block.h"
#include "npu/test_npu_model.h"

namespace thermocline::npu {
namespace {

// Open columns of each row, as 'o' among '.', for S = 5 and T = 4.
TEST(PositionRowsTest, RowsSeeThePastAndThoseBeforeThem) {
  const Chunk chunk = {.count = 3, .rows = 4, .context = 9};
  std::vector<float> mask(4 * 9, 7.0f);
  FillMask(chunk, 2, mask.data());
  const char* expected[] = {"oo...o...", "oo...oo..", "oo...ooo.", "........o"};
  for (size_t t = 0; t < 4; ++t) {
    for (size_t i = 0; i < 9; ++i) {
      EXPECT_EQ(mask[t * 9 + i], expected[t][i] == 'o' ? 0.0f : kClosed)
          << t << " " << i;
    }
  }
}

TEST(PositionRowsTest, AnglesAreThoseOfThePositions) {
  const auto model = MakeNpuModel({});
  const RopeRows rows(*model);
  ASSERT_EQ(rows.num_pairs(), 8u);
  const Chunk chunk = {.count = 1, .rows = 2, .context = 64};
  std::vector<float> cos(16), sin(16);
  rows.Fill(chunk, 5, cos.data(), sin.data());
  // The first pair turns by 1 a position, the last by 10000^(-14/16).
  EXPECT_NEAR(cos[0], std::cos(5.0), 1e-6);
  EXPECT_NEAR(sin[8], std::sin(6.0), 1e-6);
  EXPECT_NEAR(sin[15], std::sin(6.0 * std::pow(1e4, -14.0 / 16.0)), 1e-6);
}

TEST(PositionRowsTest, ModelsWithLearnedPositionsDoNotRotate) {
  EXPECT_EQ(RopeRows(*MakeNpuModel({.architecture = "opt", .num_kv_heads = 6}))
                .num_pairs(),
            0u);
}

}  // namespace
}  // namespace thermocline::npu
