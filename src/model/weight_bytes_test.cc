#include "model/weight_bytes.h"

#include <gtest/gtest.h>

#include <string>

#include "model/test_model.h"
#include "model/weights.h"

namespace thermocline::model {
namespace {

Weights Bind(gguf::ParsedCopy& parsed) {
  return BindWeights(**parsed.file, ReadConfig(**parsed.file).value()).value();
}

uint64_t BytesOf(const gguf::ParsedCopy& parsed, const std::string& name) {
  return (*parsed.file)->FindTensor(name)->num_bytes;
}

// Everything but the FFN's matrices, and of the embedding a row per token.
TEST(WeightBytes, OfAModelWithNormedHeads) {
  gguf::ParsedCopy parsed(TestModel("qwen3").Bytes());
  uint64_t fixed = 0;
  for (const gguf::TensorInfo& info : (*parsed.file)->tensors()) {
    const bool is_matrix_of_ffn = info.name.find("ffn_") != std::string::npos &&
                                  info.name.find("norm") == std::string::npos;
    if (!is_matrix_of_ffn && info.name != "token_embd.weight") {
      fixed += info.num_bytes;
    }
  }
  const Weights weights = Bind(parsed);
  const uint64_t row = BytesOf(parsed, "token_embd.weight") / 6;
  EXPECT_EQ(FixedWeightBytes(weights, 1), fixed + row);
  EXPECT_EQ(FixedWeightBytes(weights, 5), fixed + 5 * row);
  EXPECT_EQ(FfnMatrixBytes({.width = 64}, weights.layers[0].ffn, 3),
            BytesOf(parsed, "blk.0.ffn_gate.weight") +
                BytesOf(parsed, "blk.0.ffn_up.weight") +
                BytesOf(parsed, "blk.0.ffn_down.weight"));
}

TEST(WeightBytes, OfExpertsThoseThatTokensCanChoose) {
  gguf::ParsedCopy parsed(TestExpertModel().Bytes());
  const Weights weights = Bind(parsed);
  const FfnSpec spec = {.width = 64, .num_experts = 4, .num_experts_used = 2};
  uint64_t all = 0;
  for (const char* name : {"gate", "up", "down"}) {
    all += BytesOf(parsed, "blk.0.ffn_" + std::string(name) + "_exps.weight");
  }
  EXPECT_EQ(FfnMatrixBytes(spec, weights.layers[0].ffn, 1), all / 2);
  EXPECT_EQ(FfnMatrixBytes(spec, weights.layers[0].ffn, 2), all);
  EXPECT_EQ(FfnMatrixBytes(spec, weights.layers[0].ffn, 9), all);
}

TEST(WeightBytes, OfWhatIsMovedAtOnce) {
  gguf::ParsedCopy plain(TestModel().Bytes());
  Config config;
  config.layers.resize(2);
  for (LayerSpec& layer : config.layers) layer.ffn.width = 64;
  const uint64_t matrices = BytesOf(plain, "blk.1.ffn_gate.weight") +
                            BytesOf(plain, "blk.1.ffn_up.weight") +
                            BytesOf(plain, "blk.1.ffn_down.weight");
  EXPECT_EQ(UnitBytes(config, Bind(plain), 1), matrices / 64);
  // Records have a padding; their gates may lie beside them.
  config.records = {{.gate = DType::kF32, .width = 32, .stride = 448},
                    {.width = 32, .stride = 320}};
  EXPECT_EQ(UnitBytes(config, Bind(plain), 0), 448u);
  EXPECT_EQ(UnitBytes(config, Bind(plain), 1),
            320u + BytesOf(plain, "blk.1.ffn_gate.weight") / 64);
}

TEST(WeightBytes, OfWholeExperts) {
  gguf::ParsedCopy parsed(TestExpertModel().Bytes());
  Config config;
  config.layers.resize(1);
  config.layers[0].ffn = {.width = 64, .num_experts = 4, .num_experts_used = 2};
  uint64_t all = 0;
  for (const char* name : {"gate", "up", "down"}) {
    all += BytesOf(parsed, "blk.0.ffn_" + std::string(name) + "_exps.weight");
  }
  EXPECT_EQ(UnitBytes(config, Bind(parsed), 0), all / 4);
  config.records = {{.gate = DType::kF32, .width = 32, .stride = 448}};
  EXPECT_EQ(UnitBytes(config, Bind(parsed), 0), 64u * 448u);
}

TEST(WeightBytes, OfATiedHeadAndAPredictor) {
  gguf::TestFile file = TestKairoxModel();
  file.RemoveTensor("output.weight");
  gguf::ParsedCopy parsed(file.Bytes());
  const Weights weights = Bind(parsed);
  EXPECT_EQ(FixedWeightBytes(weights, 1), FixedWeightBytes(weights, 9));
  EXPECT_EQ(PredictorBytes(weights.layers[0]), 0u);
  EXPECT_EQ(PredictorBytes(weights.layers[1]),
            BytesOf(parsed, "blk.1.ffn_pred_up.weight") +
                BytesOf(parsed, "blk.1.ffn_pred_up.bias") +
                BytesOf(parsed, "blk.1.ffn_pred_down.weight") +
                BytesOf(parsed, "blk.1.ffn_pred_down.bias"));
  // Of both downs one is read.
  EXPECT_EQ(FfnMatrixBytes({.width = 64}, weights.layers[0].ffn, 1),
            3 * BytesOf(parsed, "blk.0.ffn_up.weight"));
}

TEST(WeightBytes, OfATrainingFreePredictor) {
  const auto view = [](DType dtype, uint64_t width, uint64_t num_rows) {
    return TensorView{.dtype = dtype,
                      .shape = {.ne = {width, num_rows, 1, 1}, .rank = 2}};
  };
  LayerWeights layer;
  EXPECT_EQ(TrainingFreeBytes(layer), 0u);
  layer.training_free.signs = view(DType::kI8, 8, 16);
  EXPECT_EQ(TrainingFreeBytes(layer), 8u * 16);
  layer.training_free.up = view(DType::kF32, 32, 2);
  layer.training_free.down = view(DType::kF32, 2, 16);
  layer.training_free.bias = view(DType::kF32, 16, 1);
  EXPECT_EQ(TrainingFreeBytes(layer), 8u * 16 + 4 * (64 + 32 + 16));
  EXPECT_EQ(PredictorBytes(layer), 0u);
}

}  // namespace
}  // namespace thermocline::model
