#include "training/gate_rows.h"

#include <cstring>

#include "training/testing.h"

namespace thermocline::training {
namespace {

TEST(GateRowsTest, RowsAreScaledAsInputsAre) {
  const auto pool = TestPool(2);
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const std::vector<float> biases = {7, 8, 9};
  const TensorView gate = {
      .dtype = DType::kF32,
      .shape = {.ne = {2, 3, 1, 1}, .rank = 2},
      .data = reinterpret_cast<const std::byte*>(values.data())};
  const TensorView bias = {
      .dtype = DType::kF32,
      .shape = {.ne = {3, 1, 1, 1}, .rank = 1},
      .data = reinterpret_cast<const std::byte*>(biases.data())};
  const GateRows rows = ReadGate(Gemm(pool.get()), gate, bias, 2.0f);
  EXPECT_THAT(rows.rows, ::testing::ElementsAre(0.5f, 1, 1.5f, 2, 2.5f, 3));
  EXPECT_EQ(rows.biases, biases);
  const GateRows none = ReadGate(Gemm(pool.get()), gate, TensorView(), 1.0f);
  EXPECT_EQ(none.rows, values);
  EXPECT_THAT(none.biases, ::testing::Each(0.0f));
}

// An earlier layer's input that is a linear image of the own one tells as much.
TEST(GateRowsTest, LooksAheadThroughALinearMap) {
  GateFixture f;
  std::vector<uint16_t> earlier(600 * kGateWidth);
  std::vector<float> x(kGateWidth);
  for (size_t n = 0; n < 600; ++n) {
    f.layer.samples.LoadInput(n, x.data());
    for (size_t j = 0; j < kGateWidth; ++j) {
      earlier[n * kGateWidth + j] =
          F32ToF16(x[(j + 1) % kGateWidth] - 0.5f * x[j] + 0.3f);
    }
  }
  Samples before = f.layer.samples;
  before.inputs = earlier.data();
  const GateRows rows = LookAhead(f.gemm, f.layer.gate,
                                  FitGuess(f.gemm, before, f.layer.samples));
  for (size_t n = 0; n < 20; ++n) {
    before.LoadInput(n, x.data());
    for (size_t i = 0; i < kGateNeurons; ++i) {
      double margin = double{rows.biases[i]};
      for (size_t j = 0; j < kGateWidth; ++j) {
        margin += double{rows.rows[i * kGateWidth + j]} * x[j];
      }
      EXPECT_NEAR(margin, f.layer.Margin(n, i), 0.05);
    }
  }
}

}  // namespace
}  // namespace thermocline::training
