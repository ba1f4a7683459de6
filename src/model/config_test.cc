#include "model/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/remedy.h"
#include "model/test_model.h"
#include "model/test_split.h"

namespace thermocline::model {
namespace {

using gguf::ParsedCopy;
using gguf::Raw;
using gguf::TestFile;
using gguf::ValueType;
using ::testing::AllOf;
using ::testing::HasSubstr;

Config Read(TestFile file, const ConfigOverrides& overrides = {}) {
  const ParsedCopy parsed(file.Bytes());
  EXPECT_TRUE(parsed.file) << parsed.file.error().message;
  auto config = ReadConfig(**parsed.file, overrides);
  EXPECT_TRUE(config) << config.error().message;
  return config.value_or(Config());
}

Error Refusal(TestFile file, const ConfigOverrides& overrides = {}) {
  const ParsedCopy parsed(file.Bytes());
  EXPECT_TRUE(parsed.file) << parsed.file.error().message;
  const auto config = ReadConfig(**parsed.file, overrides);
  EXPECT_FALSE(config);
  return config ? Error() : config.error();
}

void ExpectCorrupt(TestFile file, const std::string& part) {
  const Error error = Refusal(std::move(file));
  EXPECT_EQ(error.code, ErrorCode::kCorrupt) << error.message;
  EXPECT_THAT(error.message, AllOf(HasSubstr("test.gguf"), HasSubstr(part)));
}

TEST(ReadConfig, Llama) {
  const Config config = Read(TestModel());
  EXPECT_EQ(config.architecture, "llama");
  EXPECT_EQ(config.name, "test");
  EXPECT_EQ(config.context_length, 128);
  EXPECT_EQ(config.num_layers, 2);
  EXPECT_EQ(config.width, 32);
  EXPECT_EQ(config.layers[0].ffn.width, 64);
  EXPECT_EQ(config.layers[0].attention.num_heads, 4);
  EXPECT_EQ(config.layers[0].attention.num_kv_heads, 2);
  EXPECT_EQ(config.layers[0].attention.key_width, 8);
  EXPECT_EQ(config.layers[0].attention.value_width, 8);
  EXPECT_EQ(config.vocab_size, 6);
  EXPECT_EQ(config.norm, NormKind::kRms);
  EXPECT_EQ(config.norm_epsilon, 1e-5f);
  EXPECT_FALSE(config.qkv_bias);
  EXPECT_EQ(config.ropes[0].kind, RopeKind::kNorm);
  EXPECT_EQ(config.ropes[0].width, 8);
  EXPECT_EQ(config.ropes[0].freq_base, 10000.0f);
  EXPECT_EQ(config.ropes[0].scaling, RopeScaling::kNone);
  EXPECT_EQ(config.ropes[0].factor, 1.0f);
  EXPECT_EQ(config.ropes[0].attention_factor, 1.0f);
  EXPECT_EQ(config.layers[0].ffn.activation, Activation::kSilu);
  EXPECT_EQ(config.layers[0].ffn.threshold, 0.0f);
  EXPECT_TRUE(config.layers[0].ffn.gated);
}

TEST(ReadConfig, Qwen2) {
  const Config config =
      Read(TestModel("qwen2").SetF32("qwen2.rope.freq_base", 1e6f));
  EXPECT_EQ(config.architecture, "qwen2");
  EXPECT_TRUE(config.qkv_bias);
  EXPECT_EQ(config.ropes[0].kind, RopeKind::kNeox);
  EXPECT_EQ(config.ropes[0].freq_base, 1e6f);
}

TEST(ReadConfig, Falcon) {
  const Config config = Read(TestModel("falcon"));
  EXPECT_EQ(config.norm, NormKind::kLayer);
  EXPECT_TRUE(config.layers[0].parallel);
  EXPECT_FALSE(config.layers[0].ffn.gated);
  EXPECT_EQ(config.layers[0].ffn.activation, Activation::kGelu);
  EXPECT_EQ(config.ropes[0].kind, RopeKind::kNeox);
  EXPECT_EQ(config.num_positions, 0);
  EXPECT_EQ(Read(TestModel("relu-falcon")).layers[0].ffn.activation,
            Activation::kRelu);
}

TEST(ReadConfig, Opt) {
  const Config config =
      Read(TestModel("opt").SetF32("opt.attention.layer_norm_epsilon", 2e-5f));
  EXPECT_EQ(config.norm, NormKind::kLayer);
  EXPECT_EQ(config.norm_epsilon, 2e-5f);
  EXPECT_TRUE(config.ropes.empty());
  EXPECT_EQ(config.layers[0].ffn.activation, Activation::kRelu);
  EXPECT_FALSE(config.layers[0].ffn.gated);
  EXPECT_TRUE(config.qkv_bias);
  EXPECT_EQ(config.num_positions, 128);
  EXPECT_EQ(config.position_offset, 0);
  EXPECT_EQ(Read(TestModel("opt").Remove("opt.attention.layer_norm_epsilon"))
                .norm_epsilon,
            1e-5f);
}

// Two rows more than the context are those that no position uses.
TEST(ReadConfig, OptPositions) {
  const auto with_rows = [](uint64_t num_rows) {
    return TestModel("opt").SetTensor("position_embd.weight", DType::kF16,
                                      {32, num_rows});
  };
  EXPECT_EQ(Read(with_rows(130)).position_offset, 2);
  EXPECT_EQ(Read(with_rows(130)).num_positions, 128);
  EXPECT_EQ(Read(with_rows(131)).position_offset, 0);
  EXPECT_EQ(Read(with_rows(131)).num_positions, 131);
  ExpectCorrupt(with_rows(127), "\"position_embd.weight\" has 127 rows");
  ExpectCorrupt(TestModel("opt").RemoveTensor("position_embd.weight"),
                "\"position_embd.weight\" is missing");
}

TEST(ReadConfig, PowerInfersOptHasNoEpsilonAndKeepsItsUnusedRows) {
  const Config config = Read(TestPowerInferModel("opt").SetTensor(
      "position_embd.weight", DType::kF16, {32, 2050}));
  EXPECT_EQ(config.norm_epsilon, 0.0f);
  EXPECT_EQ(config.position_offset, 2);
  EXPECT_EQ(config.num_positions, 2048);
  EXPECT_EQ(config.predictor.kind, PredictorKind::kPowerInfer);
}

TEST(ReadConfig, KairoxArchitectures) {
  EXPECT_EQ(Read(TestModel("bamboo")).layers[0].ffn.activation,
            Activation::kDRelu);
  EXPECT_EQ(Read(TestModel("bamboo")).ropes[0].kind, RopeKind::kNorm);
  const Config prosparse = Read(TestModel("prosparse-llama"));
  EXPECT_EQ(prosparse.layers[0].ffn.activation, Activation::kFatRelu);
  EXPECT_EQ(prosparse.layers[0].ffn.threshold, 0.01f);
  EXPECT_EQ(prosparse.ropes[0].kind, RopeKind::kNorm);
  const Config qwen = Read(TestModel("sparse-qwen2"));
  EXPECT_EQ(qwen.layers[0].ffn.activation, Activation::kDRelu);
  EXPECT_EQ(qwen.ropes[0].kind, RopeKind::kNeox);
  EXPECT_TRUE(qwen.qkv_bias);
}

TEST(ReadConfig, PowerInferPredictors) {
  const Config config = Read(TestPowerInferModel());
  EXPECT_EQ(config.predictor.kind, PredictorKind::kPowerInfer);
  EXPECT_EQ(config.predictor.threshold, 0.0f);
  EXPECT_EQ(config.layers[0].ffn.activation, Activation::kRelu);
  EXPECT_EQ(Read(TestPowerInferModel("falcon")).layers[0].ffn.activation,
            Activation::kRelu);
  const auto with_key =
      TestPowerInferModel().SetF32("powerinfer.sparse_threshold", 0.25f);
  EXPECT_EQ(Read(with_key).predictor.threshold, 0.25f);
  ConfigOverrides overrides;
  overrides.predictor_threshold = -1.0f;
  EXPECT_EQ(Read(with_key, overrides).predictor.threshold, -1.0f);
  // The tensors tell when a tool has rewritten the first bytes.
  TestFile plain = TestPowerInferModel();
  plain.magic = "GGUF";
  const PredictorConfig predictor = Read(plain).predictor;
  EXPECT_EQ(predictor.kind, PredictorKind::kPowerInfer);
  EXPECT_EQ(predictor.input, PredictorInput::kStream);
  EXPECT_EQ(predictor.lookahead, 0);
  EXPECT_TRUE(predictor.is_mask);
  ExpectCorrupt(
      TestPowerInferModel().SetText("powerinfer.sparse_threshold", "0.5"),
      "powerinfer.sparse_threshold");
}

TEST(ReadConfig, KairoxPredictors) {
  const PredictorConfig kairox = Read(TestKairoxModel()).predictor;
  EXPECT_EQ(kairox.kind, PredictorKind::kKairox);
  EXPECT_EQ(kairox.input, PredictorInput::kNormed);
  EXPECT_EQ(kairox.lookahead, 1);
  EXPECT_TRUE(kairox.is_mask);
  EXPECT_EQ(Read(TestModel("prosparse-llama")).predictor.kind,
            PredictorKind::kNone);
}

TEST(ReadConfig, PredictorThresholdWithoutPredictors) {
  ConfigOverrides overrides;
  overrides.predictor_threshold = 0.5f;
  const Error error = Refusal(TestModel(), overrides);
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(error.message, HasSubstr("the file has none"));
}

TEST(ReadConfig, Experts) {
  const Config config = Read(TestExpertModel());
  EXPECT_EQ(config.layers[0].ffn.num_experts, 4);
  EXPECT_EQ(config.layers[0].ffn.num_experts_used, 2);
  const std::string used = "llama.expert_used_count";
  ExpectCorrupt(TestExpertModel().SetU32(used, 5), used);
  ExpectCorrupt(TestExpertModel().SetU32(used, 0), "there are 4 experts");
  ExpectCorrupt(TestExpertModel().Remove(used), used);
  ExpectCorrupt(TestModel().SetU32(used, 1), "there are 0 experts");
  ExpectCorrupt(TestExpertModel().SetU32("llama.expert_count", 1u << 31),
                "llama.expert_count");
  const Error error = Refusal(TestModel("qwen2")
                                  .SetU32("qwen2.expert_count", 4)
                                  .SetU32("qwen2.expert_used_count", 2));
  EXPECT_EQ(error.code, ErrorCode::kUnsupported);
  EXPECT_THAT(error.message, HasSubstr("qwen2.expert_count"));
}

TEST(ReadConfig, KeysInOtherIntegerWidths) {
  EXPECT_EQ(Read(TestModel().Set("llama.block_count", ValueType::kU64,
                                 Raw(uint64_t{2})))
                .num_layers,
            2);
  EXPECT_EQ(Read(TestModel().Set("llama.block_count", ValueType::kI8, "\2"))
                .num_layers,
            2);
}

TEST(ReadConfig, OtherArchitecturesAreNamed) {
  const Error error =
      Refusal(TestModel().SetText("general.architecture", "rwkv"));
  EXPECT_EQ(error.code, ErrorCode::kUnsupported);
  EXPECT_THAT(error.message,
              AllOf(HasSubstr("\"rwkv\""), HasSubstr("llama, qwen2")));
  ExpectCorrupt(TestModel().Remove("general.architecture"),
                "general.architecture");
  ExpectCorrupt(TestModel().SetU32("general.architecture", 1),
                "general.architecture");
}

// Whoever wrote the file: room for prompts is planned by it.
TEST(ReadConfig, TransposedDownMatricesAreToldByTheTensors) {
  const auto are_transposed = [](TestFile file) {
    std::vector<bool> layers;
    for (const LayerSpec& layer : Read(file).layers) {
      layers.push_back(layer.ffn.down_is_transposed);
    }
    return layers;
  };
  TestFile file = TestModel();
  EXPECT_EQ(are_transposed(file), (std::vector{false, false}));
  file.SetTensor("blk.1.ffn_down_t.weight", DType::kF32, {32, 64});
  EXPECT_EQ(are_transposed(file), (std::vector{false, false}));
  file.RemoveTensor("blk.1.ffn_down.weight");
  EXPECT_EQ(are_transposed(file), (std::vector{false, true}));
  EXPECT_EQ(are_transposed(TestPowerInferModel()), (std::vector{true, true}));
}

TEST(ReadConfig, SplitFilesAreNotModels) {
  for (TestFile file : {TestOrder(2, 8), TestHot(2, 8)}) {
    const Error error = Refusal(file);
    EXPECT_EQ(error.code, ErrorCode::kUnsupported);
    EXPECT_EQ(error.advice.remedy, Remedy::kSplitFile);
  }
}

TEST(ReadConfig, AdaptersAreNotModels) {
  const Error error = Refusal(TestModel().SetText("general.type", "adapter"));
  EXPECT_EQ(error.code, ErrorCode::kUnsupported);
  EXPECT_THAT(error.message, HasSubstr("\"adapter\""));
  Read(TestModel().SetText("general.type", "model"));
}

TEST(ReadConfig, RequiredKeys) {
  for (const char* key :
       {"llama.context_length", "llama.block_count", "llama.embedding_length",
        "llama.feed_forward_length", "llama.attention.head_count",
        "llama.attention.layer_norm_rms_epsilon"}) {
    ExpectCorrupt(TestModel().Remove(key), key);
    ExpectCorrupt(TestModel().SetText(key, "many"), key);
  }
}

TEST(ReadConfig, IntegersOutOfRange) {
  for (const char* key :
       {"llama.context_length", "llama.block_count", "llama.embedding_length",
        "llama.feed_forward_length", "llama.attention.head_count",
        "llama.attention.head_count_kv", "llama.attention.key_length",
        "llama.attention.value_length", "llama.rope.dimension_count",
        "llama.rope.scaling.original_context_length"}) {
    for (int64_t value : {int64_t{0}, int64_t{-1}, int64_t{1} << 31,
                          int64_t{1} << 32, INT64_MAX, INT64_MIN}) {
      ExpectCorrupt(TestModel().Set(key, ValueType::kI64, Raw(value)), key);
    }
  }
  ExpectCorrupt(TestModel().SetU32("llama.block_count", kMaxLayers + 1),
                "llama.block_count");
  ExpectCorrupt(TestModel().SetU32("llama.embedding_length", kMaxWidth + 1),
                "llama.embedding_length");
}

TEST(ReadConfig, Epsilon) {
  const std::string key = "llama.attention.layer_norm_rms_epsilon";
  EXPECT_EQ(Read(TestModel().SetF32(key, 1e-6f)).norm_epsilon, 1e-6f);
  EXPECT_EQ(Read(TestModel().SetF32(key, 0.0f)).norm_epsilon, 0.0f);
  ExpectCorrupt(TestModel().SetF32(key, -1e-6f), key);
  ExpectCorrupt(TestModel().SetF32(key, 2.0f), key);
  ExpectCorrupt(
      TestModel().SetF32(key, std::numeric_limits<float>::quiet_NaN()), key);
}

TEST(ReadConfig, Heads) {
  const std::string count = "llama.attention.head_count";
  const std::string kv = "llama.attention.head_count_kv";
  EXPECT_EQ(Read(TestModel().Remove(kv)).layers[0].attention.num_kv_heads, 4);
  ExpectCorrupt(TestModel().SetU32(kv, 3), "must divide the 4 heads");
  ExpectCorrupt(TestModel().SetU32(kv, 8), "must divide the 4 heads");
  ExpectCorrupt(TestModel().SetU32(count, 6).Remove(kv), "divide the width 32");
  // With its own widths nothing has to divide.
  const Config wide = Read(TestModel()
                               .SetU32(count, 6)
                               .SetU32("llama.attention.key_length", 16)
                               .SetU32("llama.attention.value_length", 12));
  EXPECT_EQ(wide.layers[0].attention.key_width, 16);
  EXPECT_EQ(wide.layers[0].attention.value_width, 12);
  EXPECT_EQ(wide.ropes[0].width, 16);
  ExpectCorrupt(TestModel().SetU32("llama.attention.key_length", 1 << 23),
                "too wide");
}

TEST(ReadConfig, PerLayerArrays) {
  const std::string ffn = "llama.feed_forward_length";
  EXPECT_EQ(
      Read(TestModel().SetNumbers<uint32_t>(ffn, ValueType::kU32, {64, 64}))
          .layers[1]
          .ffn.width,
      64);
  ExpectCorrupt(
      TestModel().SetNumbers<uint32_t>(ffn, ValueType::kU32, {64, 64, 64}),
      ffn);
}

TEST(ReadConfig, RopeWidth) {
  const std::string key = "llama.rope.dimension_count";
  EXPECT_EQ(Read(TestModel().SetU32(key, 4)).ropes[0].width, 4);
  ExpectCorrupt(TestModel().SetU32(key, 3), "even");
  ExpectCorrupt(TestModel().SetU32(key, 10), "head width 8");
  ExpectCorrupt(TestModel().SetU32("llama.attention.key_length", 7), "even");
}

TEST(ReadConfig, RopeBase) {
  const std::string key = "llama.rope.freq_base";
  for (float bad :
       {0.0f, 1.0f, -10000.0f, std::numeric_limits<float>::infinity(),
        std::numeric_limits<float>::quiet_NaN()}) {
    ExpectCorrupt(TestModel().SetF32(key, bad), key);
  }
}

TEST(ReadConfig, RopeScalingLinear) {
  const std::string factor = "llama.rope.scaling.factor";
  for (TestFile file : {TestModel().SetF32(factor, 4.0f),
                        TestModel().SetF32("llama.rope.scale_linear", 4.0f),
                        TestModel()
                            .SetF32(factor, 4.0f)
                            .SetF32("llama.rope.scale_linear", 2.0f)
                            .SetText("llama.rope.scaling.type", "linear")}) {
    const Config config = Read(file);
    EXPECT_EQ(config.ropes[0].scaling, RopeScaling::kLinear);
    EXPECT_EQ(config.ropes[0].factor, 4.0f);
  }
  EXPECT_EQ(Read(TestModel().SetF32(factor, 0.0f)).ropes[0].scaling,
            RopeScaling::kNone);
}

TEST(ReadConfig, RopeScalingNoneIgnoresTheFactor) {
  const Config config = Read(TestModel()
                                 .SetText("llama.rope.scaling.type", "none")
                                 .SetF32("llama.rope.scaling.factor", 4.0f));
  EXPECT_EQ(config.ropes[0].scaling, RopeScaling::kNone);
  EXPECT_EQ(config.ropes[0].factor, 1.0f);
}

TEST(ReadConfig, RopeScalingYarn) {
  TestFile file = TestModel()
                      .SetText("llama.rope.scaling.type", "yarn")
                      .SetF32("llama.rope.scaling.factor", 4.0f);
  Config config = Read(file);
  EXPECT_EQ(config.ropes[0].scaling, RopeScaling::kYarn);
  EXPECT_EQ(config.ropes[0].factor, 4.0f);
  EXPECT_EQ(config.ropes[0].original_context, 128) << "the model's by default";
  config = Read(file.SetU32("llama.rope.scaling.original_context_length", 32)
                    .SetF32("llama.rope.scaling.attn_factor", 0.5f));
  EXPECT_EQ(config.ropes[0].original_context, 32);
  EXPECT_EQ(config.ropes[0].attention_factor, 0.5f);
}

TEST(ReadConfig, RopeScalingThatIsWrong) {
  const Error error =
      Refusal(TestModel().SetText("llama.rope.scaling.type", "longrope"));
  EXPECT_EQ(error.code, ErrorCode::kUnsupported);
  EXPECT_THAT(error.message, HasSubstr("\"longrope\""));
  for (float bad :
       {-1.0f, 1e-4f, 1e7f, std::numeric_limits<float>::quiet_NaN()}) {
    ExpectCorrupt(TestModel().SetF32("llama.rope.scaling.factor", bad),
                  "rope.scaling.factor");
  }
  ExpectCorrupt(TestModel().SetF32("llama.rope.scaling.attn_factor", 0.0f),
                "attn_factor");
}

TEST(ReadConfig, FfnActivation) {
  const TestFile fatrelu = TestModel()
                               .SetText("thermocline.ffn.activation", "fatrelu")
                               .SetF32("thermocline.ffn.threshold", 0.01f);
  const Config config = Read(fatrelu);
  EXPECT_EQ(config.layers[0].ffn.activation, Activation::kFatRelu);
  EXPECT_EQ(config.layers[0].ffn.threshold, 0.01f);

  ConfigOverrides overrides;
  overrides.ffn_threshold = 0.5f;
  EXPECT_EQ(Read(fatrelu, overrides).layers[0].ffn.threshold, 0.5f);
  overrides = {Activation::kRelu, std::nullopt};
  EXPECT_EQ(Read(fatrelu, overrides).layers[0].ffn.activation,
            Activation::kRelu);
}

TEST(ReadConfig, FfnActivationThatIsWrong) {
  const std::string key = "thermocline.ffn.activation";
  const Error unknown = Refusal(TestModel().SetText(key, "swish"));
  EXPECT_EQ(unknown.code, ErrorCode::kUnsupported);
  EXPECT_THAT(unknown.message, AllOf(HasSubstr("\"swish\""), HasSubstr(key)));
  ExpectCorrupt(TestModel().SetU32(key, 1), key);
  ExpectCorrupt(TestModel().SetF32("thermocline.ffn.threshold", -1.0f),
                "thermocline.ffn.threshold");
}

TEST(ReadConfig, DoubleReluNeedsAGate) {
  ConfigOverrides overrides;
  overrides.ffn_activation = Activation::kDRelu;
  EXPECT_EQ(Read(TestModel(), overrides).layers[0].ffn.activation,
            Activation::kDRelu);
  const Error error = Refusal(TestModel("opt"), overrides);
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(error.message, HasSubstr("drelu needs a gate"));
}

TEST(ReadConfig, OverridesThatAreWrong) {
  ConfigOverrides overrides;
  overrides.ffn_threshold = 0.5f;
  EXPECT_EQ(Refusal(TestModel(), overrides).code, ErrorCode::kInvalidArgument);
  overrides.ffn_activation = Activation::kFatRelu;
  EXPECT_EQ(Read(TestModel(), overrides).layers[0].ffn.threshold, 0.5f);
  for (float bad : {-0.1f, std::numeric_limits<float>::infinity(),
                    std::numeric_limits<float>::quiet_NaN()}) {
    overrides.ffn_threshold = bad;
    EXPECT_EQ(Refusal(TestModel(), overrides).code,
              ErrorCode::kInvalidArgument);
  }
}

TEST(ReadConfig, VocabularySize) {
  const std::string key = "llama.vocab_size";
  EXPECT_EQ(Read(TestModel().SetU32(key, 6)).vocab_size, 6);
  ExpectCorrupt(TestModel().SetU32(key, 7), "has 6 rows");
  ExpectCorrupt(TestModel().RemoveTensor("token_embd.weight"),
                "\"token_embd.weight\" is missing");
}

TEST(ReadConfig, RealFiles) {
  const std::string root = std::string(TC_TEST_DATA) + "/";
  const auto stories = gguf::File::Open(root + "models/stories260K.gguf");
  ASSERT_TRUE(stories) << stories.error().message;
  const auto config = ReadConfig(**stories);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->num_layers, 5);
  EXPECT_EQ(config->vocab_size, 512);
  EXPECT_EQ(config->layers[0].ffn.width, 172);

  const auto vocab =
      gguf::File::Open(root + "tokenizers/ggml-vocab-llama-spm.gguf");
  ASSERT_TRUE(vocab) << vocab.error().message;
  const auto none = ReadConfig(**vocab);
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, HasSubstr("vocabulary without a model"));
}

}  // namespace
}  // namespace thermocline::model
