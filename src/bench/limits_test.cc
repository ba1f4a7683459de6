#include "bench/limits.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "engine/session.h"

namespace thermocline::bench {
namespace {

std::shared_ptr<const model::Model> Open(const std::string& name) {
  auto model = model::Model::Open(std::string(TC_TEST_DATA) + "/" + name);
  if (!model.has_value()) ADD_FAILURE() << model.error().message;
  return model.value_or(nullptr);
}

double SumBytes(const ModelWork& work) {
  double sum = work.head.num_bytes;
  for (const TypeWork& row : work.layers) sum += row.num_bytes;
  return sum;
}

TEST(WorkOfTest, IsWhatATokenReadsButForVectors) {
  const auto model = Open("golden/llama-gqa-Q4_0.gguf");
  ASSERT_NE(model, nullptr);
  const model::Config& config = model->config();
  const ModelWork work = WorkOf(*model);
  // The norms, and the embedding of the token.
  const model::Weights& weights = model->weights();
  const double vectors =
      static_cast<double>(2 * config.num_layers + 1) *
          static_cast<double>(config.width) * sizeof(float) +
      static_cast<double>(weights.tied ? 0
                                       : weights.token_embedding.row_bytes());
  EXPECT_DOUBLE_EQ(SumBytes(work) + vectors,
                   static_cast<double>(engine::WeightBytesPerToken(*model)));
  for (const TypeWork& row : work.layers) {
    EXPECT_NEAR(row.num_bytes / row.num_macs,
                static_cast<double>(BytesOf(row.dtype, 256)) / 256, 1e-12);
  }
}

TEST(KernelRatesTest, MeasuresOnce) {
  KernelRates rates(kernels::BestIsa());
  const auto first = rates.Of(DType::kQ4_0, 1);
  ASSERT_TRUE(first.has_value()) << first.error().message;
  EXPECT_EQ(rates.Of(DType::kQ4_0, 1)->gmac_per_s, first->gmac_per_s);
}

TEST(ArithmeticOfTest, CountsTheHeadOncePerPrompt) {
  const ModelWork work = {.layers = {{DType::kQ8_0, 34e3, 32e3}},
                          .head = {DType::kF32, 40e3, 10e3}};
  KernelRates rates(kernels::BestIsa());
  const auto prompt = ArithmeticOf(work, rates, {.num_prompt = 8}, 4);
  ASSERT_TRUE(prompt.has_value()) << prompt.error().message;
  EXPECT_DOUBLE_EQ(prompt->num_macs, 8 * 32e3 + 10e3);
  EXPECT_DOUBLE_EQ(prompt->seconds,
                   8 * 32e3 / rates.Of(DType::kQ8_0, 4)->gmac_per_s / 1e9 +
                       10e3 / rates.Of(DType::kF32, 1)->gmac_per_s / 1e9);
  const auto generate = ArithmeticOf(work, rates, {.num_generate = 8}, 4);
  ASSERT_TRUE(generate.has_value()) << generate.error().message;
  EXPECT_DOUBLE_EQ(generate->num_macs, 8 * 42e3);
}

TEST(LongerOfTest, NamesWhatLimits) {
  EXPECT_EQ(NameOf(LongerOf(2.0, 1.0).kind), "memory");
  EXPECT_EQ(LongerOf(2.0, 1.0).seconds, 2.0);
  EXPECT_EQ(NameOf(LongerOf(2.0, 3.0).kind), "arithmetic");
  EXPECT_EQ(LongerOf(2.0, 3.0).seconds, 3.0);
  EXPECT_EQ(NameOf(LimitKind::kNone), "");
}

}  // namespace
}  // namespace thermocline::bench
