// Products that are known: by hand, or by double sums over decoded weights.
#include <span>

#include "kernels/testing.h"
#include "tensor/codec.h"

namespace thermocline::kernels {
namespace {

class MatMulTest : public IsaTest {};
TC_FOR_EACH_ISA(MatMulTest);

TEST_P(MatMulTest, SmallProductByHand) {
  // [2, 3] times two tokens; every sum is exact in all three types.
  const float weights[] = {1, 2, -3, 0.5f, 0, 4};
  const float x[] = {1, 10, 100, -2, 4, 8};
  const float expected[] = {-279, 400.5f, -18, 31};
  for (DType dtype : kFloatTypes) {
    std::byte encoded[sizeof(weights)];
    QuantizeRow(dtype, weights, encoded);
    float out[4];
    kernels().matmul(dtype)({.weights = encoded,
                             .row_bytes = BytesOf(dtype, 3),
                             .num_rows = 2,
                             .n = 3,
                             .x = AsBytes(x),
                             .x_stride_bytes = 3 * sizeof(float),
                             .num_tokens = 2,
                             .out = out,
                             .out_stride = 2});
    EXPECT_THAT(out, ::testing::ElementsAreArray(expected)) << NameOf(dtype);
  }
}

// All finite values of a 16-bit type, picked one by one with unit vectors:
// conversion is exact, subnormals included.
TEST_P(MatMulTest, SixteenBitWeightsConvertExactly) {
  constexpr size_t kN = 64;
  std::vector<float> units(kN * kN, 0.0f);
  for (size_t t = 0; t < kN; ++t) units[t * kN + t] = 1;
  for (DType dtype : {DType::kF16, DType::kBF16}) {
    const auto decode = dtype == DType::kF16 ? F16ToF32 : BF16ToF32;
    std::vector<uint16_t> weights(65536);
    for (size_t i = 0; i < weights.size(); ++i) {
      const auto bits = static_cast<uint16_t>(i);
      weights[i] = std::isfinite(decode(bits)) ? bits : uint16_t{0};
    }
    std::vector<float> out(weights.size());
    kernels().matmul(dtype)(
        {.weights = reinterpret_cast<const std::byte*>(weights.data()),
         .row_bytes = kN * 2,
         .num_rows = weights.size() / kN,
         .n = kN,
         .x = AsBytes(units.data()),
         .x_stride_bytes = kN * sizeof(float),
         .num_tokens = kN,
         .out = out.data(),
         .out_stride = weights.size() / kN});
    for (size_t i = 0; i < weights.size(); ++i) {
      const size_t place = i % kN * (weights.size() / kN) + i / kN;
      ASSERT_EQ(out[place], decode(weights[i])) << NameOf(dtype) << " " << i;
    }
  }
}

// The scalar product of quantised types against the decoder, which is written
// without it. Both are exact but for the last rounding and the decoder's.
TEST(RefMatMulTest, QuantisedProductsAreThoseOfDecodedValues) {
  constexpr size_t kN = 512, kRows = 7, kTokens = 19;
  const std::vector<float> x = RandomFloats(kTokens * kN, 3);
  const ActivationRows activations(x, kTokens, kN);
  for (DType dtype : kQuantTypes) {
    const WeightRows weights(dtype, kRows, kN, 10, 4);
    std::vector<float> out(kTokens * kRows);
    KernelsFor(Isa::kScalar)
        .matmul(dtype)({.weights = weights.data(),
                        .row_bytes = weights.row_bytes(),
                        .num_rows = kRows,
                        .n = kN,
                        .x = activations.data(),
                        .x_stride_bytes = activations.stride_bytes(),
                        .num_tokens = kTokens,
                        .out = out.data(),
                        .out_stride = kRows});
    for (size_t r = 0; r < kRows; ++r) {
      std::vector<float> row(kN);
      DequantizeRow(dtype, weights.row(r), row);
      for (size_t t = 0; t < kTokens; ++t) {
        const ActivationRow a = activations.row(t, kN);
        double sum = 0, magnitude = 0;
        for (size_t i = 0; i < kN; ++i) {
          const double term = static_cast<double>(row[i]) * a.d[i / 32] *
                              static_cast<double>(a.q[i]);
          sum += term;
          magnitude += std::abs(term);
        }
        // d * q and the minimum round once each in the decoder; the minimum
        // may be many times the value that is left.
        EXPECT_NEAR(out[t * kRows + r], sum, 64 * kRounding * magnitude)
            << NameOf(dtype) << " row " << r << " token " << t;
      }
    }
  }
}

TEST(RefMatMulTest, NonFiniteActivationsGiveNaN) {
  std::vector<float> x = RandomFloats(64, 5);
  x[40] = std::numeric_limits<float>::infinity();
  const ActivationRows activations(x, 1, 64);
  for (Isa isa : SupportedIsas()) {
    for (DType dtype : {DType::kQ8_0, DType::kQ4_0, DType::kQ5_1}) {
      const WeightRows weights(dtype, 1, 64, 0, 6);
      float out = 0;
      KernelsFor(isa).matmul(dtype)({.weights = weights.data(),
                                     .row_bytes = weights.row_bytes(),
                                     .num_rows = 1,
                                     .n = 64,
                                     .x = activations.data(),
                                     .x_stride_bytes = 192,
                                     .num_tokens = 1,
                                     .out = &out,
                                     .out_stride = 1});
      EXPECT_TRUE(std::isnan(out)) << NameOf(isa) << " " << NameOf(dtype);
    }
  }
}

}  // namespace
}  // namespace thermocline::kernels
