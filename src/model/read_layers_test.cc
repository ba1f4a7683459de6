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

Config ReadSpecs(TestFile file) {
  const ParsedCopy parsed(file.Bytes());
  const auto config = ReadConfig(**parsed.file);
  EXPECT_TRUE(config.has_value()) << config.error().message;
  return config.value_or(Config());
}

TEST(ReadLayers, EachLayerIsDescribed) {
  const Config config = ReadSpecs(TestModel("falcon"));
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
  const Config config = ReadSpecs(TestModel("opt"));
  EXPECT_TRUE(config.ropes.empty());
  EXPECT_EQ(config.layers[1].attention.rope, AttentionSpec::kNoRope);
}

TEST(ReadLayers, ExpertsOfTheirOwnWidth) {
  const Config config =
      ReadSpecs(TestModel("qwen3moe")
                    .SetU32("qwen3moe.feed_forward_length", 192)
                    .SetU32("qwen3moe.expert_count", 4));
  EXPECT_EQ(config.layers[1].ffn.width, 64);
  EXPECT_EQ(config.layers[1].ffn.num_experts, 4);
  EXPECT_EQ(config.layers[1].ffn.num_experts_used, 2);
  EXPECT_EQ(config.layers[1].attention.qk_norm, QkNorm::kPerHead);
}

TEST(ReadLayers, SquaredReluAndHalfTheHead) {
  const Config config = ReadSpecs(
      TestModel("nemotron").SetU32("nemotron.rope.dimension_count", 4));
  EXPECT_EQ(config.layers[0].ffn.activation, Activation::kRelu2);
  EXPECT_EQ(config.ropes[0].width, 4);
  EXPECT_EQ(config.ropes[0].kind, RopeKind::kNeox);
  EXPECT_EQ(config.norm, NormKind::kLayer);
}

TEST(ReadLayers, LayersMayDiffer) {
  const auto list = [](TestFile file, const char* key,
                       const std::vector<uint32_t>& values) {
    return file.SetNumbers<uint32_t>(key, ValueType::kU32, values);
  };
  TestFile file =
      list(list(list(TestModel(), "llama.feed_forward_length", {64, 96}),
                "llama.attention.head_count", {4, 2}),
           "llama.attention.head_count_kv", {4, 1});
  const Config config = ReadSpecs(file);
  ASSERT_EQ(config.layers.size(), 2u);
  EXPECT_EQ(config.layers[0].ffn.width, 64);
  EXPECT_EQ(config.layers[1].ffn.width, 96);
  EXPECT_EQ(MaxFfnWidth(config), 96);
  EXPECT_EQ(config.layers[0].attention.num_heads, 4);
  EXPECT_EQ(config.layers[1].attention.num_heads, 2);
  EXPECT_EQ(config.layers[0].attention.num_kv_heads, 4);
  EXPECT_EQ(config.layers[1].attention.num_kv_heads, 1);
  // Without keys of their own: shares of the width, which rotate as a whole.
  EXPECT_EQ(config.layers[0].attention.key_width, 8);
  EXPECT_EQ(config.layers[1].attention.key_width, 16);
  ASSERT_EQ(config.ropes.size(), 2u);
  for (const LayerSpec& layer : config.layers) {
    EXPECT_EQ(config.ropes[static_cast<size_t>(layer.attention.rope)].width,
              layer.attention.key_width);
  }
  const Status equal = CheckEqualWidths(config, "m.gguf: a profile");
  ASSERT_FALSE(equal.has_value());
  EXPECT_EQ(equal.error().code, ErrorCode::kUnsupported);
  for (const char* part : {"m.gguf: a profile", "layer 0 has 64", "1 96"}) {
    EXPECT_THAT(equal.error().message, HasSubstr(part));
  }
  // With a key all rotate alike.
  const Config same = ReadSpecs(file.SetU32("llama.rope.dimension_count", 8));
  ASSERT_EQ(same.ropes.size(), 1u);
  EXPECT_EQ(same.layers[1].attention.rope, 0);
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
