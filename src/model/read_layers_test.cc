#include "model/read_layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "model/test_model.h"

namespace thermocline::model {
namespace {

using gguf::ParsedCopy;
using gguf::TestFile;
using gguf::ValueType;
using ::testing::AllOf;
using ::testing::HasSubstr;

Config Read(TestFile file) {
  const ParsedCopy parsed(file.Bytes());
  const auto config = ReadConfig(**parsed.file);
  EXPECT_TRUE(config.has_value()) << config.error().message;
  return config.value_or(Config());
}

TEST(ReadLayers, EachLayerIsDescribed) {
  const Config config = Read(TestModel("falcon"));
  ASSERT_EQ(config.layers.size(), 2u);
  ASSERT_EQ(config.ropes.size(), 1u);
  for (const LayerSpec& layer : config.layers) {
    EXPECT_EQ(layer.attention.num_heads, 4);
    EXPECT_EQ(layer.attention.num_kv_heads, 2);
    EXPECT_EQ(layer.attention.key_width, 8);
    EXPECT_EQ(layer.attention.value_width, 8);
    EXPECT_EQ(layer.attention.rope, 0);
    EXPECT_EQ(layer.attention.qk_norm, QkNorm::kNone);
    EXPECT_EQ(layer.ffn.width, 64);
    EXPECT_EQ(layer.ffn.activation, Activation::kGelu);
    EXPECT_FALSE(layer.ffn.gated);
    EXPECT_TRUE(layer.parallel);
  }
}

TEST(ReadLayers, WithoutRotation) {
  const Config config = Read(TestModel("opt"));
  EXPECT_TRUE(config.ropes.empty());
  EXPECT_EQ(config.layers[1].attention.rope, AttentionSpec::kNoRope);
  EXPECT_EQ(config.rope.kind, RopeKind::kNone);
}

TEST(ReadLayers, ExpertsOfTheirOwnWidth) {
  const Config config = Read(TestModel("qwen3moe")
                                 .SetU32("qwen3moe.feed_forward_length", 192)
                                 .SetU32("qwen3moe.expert_count", 4));
  EXPECT_EQ(config.layers[1].ffn.width, 64);
  EXPECT_EQ(config.layers[1].ffn.num_experts, 4);
  EXPECT_EQ(config.layers[1].ffn.num_experts_used, 2);
  EXPECT_EQ(config.layers[1].attention.qk_norm, QkNorm::kPerHead);
}

TEST(ReadLayers, SquaredReluAndHalfTheHead) {
  const Config config =
      Read(TestModel("nemotron").SetU32("nemotron.rope.dimension_count", 4));
  EXPECT_EQ(config.layers[0].ffn.activation, Activation::kRelu2);
  EXPECT_EQ(config.ropes[0].width, 4);
  EXPECT_EQ(config.ropes[0].kind, RopeKind::kNeox);
  EXPECT_EQ(config.norm, NormKind::kLayer);
}

// What is said layer by layer, and how that can be wrong.
TEST(ReadLayers, ListsThatAreRefused) {
  struct Case {
    std::string key;
    std::vector<uint32_t> list;
    ErrorCode code;
    std::vector<std::string> parts;  // of the message
  };
  const std::string ffn = "llama.feed_forward_length";
  const std::string heads = "llama.attention.head_count";
  const std::string kv_heads = "llama.attention.head_count_kv";
  for (const Case& c : {
           Case{ffn,
                {64, 96},
                ErrorCode::kUnsupported,
                {"64 for layer 0", "96 for layer 1"}},
           Case{heads,
                {4, 2},
                ErrorCode::kUnsupported,
                {"4 for layer 0", "2 for layer 1"}},
           Case{kv_heads,
                {2, 4},
                ErrorCode::kUnsupported,
                {"2 for layer 0", "4 for layer 1"}},
           Case{ffn, {64}, ErrorCode::kCorrupt, {"1 elements", "2 layers"}},
           Case{heads,
                {4, 4, 4},
                ErrorCode::kCorrupt,
                {"3 elements", "2 layers"}},
           Case{ffn, {64, 0}, ErrorCode::kCorrupt, {"is 0"}},
           Case{kv_heads, {2, 0}, ErrorCode::kCorrupt, {"is 0"}},
           Case{kv_heads,
                {2, 3},
                ErrorCode::kCorrupt,
                {"is 3", "divide the 4 heads of layer 1"}},
           Case{heads,
                {4, 6},
                ErrorCode::kCorrupt,
                {"is 6", "divide the width 32 (layer 1)"}},
       }) {
    TestFile file =
        TestModel().SetNumbers<uint32_t>(c.key, ValueType::kU32, c.list);
    const ParsedCopy parsed(file.Bytes());
    const auto config = ReadConfig(**parsed.file);
    ASSERT_FALSE(config.has_value()) << c.key;
    EXPECT_EQ(config.error().code, c.code) << config.error().message;
    EXPECT_THAT(config.error().message, HasSubstr('"' + c.key + '"'));
    for (const std::string& part : c.parts) {
      EXPECT_THAT(config.error().message, HasSubstr(part));
    }
  }
}

TEST(ReadLayers, MixturesThatAreNone) {
  const auto refusal = [](TestFile file) {
    const ParsedCopy parsed(file.Bytes());
    const auto config = ReadConfig(**parsed.file);
    EXPECT_FALSE(config.has_value());
    return config.has_value() ? "" : config.error().message;
  };
  EXPECT_THAT(
      refusal(TestModel("qwen3moe")
                  .SetU32("qwen3moe.expert_count", 0)
                  .SetU32("qwen3moe.expert_used_count", 0)),
      AllOf(HasSubstr("qwen3moe.expert_count"), HasSubstr("has experts")));
  TestFile without_width = TestModel("qwen3moe");
  without_width.Remove("qwen3moe.expert_feed_forward_length");
  EXPECT_THAT(refusal(std::move(without_width)),
              HasSubstr("qwen3moe.expert_feed_forward_length"));
}

}  // namespace
}  // namespace thermocline::model
