#include "pack/parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>

#include "os/test_folder.h"
#include "pack/part_file.h"
#include "pack/test_parts.h"
#include "tensor/codec.h"

namespace thermocline::pack {
namespace {

using ::testing::HasSubstr;

model::Config SmallConfig() {
  model::Config config;
  config.architecture = "llama";
  config.name = "small";
  config.num_layers = 3;
  config.width = 96;
  const model::LayerSpec layer = {
      .ffn = {.activation = Activation::kRelu, .width = 70}};
  config.layers = {layer, layer, layer};
  return config;
}

TEST(EncodeMatrixTest, RowsAreEncodedByTheCodec) {
  const std::vector<float> values = CountingFloats(3 * 64);
  const EncodedMatrix matrix = EncodeMatrix(DType::kQ8_0, 3, 64, values);
  EXPECT_EQ(matrix.bytes.size(), size_t{3} * 68);
  std::vector<float> row(64);
  DequantizeRow(DType::kQ8_0, matrix.bytes.data() + 68, row);
  for (size_t i = 0; i < row.size(); ++i) {
    EXPECT_NEAR(row[i], values[64 + i], 0.05f);
  }
}

TEST(CheckPartsTest, WhatFitsPasses) {
  const model::Config config = SmallConfig();
  const Status status = CheckParts(TestParts(config), config);
  EXPECT_TRUE(status.has_value()) << status.error().message;
  EXPECT_TRUE(CheckParts({}, config).has_value());
}

TEST(CheckPartsTest, LayersOfOtherWidthsHaveNone) {
  model::Config config = SmallConfig();
  config.layers[2].ffn.width = 71;
  const Status status = CheckParts({}, config);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(status.error().message, ::testing::HasSubstr("layer 2 71"));
}

TEST(CheckPartsTest, EveryMistakeIsNamed) {
  using Edit = std::function<void(PreparedParts&)>;
  struct Case {
    const char* message;
    Edit edit;
  };
  static constexpr float kNotFinite = std::numeric_limits<float>::quiet_NaN();
  const std::vector<Case> cases = {
      {"the predictor: 2 layers", [](auto& p) { p.predictors.pop_back(); }},
      {"2 layers ahead", [](auto& p) { p.lookahead = 2; }},
      {"layer 1, the predictor: the second matrix has 71 rows of 32",
       [](auto& p) { p.predictors[1]->down.num_rows = 71; }},
      {"layer 2, the predictor: the first matrix",
       [](auto& p) { p.predictors[2]->up.bytes.pop_back(); }},
      {"layer 1, the predictor: the first matrix cannot be I8",
       [](auto& p) { p.predictors[1]->up.dtype = DType::kI8; }},
      {"a bias of 1", [](auto& p) { p.predictors[1]->up_bias = {1}; }},
      {"a bias of 2", [](auto& p) { p.predictors[1]->down_bias = {1, 2}; }},
      {"words of signs", [](auto& p) { p.training_free[2]->signs.pop_back(); }},
      {"differences",
       [](auto& p) { p.training_free[2]->max_differences = 97; }},
      {"layer 2, the training-free predictor: the first matrix",
       [](auto& p) { p.training_free[2]->up = {}; }},
      {"the self-test: 1 layers", [](auto& p) { p.self_test.resize(1); }},
      {"1 sets for 2 samples",
       [](auto& p) { p.self_test[1].fired.pop_back(); }},
      {"not finite", [](auto& p) { p.self_test[0].inputs[5] = kNotFinite; }},
      {"must ascend", [](auto& p) { p.self_test[0].fired[1] = {3, 3}; }},
      {"below 70", [](auto& p) { p.self_test[2].candidates[1] = {70}; }},
      {"below 70", [](auto& p) { p.self_test[2].free[1] = {70}; }},
      {"counts of 69", [](auto& p) { p.profile_counts[1].pop_back(); }},
      {"too large", [](auto& p) { p.profile_counts[1][3] = 1u << 31; }},
      {"do not divide", [](auto& p) { p.order_group_size = 4; }},
      {"no permutation: neuron 0", [](auto& p) { p.order[1][0] = 0; }},
      {"69 places", [](auto& p) { p.order[1].pop_back(); }},
      {"has zeros", [](auto& p) { p.thresholds = {0, 0, 0}; }},
      {"layer 1, the thresholds: -1",
       [](auto& p) {
         p.activation = Activation::kSilu;
         p.thresholds = {0, -1, 0};
       }},
      {"FFN threshold", [](auto& p) { p.ffn_threshold = kNotFinite; }},
      {"\"general.name\"", [](auto& p) { p.keys[0].key = "general.name"; }},
      {"\"thermocline.version\"",
       [](auto& p) { p.keys[0].key = "thermocline.version"; }},
  };
  const model::Config config = SmallConfig();
  for (const auto& [message, edit] : cases) {
    PreparedParts parts = TestParts(config);
    edit(parts);
    const Status status = CheckParts(parts, config);
    ASSERT_FALSE(status.has_value()) << message;
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(status.error().message, HasSubstr(message));
  }
}

TEST(WritePartsTest, ReadPartsReturnsThem) {
  const model::Config config = SmallConfig();
  const PreparedParts parts = TestParts(config);
  const os::TestFolder folder;
  const std::string path = folder / "m.pred.gguf";
  ASSERT_TRUE(WriteParts(parts, config, path).has_value());
  const auto read = ReadParts(**gguf::File::Open(path), config);
  ASSERT_TRUE(read.has_value()) << read.error().message;
  ExpectSameParts(*read, parts);
}

TEST(WritePartsTest, ActivationAndThresholdsToo) {
  const model::Config config = SmallConfig();
  PreparedParts parts;
  parts.activation = Activation::kSilu;
  parts.thresholds = {0.5f, 0.25f, 0.0f};
  parts.ffn_threshold = 0.125f;
  const os::TestFolder folder;
  const std::string path = folder / "m.pred.gguf";
  ASSERT_TRUE(WriteParts(parts, config, path).has_value());
  const auto read = ReadParts(**gguf::File::Open(path), config);
  ASSERT_TRUE(read.has_value()) << read.error().message;
  ExpectSameParts(*read, parts);
}

TEST(WritePartsTest, NothingIsWrittenOfWhatDoesNotFit) {
  const model::Config config = SmallConfig();
  PreparedParts parts = TestParts(config);
  parts.order.pop_back();
  const os::TestFolder folder;
  EXPECT_FALSE(WriteParts(parts, config, folder / "m.pred.gguf").has_value());
  EXPECT_EQ(folder.num_entries(), 0);
}

TEST(IsPartKeyTest, PartsOwnWhatTheySayAndWhatTheyLack) {
  PreparedParts parts;
  EXPECT_FALSE(IsPartKey(parts, "thermocline.ffn.activation"));
  EXPECT_FALSE(IsPartKey(parts, "thermocline.synthetic"));
  EXPECT_FALSE(IsPartKey(parts, "llama.block_count"));
  EXPECT_TRUE(IsPartKey(parts, "thermocline.version"));
  EXPECT_TRUE(IsPartKey(parts, "thermocline.profile.locality"));
  EXPECT_TRUE(IsPartKey(parts, "thermocline.training.recall"));
  EXPECT_TRUE(IsPartKey(parts, "thermocline.predictor.lookahead"));
  parts.activation = Activation::kRelu;
  parts.keys.push_back({.key = "thermocline.synthetic",
                        .type = gguf::ValueType::kBool,
                        .value = true});
  EXPECT_TRUE(IsPartKey(parts, "thermocline.ffn.activation"));
  EXPECT_TRUE(IsPartKey(parts, "thermocline.synthetic"));
}

}  // namespace
}  // namespace thermocline::pack
