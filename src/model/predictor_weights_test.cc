#include "model/predictor_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/test_model.h"
#include "model/weights.h"

namespace thermocline::model {
namespace {

using gguf::ParsedCopy;
using gguf::TestFile;
using gguf::ValueType;
using ::testing::AllOf;
using ::testing::HasSubstr;

struct BoundPredictors {
  explicit BoundPredictors(TestFile file)
      : parsed(file.Bytes()),
        weights(BindWeights(**parsed.file, ReadConfig(**parsed.file).value())) {
  }
  const PredictorWeights& layer(size_t i) const {
    return weights->layers[i].predictor;
  }
  ParsedCopy parsed;
  Result<Weights> weights;
};

void ExpectCorruptPredictor(TestFile file, const std::string& part) {
  const BoundPredictors bound(std::move(file));
  ASSERT_FALSE(bound.weights) << part;
  EXPECT_EQ(bound.weights.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(bound.weights.error().message,
              AllOf(HasSubstr("test.gguf"), HasSubstr(part)));
}

TEST(BindPredictor, PowerInfersRanksDifferByLayer) {
  const BoundPredictors bound(TestPowerInferModel());
  ASSERT_TRUE(bound.weights) << bound.weights.error().message;
  EXPECT_EQ(bound.layer(0).up.shape.num_rows(), 32u);
  EXPECT_EQ(bound.layer(1).up.shape.num_rows(), 64u);
  EXPECT_EQ(bound.layer(1).down.shape.ne[0], 64u);
  EXPECT_EQ(bound.layer(1).down.shape.num_rows(), 64u);
  EXPECT_FALSE(bound.layer(1).up_bias || bound.layer(1).down_bias);
}

TEST(BindPredictor, PowerInferHasOneInEveryLayer) {
  ExpectCorruptPredictor(TestPowerInferModel().RemoveTensor("blk.1.fc1.weight"),
                         "\"blk.1.fc1.weight\" is missing");
  ExpectCorruptPredictor(TestPowerInferModel().RemoveTensor("blk.0.fc2.weight"),
                         "\"blk.0.fc2.weight\" is missing");
}

TEST(BindPredictor, KairoxMayLackLayersAndHasBiases) {
  const BoundPredictors bound(TestKairoxModel());
  ASSERT_TRUE(bound.weights) << bound.weights.error().message;
  EXPECT_FALSE(bound.layer(0).up);
  EXPECT_EQ(bound.layer(1).up.shape.num_rows(), 16u);
  EXPECT_EQ(bound.layer(1).up_bias.shape.ne[0], 16u);
  EXPECT_EQ(bound.layer(1).down_bias.shape.ne[0], 64u);
  const BoundPredictors unbiased(TestKairoxModel()
                                     .RemoveTensor("blk.1.ffn_pred_up.bias")
                                     .RemoveTensor("blk.1.ffn_pred_down.bias")
                                     .Remove("predictor.low_ranks"));
  ASSERT_TRUE(unbiased.weights) << unbiased.weights.error().message;
  EXPECT_FALSE(unbiased.layer(1).up_bias || unbiased.layer(1).down_bias);
}

TEST(BindPredictor, OfAnotherModel) {
  ExpectCorruptPredictor(TestPowerInferModel().SetTensor("blk.0.fc1.weight",
                                                         DType::kF16, {64, 32}),
                         "a predictor of another model?");
  ExpectCorruptPredictor(TestPowerInferModel().SetTensor("blk.0.fc2.weight",
                                                         DType::kF16, {32, 65}),
                         "fc2.weight");
  ExpectCorruptPredictor(TestPowerInferModel().SetTensor("blk.1.fc2.weight",
                                                         DType::kF16, {32, 64}),
                         "must read the 64 values of \"blk.1.fc1.weight\"");
  ExpectCorruptPredictor(
      TestPowerInferModel()
          .SetTensor("blk.1.fc1.weight", DType::kF16, {32, 65})
          .SetTensor("blk.1.fc2.weight", DType::kF16, {65, 64}),
      "a rank above the 64 neurons");
}

TEST(BindPredictor, RanksThatLie) {
  const auto with_ranks = [](std::vector<int32_t> ranks) {
    return TestKairoxModel().SetNumbers<int32_t>("predictor.low_ranks",
                                                 ValueType::kI32, ranks);
  };
  ExpectCorruptPredictor(with_ranks({0, 32}), "says rank 32 for layer 1");
  ExpectCorruptPredictor(with_ranks({8, 16}), "says rank 8 for layer 0");
  ExpectCorruptPredictor(with_ranks({0, 16, 16}), "an array of 2 integers");
  ExpectCorruptPredictor(TestKairoxModel().SetU32("predictor.low_ranks", 16),
                         "an array of 2 integers");
  ExpectCorruptPredictor(
      TestKairoxModel().SetNumbers<int32_t>("prosparse-llama.pred_lora",
                                            ValueType::kI32, {0, 8}),
      "prosparse-llama.pred_lora");
  // A file that has lost its predictors does not run dense unnoticed.
  ExpectCorruptPredictor(TestKairoxModel()
                             .RemoveTensor("blk.1.ffn_pred_up.weight")
                             .RemoveTensor("blk.1.ffn_pred_up.bias")
                             .RemoveTensor("blk.1.ffn_pred_down.weight")
                             .RemoveTensor("blk.1.ffn_pred_down.bias"),
                         "says rank 16 for layer 1");
}

TEST(BindPredictor, NoneInPlainFiles) {
  const BoundPredictors bound(TestModel());
  ASSERT_TRUE(bound.weights);
  EXPECT_FALSE(bound.layer(0).up);
  const BoundPredictors stray(
      TestModel().SetTensor("blk.1.fc2.weight", DType::kF16, {32, 64}));
  ASSERT_FALSE(stray.weights);
  EXPECT_EQ(stray.weights.error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace thermocline::model
