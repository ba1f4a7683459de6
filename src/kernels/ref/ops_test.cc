// Known answers that every table must give.
#include <cmath>
#include <limits>

#include "kernels/testing.h"
#include "tensor/blocks.h"
#include "tensor/float16.h"

namespace thermocline::kernels {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::Pointwise;

constexpr float kRefNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kRefInfinity = std::numeric_limits<float>::infinity();

class OpsTest : public IsaTest {};
TC_FOR_EACH_ISA(OpsTest);

TEST_P(OpsTest, QuantizeRoundsHalfToEven) {
  std::vector<float> x(32, 0.0f);
  x[0] = -254;  // d = 2
  x[1] = 1;     // 0.5 -> 0
  x[2] = 3;     // 1.5 -> 2
  x[3] = -5;    // -2.5 -> -2
  x[4] = 2.5f;  // 1.25 -> 1
  x[20] = 254;
  const size_t bytes = ActivationRowBytes(32);
  alignas(64) std::byte out[192];
  ASSERT_EQ(bytes, 128u);
  kernels().quantize_activations(x.data(), 32, out);
  const ActivationRow row = ActivationRowAt(out, 32);
  EXPECT_EQ(row.d[0], 2);
  EXPECT_EQ(row.q[0], -127);
  EXPECT_EQ(row.q[1], 0);
  EXPECT_EQ(row.q[2], 2);
  EXPECT_EQ(row.q[3], -2);
  EXPECT_EQ(row.q[4], 1);
  EXPECT_EQ(row.q[20], 127);
  EXPECT_EQ(row.sum[0], -126);
  EXPECT_EQ(row.sum[1], 127);
}

TEST_P(OpsTest, QuantizeOfZeroTinyAndNonFiniteBlocks) {
  std::vector<float> x(128, 0.0f);
  x[32] = 190 * std::numeric_limits<float>::denorm_min();
  x[33] = -x[32];
  x[64] = kRefNaN;
  x[65] = 1;
  x[96] = -kRefInfinity;
  std::vector<float> storage(ActivationRowBytes(128) / sizeof(float));
  auto* out = reinterpret_cast<std::byte*>(storage.data());
  kernels().quantize_activations(x.data(), 128, out);
  const ActivationRow row = ActivationRowAt(out, 128);
  EXPECT_EQ(row.d[0], 0);
  EXPECT_EQ(row.q[32], 127);
  EXPECT_EQ(row.q[33], -127);
  EXPECT_TRUE(std::isnan(row.d[2]));
  EXPECT_EQ(row.d[3], kRefInfinity);
  for (size_t i : {0, 31, 64, 65, 96, 127}) EXPECT_EQ(row.q[i], 0) << i;
  for (size_t g : {0, 1, 2, 3, 4, 5, 6, 7}) EXPECT_EQ(row.sum[g], 0) << g;
}

TEST_P(OpsTest, RmsNormByHand) {
  const float x[] = {3, -4, 0, 0, 0};
  const float weight[] = {1, 2, 3, 4, 5};
  float out[5];
  // mean of squares 5; with eps 4 the root is 3.
  kernels().rms_norm(x, weight, 4, 5, out);
  EXPECT_THAT(out,
              Pointwise(FloatNear(1e-6f), {1.0f, -8.0f / 3, 0.0f, 0.0f, 0.0f}));
}

TEST_P(OpsTest, RmsNormEpsilonIsInsideTheRoot) {
  // Far below sqrt(eps) the norm divides by sqrt(eps), not by sqrt + eps.
  const float x[] = {1e-6f, -1e-6f};
  const float weight[] = {1, 1};
  float out[2];
  kernels().rms_norm(x, weight, 1e-6f, 2, out);
  EXPECT_NEAR(out[0], 1e-3f, 1e-8f);
  kernels().rms_norm(x, weight, 1e-10f, 2, out);
  EXPECT_NEAR(out[0], 0.0995037f, 1e-6f);
}

TEST_P(OpsTest, LayerNormByHand) {
  const float x[] = {1001, 1003, 1001, 1003};
  const float weight[] = {1, 1, 2, 2};
  const float bias[] = {0, 0, 10, 10};
  float out[4];
  kernels().layer_norm(x, weight, bias, 3, 4, out);  // var 1 + eps 3: root 2
  EXPECT_THAT(out, ElementsAre(-0.5f, 0.5f, 9, 11));
  kernels().layer_norm(x, weight, nullptr, 3, 4, out);
  EXPECT_THAT(out, ElementsAre(-0.5f, 0.5f, -1, 1));
}

TEST_P(OpsTest, NormsWorkInPlace) {
  const std::vector<float> x = RandomFloats(37, 1);
  const std::vector<float> weight = RandomFloats(37, 2);
  std::vector<float> expected(37), in_place = x;
  kernels().rms_norm(x.data(), weight.data(), 1e-5f, 37, expected.data());
  kernels().rms_norm(in_place.data(), weight.data(), 1e-5f, 37,
                     in_place.data());
  EXPECT_TRUE(SameBits(in_place, expected));
  in_place = x;
  kernels().layer_norm(x.data(), weight.data(), weight.data(), 1e-5f, 37,
                       expected.data());
  kernels().layer_norm(in_place.data(), weight.data(), weight.data(), 1e-5f, 37,
                       in_place.data());
  EXPECT_TRUE(SameBits(in_place, expected));
}

// A quarter turn of pair 0 and a half turn of pair 1, in heads of width 6.
TEST_P(OpsTest, RopePairsOfEachKind) {
  const float cos[] = {0, -1};
  const float sin[] = {1, 0};
  float norm[] = {1, 2, 3, 4, 5, 6, 10, 20, 30, 40, 50, 60};
  kernels().rope(norm, 2, 6, RopeKind::kNorm, cos, sin, 2);
  EXPECT_THAT(norm,
              ElementsAre(-2, 1, -3, -4, 5, 6, -20, 10, -30, -40, 50, 60));
  float neox[] = {1, 2, 3, 4, 5, 6, 10, 20, 30, 40, 50, 60};
  kernels().rope(neox, 2, 6, RopeKind::kNeox, cos, sin, 2);
  EXPECT_THAT(neox,
              ElementsAre(-3, -2, 1, -4, 5, 6, -30, -20, 10, -40, 50, 60));
  float none[] = {1, 2, 3, 4, 5, 6};
  kernels().rope(none, 1, 6, RopeKind::kNone, cos, sin, 2);
  EXPECT_THAT(none, ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST_P(OpsTest, SiluAndGeluByTable) {
  const float up[] = {-4, -1, 0, 1, 2, 6};
  float out[6];
  kernels().activate(Activation::kSilu, 0, nullptr, up, 6, out);
  EXPECT_THAT(out, Pointwise(FloatNear(1e-6f),
                             {-0.07194484f, -0.26894142f, 0.0f, 0.73105858f,
                              1.76159416f, 5.98516426f}));
  // The tanh form; the erf form gives 0.841344746 at 1 and 1.954499736 at 2.
  kernels().activate(Activation::kGelu, 0, nullptr, up, 6, out);
  EXPECT_THAT(out,
              Pointwise(FloatNear(1e-6f), {-0.00007024f, -0.15880801f, 0.0f,
                                           0.84119199f, 1.95459769f, 6.0f}));
}

TEST_P(OpsTest, ReluFamily) {
  const float up[] = {-2, -0.25f, 0, 0.25f, 0.5f, 3};
  float out[6];
  kernels().activate(Activation::kRelu, 9, nullptr, up, 6, out);
  EXPECT_THAT(out, ElementsAre(0, 0, 0, 0.25f, 0.5f, 3));
  // The threshold itself passes.
  kernels().activate(Activation::kFatRelu, 0.5f, nullptr, up, 6, out);
  EXPECT_THAT(out, ElementsAre(0, 0, 0, 0, 0.5f, 3));
  kernels().activate(Activation::kRelu2, 9, nullptr, up, 6, out);
  EXPECT_THAT(out, ElementsAre(0, 0, 0, 0.0625f, 0.25f, 9));
}

// Squares leave the range of floats long before what is squared does.
TEST_P(OpsTest, SquaredReluKeepsNaNAndOverflows) {
  const float up[] = {kRefNaN,      1e30f,         -1e30f,
                      kRefInfinity, -kRefInfinity, 1e-30f};
  float out[6];
  kernels().activate(Activation::kRelu2, 0, nullptr, up, 6, out);
  EXPECT_TRUE(std::isnan(out[0]));
  EXPECT_EQ(out[1], kRefInfinity);
  EXPECT_EQ(out[2], 0);
  EXPECT_EQ(out[3], kRefInfinity);
  EXPECT_EQ(out[4], 0);
  EXPECT_EQ(out[5], 0);
}

TEST_P(OpsTest, GatesMultiply) {
  const float gate[] = {-2, 2, 3, -1};
  const float up[] = {5, 7, -1, -1};
  float out[4];
  kernels().activate(Activation::kRelu, 0, gate, up, 4, out);
  EXPECT_THAT(out, ElementsAre(0, 14, -3, 0));
  kernels().activate(Activation::kFatRelu, 2.5f, gate, up, 4, out);
  EXPECT_THAT(out, ElementsAre(0, 0, -3, 0));
  kernels().activate(Activation::kDRelu, 0, gate, up, 4, out);
  EXPECT_THAT(out, ElementsAre(0, 14, 0, 0));
  kernels().activate(Activation::kRelu2, 0, gate, up, 4, out);
  EXPECT_THAT(out, ElementsAre(0, 28, -9, 0));
  kernels().activate(Activation::kSilu, 0, gate, up, 4, out);
  EXPECT_NEAR(out[1], 7 * 1.76159416f, 1e-5f);
  kernels().activate(Activation::kGelu, 0, gate, up, 4, out);
  EXPECT_NEAR(out[1], 7 * 1.95459769f, 1e-5f);
}

TEST_P(OpsTest, ActivateKeepsNaNAndSurvivesExtremes) {
  const float up[] = {kRefNaN, 1e30f,        -1e30f, 100,
                      -100,    kRefInfinity, -1e38f, -kRefInfinity};
  for (Activation activation : {Activation::kSilu, Activation::kGelu,
                                Activation::kRelu, Activation::kFatRelu}) {
    float out[8];
    kernels().activate(activation, 0, nullptr, up, 8, out);
    EXPECT_TRUE(std::isnan(out[0])) << NameOf(activation);
    EXPECT_EQ(out[1], 1e30f) << NameOf(activation);
    EXPECT_EQ(out[2], 0) << NameOf(activation);
    EXPECT_EQ(out[3], 100) << NameOf(activation);
    EXPECT_NEAR(out[4], 0, 1e-30) << NameOf(activation);
    EXPECT_EQ(out[5], kRefInfinity) << NameOf(activation);
    EXPECT_EQ(out[6], 0) << NameOf(activation);
    // Infinity times the nothing that is left of it.
    const bool is_smooth =
        activation == Activation::kSilu || activation == Activation::kGelu;
    EXPECT_EQ(std::isnan(out[7]), is_smooth) << NameOf(activation);
  }
}

TEST_P(OpsTest, ActivateWorksInPlace) {
  const std::vector<float> gate = RandomFloats(37, 3, 8);
  const std::vector<float> up = RandomFloats(37, 4, 8);
  for (Activation activation :
       {Activation::kSilu, Activation::kGelu, Activation::kDRelu}) {
    std::vector<float> expected(37), over_gate = gate, over_up = up;
    kernels().activate(activation, 0, gate.data(), up.data(), 37,
                       expected.data());
    kernels().activate(activation, 0, over_gate.data(), up.data(), 37,
                       over_gate.data());
    kernels().activate(activation, 0, gate.data(), over_up.data(), 37,
                       over_up.data());
    EXPECT_TRUE(SameBits(over_gate, expected));
    EXPECT_TRUE(SameBits(over_up, expected));
  }
}

TEST_P(OpsTest, AddIsInPlace) {
  for (size_t n : kOddSizes) {
    const std::vector<float> x = RandomFloats(n, n);
    std::vector<float> y = RandomFloats(n, n + 1);
    y.push_back(7);
    std::vector<float> expected = y;
    for (size_t i = 0; i < n; ++i) expected[i] += x[i];
    kernels().add(x.data(), n, y.data());
    EXPECT_TRUE(SameBits(y, expected)) << n;
  }
}

TEST_P(OpsTest, AllFiniteSeesEveryPlace) {
  for (size_t n : kOddSizes) {
    std::vector<float> x(n, std::numeric_limits<float>::max());
    EXPECT_TRUE(kernels().all_finite(x.data(), n)) << n;
    for (size_t place : {size_t{0}, n / 2, n - 1}) {
      for (float bad : {kRefNaN, -kRefNaN, kRefInfinity, -kRefInfinity}) {
        const float good = x[place];
        x[place] = bad;
        EXPECT_FALSE(kernels().all_finite(x.data(), n)) << n << " " << place;
        x[place] = good;
      }
    }
  }
  EXPECT_TRUE(kernels().all_finite(nullptr, 0));
}

TEST_P(OpsTest, StoreRowByHand) {
  const float x[] = {1, -2.5f, 65504, 1e-7f, 1e6f};
  std::byte f32[sizeof(x)], f16[10];
  kernels().store_row(DType::kF32, x, 5, f32);
  EXPECT_EQ(std::memcmp(f32, x, sizeof(x)), 0);
  kernels().store_row(DType::kF16, x, 5, f16);
  const uint16_t expected[] = {0x3c00, 0xc100, 0x7bff, 0x0002, 0x7e00};
  EXPECT_EQ(std::memcmp(f16, expected, sizeof(f16)), 0);

  std::vector<float> block_values(32, 0.0f);
  block_values[0] = 127;
  block_values[31] = -3.5f;
  BlockQ8_0 block;
  kernels().store_row(DType::kQ8_0, block_values.data(), 32,
                      reinterpret_cast<std::byte*>(&block));
  EXPECT_EQ(block.d, 0x3c00);
  EXPECT_EQ(block.qs[0], 127);
  EXPECT_EQ(block.qs[31], -4);
}

TEST_P(OpsTest, StoredFloatsAreNaNWhereTheyWouldBeInfinite) {
  constexpr size_t kN = 37;
  for (const float bad : {kRefNaN, kRefInfinity, -kRefInfinity, 65519.0f,
                          -65519.0f, 65520.0f, -7e4f}) {
    for (size_t place = 0; place < kN; ++place) {
      std::vector<float> values(kN, 65504.0f);
      values[place] = bad;
      std::byte f32[kN * 4], f16[kN * 2];
      kernels().store_row(DType::kF32, values.data(), kN, f32);
      kernels().store_row(DType::kF16, values.data(), kN, f16);
      for (size_t i = 0; i < kN; ++i) {
        float single;
        uint16_t half;
        std::memcpy(&single, f32 + 4 * i, sizeof(single));
        std::memcpy(&half, f16 + 2 * i, sizeof(half));
        const bool is_bad = i == place;
        EXPECT_EQ(std::isnan(single), is_bad && !std::isfinite(bad)) << bad;
        EXPECT_EQ(std::isnan(F16ToF32(half)),
                  is_bad && !(std::abs(bad) < 65520.0f))
            << bad;
        if (!is_bad) EXPECT_EQ(half, 0x7bff);
      }
    }
  }
}

TEST_P(OpsTest, StoredRowsDoNotHideWhatTheyCannotHold) {
  for (const float bad : {kRefNaN, kRefInfinity, -kRefInfinity, 1e7f}) {
    std::vector<float> values(64, 1.0f);
    values[40] = bad;
    BlockQ8_0 blocks[2];
    kernels().store_row(DType::kQ8_0, values.data(), 64,
                        reinterpret_cast<std::byte*>(blocks));
    EXPECT_TRUE(std::isfinite(F16ToF32(blocks[0].d))) << bad;
    EXPECT_TRUE(std::isnan(F16ToF32(blocks[1].d))) << bad;
  }
}

}  // namespace
}  // namespace thermocline::kernels
