#include "probe/product.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>

#include "kernels/testing.h"

namespace thermocline::probe {
namespace {

using kernels::Isa;
using kernels::SupportedIsas;
using ::testing::HasSubstr;

class MeasureProductTest : public kernels::IsaTest {};

void ExpectRate(const kernels::KernelTable& table, DType dtype) {
  const auto rate = MeasureProduct(table, dtype, 1);
  ASSERT_TRUE(rate.has_value()) << rate.error().message;
  EXPECT_FALSE(rate->is_batch);
  EXPECT_GT(rate->gmac_per_s, 0.0);
  EXPECT_NEAR(rate->gb_per_s / rate->gmac_per_s,
              static_cast<double>(BytesOf(dtype, 256)) / 256, 1e-9);
}

TEST_P(MeasureProductTest, VerifiesAndTimesEveryType) {
  for (const DType dtype : kernels::kFloatTypes) ExpectRate(kernels(), dtype);
  for (const DType dtype : kernels::kQuantTypes) ExpectRate(kernels(), dtype);
}

TEST_P(MeasureProductTest, TakesTheBatchProductWhereThereIsOne) {
  for (const size_t num_tokens : {size_t{3}, size_t{67}}) {
    const auto rate = MeasureProduct(kernels(), DType::kQ4_0, num_tokens);
    ASSERT_TRUE(rate.has_value()) << rate.error().message;
    EXPECT_EQ(rate->is_batch, kernels().batch_of(DType::kQ4_0) != nullptr);
  }
}

TC_FOR_EACH_ISA(MeasureProductTest);

// Leaves out the last block of the row.
void MissABlock(const kernels::MatMulArgs& args) {
  kernels::KernelsFor(kernels::Isa::kScalar).matmul(DType::kF32)(args);
  for (size_t r = 0; r < args.num_rows; ++r) {
    const auto* w =
        reinterpret_cast<const float*>(args.weights + r * args.row_bytes);
    const auto* x = reinterpret_cast<const float*>(args.x);
    for (size_t i = args.n - 32; i < args.n; ++i) args.out[r] -= w[i] * x[i];
  }
}

void GiveNaN(const kernels::MatMulArgs& args) {
  kernels::KernelsFor(kernels::Isa::kScalar).matmul(DType::kF32)(args);
  args.out[args.num_rows - 1] = std::nanf("");
}

TEST(MeasureProductFaultTest, RefusesToTimeWrongKernels) {
  for (const kernels::MatMulFn wrong : {MissABlock, GiveNaN}) {
    kernels::KernelTable table = kernels::KernelsFor(kernels::Isa::kScalar);
    table.matmul_by_type[static_cast<uint32_t>(DType::kF32)] = wrong;
    const auto rate = MeasureProduct(table, DType::kF32, 1);
    ASSERT_FALSE(rate.has_value());
    EXPECT_EQ(rate.error().code, ErrorCode::kCorrupt);
    EXPECT_THAT(rate.error().message, HasSubstr("wrong products"));
  }
}

TEST(MeasureProductFaultTest, SaysWhenThereIsNoKernel) {
  kernels::KernelTable table = kernels::KernelsFor(kernels::Isa::kScalar);
  table.matmul_by_type[static_cast<uint32_t>(DType::kF16)] = nullptr;
  const auto rate = MeasureProduct(table, DType::kF16, 1);
  ASSERT_FALSE(rate.has_value());
  EXPECT_EQ(rate.error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace thermocline::probe
