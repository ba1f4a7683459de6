#include <string>
#include <string_view>

#include "kernels/cpu/float_kernels.h"
#include "kernels/testing.h"
#include "tensor/codec.h"

namespace thermocline::kernels {
namespace {

class TableTest : public IsaTest {};
TC_FOR_EACH_ISA(TableTest);

TEST_P(TableTest, IsComplete) {
  const KernelTable& table = kernels();
  EXPECT_EQ(table.isa, GetParam());
  for (uint32_t id = 0; id < std::size(table.matmul_by_type); ++id) {
    const DTypeInfo* info = FindDType(id);
    EXPECT_EQ(table.matmul_by_type[id] != nullptr,
              info != nullptr && info->can_compute)
        << "type " << id;
    EXPECT_EQ(table.dot_rows_by_type[id] != nullptr,
              table.matmul_by_type[id] != nullptr)
        << "type " << id;
    EXPECT_EQ(table.add_rows_by_type[id] != nullptr,
              table.matmul_by_type[id] != nullptr)
        << "type " << id;
  }
  EXPECT_NE(table.quantize_activations, nullptr);
  EXPECT_NE(table.rms_norm, nullptr);
  EXPECT_NE(table.layer_norm, nullptr);
  EXPECT_NE(table.rope, nullptr);
  EXPECT_NE(table.activate, nullptr);
  EXPECT_NE(table.pack_signs, nullptr);
  EXPECT_NE(table.count_differences, nullptr);
  EXPECT_NE(table.add, nullptr);
  EXPECT_NE(table.store_row, nullptr);
  EXPECT_NE(table.attention, nullptr);
  EXPECT_NE(table.merge_attention, nullptr);
  EXPECT_NE(table.finish_attention, nullptr);
  EXPECT_NE(table.all_finite, nullptr);
}

TEST_P(TableTest, HasOneAddress) {
  EXPECT_EQ(&KernelsFor(GetParam()), &KernelsFor(GetParam()));
}

TEST_P(TableTest, NothingStaysScalarInOtherTables) {
  if (GetParam() == Isa::kScalar) return;
  const KernelTable& table = kernels();
  for (DType dtype : kFloatTypes) {
    EXPECT_NE(table.matmul(dtype), scalar().matmul(dtype)) << NameOf(dtype);
    EXPECT_NE(table.dot_rows(dtype), scalar().dot_rows(dtype)) << NameOf(dtype);
    EXPECT_NE(table.add_rows(dtype), scalar().add_rows(dtype)) << NameOf(dtype);
  }
  for (DType dtype : kQuantTypes) {
    EXPECT_NE(table.matmul(dtype), scalar().matmul(dtype)) << NameOf(dtype);
    EXPECT_NE(table.dot_rows(dtype), scalar().dot_rows(dtype)) << NameOf(dtype);
    EXPECT_NE(table.add_rows(dtype), scalar().add_rows(dtype)) << NameOf(dtype);
  }
  EXPECT_NE(table.quantize_activations, scalar().quantize_activations);
  EXPECT_NE(table.rms_norm, scalar().rms_norm);
  EXPECT_NE(table.layer_norm, scalar().layer_norm);
  EXPECT_NE(table.rope, scalar().rope);
  EXPECT_NE(table.activate, scalar().activate);
  EXPECT_NE(table.pack_signs, scalar().pack_signs);
  EXPECT_NE(table.count_differences, scalar().count_differences);
  EXPECT_NE(table.add, scalar().add);
  EXPECT_NE(table.store_row, scalar().store_row);
  EXPECT_NE(table.attention, scalar().attention);
  EXPECT_NE(table.merge_attention, scalar().merge_attention);
  EXPECT_NE(table.finish_attention, scalar().finish_attention);
  EXPECT_NE(table.all_finite, scalar().all_finite);
}

TEST_P(TableTest, ListsGoIntoTheFirstLevelOnX86ButOnAmd) {
#if defined(__x86_64__)
  constexpr bool kIsX86 = true;
#else
  constexpr bool kIsX86 = false;
#endif
  EXPECT_EQ(MakeTable(GetParam(), false).lists_into_first_level, kIsX86);
  EXPECT_FALSE(MakeTable(GetParam(), true).lists_into_first_level);
}

TEST_P(TableTest, TakesTheTargetOfItsIsa) {
  const std::string expected = [] {
    switch (GetParam()) {
      case Isa::kScalar:
        return "";
      case Isa::kAvx2:
      case Isa::kAvxVnni:
        return "AVX2";
      case Isa::kAvx512:
      case Isa::kAvx512Vnni:
      case Isa::kAmx:
        return "AVX3";
      case Isa::kNeonDotprod:
        return "NEON";
    }
    return "none";
  }();
  EXPECT_EQ(FloatTargetName(GetParam()), expected);
}

// The width of a vector shows in the order of a sum: with 8 lanes or fewer the
// two ones meet 2^24 one by one and vanish; with 16 they meet each other first.
TEST_P(TableTest, RunsTheVectorWidthOfItsIsa) {
  std::vector<float> weights(32, 0.0f);
  weights[0] = 0x1.0p24f;
  weights[8] = 1;
  weights[24] = 1;
  const std::vector<float> ones(32, 1.0f);
  float out = 0;
  kernels().matmul(DType::kF32)({.weights = AsBytes(weights.data()),
                                 .row_bytes = 128,
                                 .num_rows = 1,
                                 .n = 32,
                                 .x = AsBytes(ones.data()),
                                 .x_stride_bytes = 128,
                                 .num_tokens = 1,
                                 .out = &out,
                                 .out_stride = 1});
  const std::string_view target = FloatTargetName(GetParam());
  const bool is_narrow = target == "AVX2" || target == "NEON";
  EXPECT_EQ(out, is_narrow ? 0x1.0p24f : 0x1.0p24f + 2);
}

// Every quantised product against the scalar one. Integers inside a block are
// exact; what may differ is the rounding of each block's term and their sum.
TEST_P(TableTest, QuantisedProductsAgreeWithScalar) {
  constexpr size_t kN = 1280, kRows = 5, kTokens = 3;
  const std::vector<float> x = RandomFloats(kTokens * kN, 2);
  const ActivationRows activations(x, kTokens, kN);
  for (DType dtype : kQuantTypes) {
    const WeightRows weights(dtype, kRows, kN, 6, 1);
    std::vector<float> out(kTokens * kRows), truth(out.size());
    MatMulArgs args = {.weights = weights.data(),
                       .row_bytes = weights.row_bytes(),
                       .num_rows = kRows,
                       .n = kN,
                       .x = activations.data(),
                       .x_stride_bytes = activations.stride_bytes(),
                       .num_tokens = kTokens,
                       .out = out.data(),
                       .out_stride = kRows};
    kernels().matmul(dtype)(args);
    args.out = truth.data();
    scalar().matmul(dtype)(args);
    for (size_t r = 0; r < kRows; ++r) {
      std::vector<float> row(kN);
      DequantizeRow(dtype, weights.row(r), row);
      for (size_t t = 0; t < kTokens; ++t) {
        double magnitude = 0;
        for (size_t i = 0; i < kN; ++i) {
          magnitude += std::abs(row[i] * x[t * kN + i]);
        }
        EXPECT_NEAR(out[t * kRows + r], truth[t * kRows + r],
                    64 * kRounding * magnitude)
            << NameOf(dtype) << " row " << r << " token " << t;
      }
    }
  }
}

TEST(TableDeathTest, AnIsaOfAnotherMachineIsRefused) {
  const Isa foreign = SupportedIsas().back() == Isa::kNeonDotprod
                          ? Isa::kAvx2
                          : Isa::kNeonDotprod;
  EXPECT_DEATH(KernelsFor(foreign), "check failed");
}

}  // namespace
}  // namespace thermocline::kernels
