#include "import/hf_falcon.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "import/hf_config.h"
#include "import/hf_test_folder.h"
#include "import/tensor_plan.h"
#include "import/test_hf_config.h"

namespace thermocline::importer {
namespace {

// As of Falcon-7B: one KV head.
Json TestFalconConfig() {
  return {{"architectures", {"FalconForCausalLM"}},
          {"alibi", false},
          {"bias", false},
          {"hidden_size", 64},
          {"num_hidden_layers", 1},
          {"num_attention_heads", 4},
          {"multi_query", true},
          {"new_decoder_architecture", false},
          {"parallel_attn", true},
          {"layer_norm_epsilon", 1e-5},
          {"activation", "gelu_pytorch_tanh"},
          {"vocab_size", 12}};
}

// As of Falcon-40B: KV heads for groups of heads, two norms.
Json GroupedConfig() {
  Json json = TestFalconConfig();
  json["new_decoder_architecture"] = true;
  json["num_kv_heads"] = 2;
  return json;
}

TEST(FalconConfigTest, AllFieldsAndDefaults) {
  const HfConfig config = Parse(TestFalconConfig()).value();
  EXPECT_EQ(config.architecture, "falcon");
  EXPECT_EQ(config.rope_kind, RopeKind::kNeox);
  EXPECT_EQ(config.norm, NormKind::kLayer);
  EXPECT_FALSE(config.two_norms);
  EXPECT_EQ(config.ffn_width, 256);
  EXPECT_EQ(config.num_kv_heads, 1);
  EXPECT_EQ(config.head_width, 16);
  EXPECT_EQ(config.context_length, 2048);
  EXPECT_EQ(config.activation, Activation::kGelu);
  EXPECT_EQ(config.tied_head, std::nullopt);
  Json json = TestFalconConfig();
  json.erase("layer_norm_epsilon");
  json["ffn_hidden_size"] = 100;
  json["max_position_embeddings"] = 512;
  json["activation"] = "relu";
  const HfConfig other = Parse(json).value();
  EXPECT_EQ(other.norm_epsilon, 1e-5);
  EXPECT_EQ(other.ffn_width, 100);
  EXPECT_EQ(other.context_length, 512);
  EXPECT_EQ(other.activation, Activation::kRelu);
}

TEST(FalconConfigTest, TheFirstFilesHaveOtherNames) {
  Json json = TestFalconConfig();
  json["architectures"] = {"RWForCausalLM"};
  json["model_type"] = "RefinedWebModel";
  for (const auto& [name, older] :
       {std::pair("num_hidden_layers", "n_layer"),
        std::pair("num_attention_heads", "n_head")}) {
    json[older] = json[name];
    json.erase(name);
  }
  const HfConfig config = Parse(json).value();
  EXPECT_EQ(config.architecture, "falcon");
  EXPECT_EQ(config.num_layers, 1);
  EXPECT_EQ(config.num_heads, 4);
}

TEST(FalconConfigTest, KvHeadsOfTheThreeLayouts) {
  Json json = TestFalconConfig();
  json["num_kv_heads"] = 2;  // looked at by the newest layout alone
  EXPECT_EQ(Parse(json)->num_kv_heads, 1);
  json["multi_query"] = false;
  EXPECT_EQ(Parse(json)->num_kv_heads, 4);
  EXPECT_EQ(Parse(GroupedConfig())->num_kv_heads, 2);
  json = GroupedConfig();
  json.erase("num_kv_heads");
  EXPECT_EQ(Parse(json)->num_kv_heads, 4);
  json["n_head_kv"] = 3;
  ExpectBad(json, ErrorCode::kCorrupt, "n_head_kv");
}

TEST(FalconConfigTest, TheFirstFilesOf40BSayByTheirKvHeads) {
  Json json = TestFalconConfig();
  json["architectures"] = {"RWForCausalLM"};
  json.erase("new_decoder_architecture");
  json.erase("multi_query");
  json["n_head_kv"] = 2;
  const HfConfig config = Parse(json).value();
  EXPECT_EQ(config.num_kv_heads, 2);
  EXPECT_TRUE(config.two_norms);
}

TEST(FalconConfigTest, TwoNormsOrOne) {
  EXPECT_TRUE(Parse(GroupedConfig())->two_norms);
  Json json = GroupedConfig();
  json["num_ln_in_parallel_attn"] = 1;
  EXPECT_FALSE(Parse(json)->two_norms);
  json["num_ln_in_parallel_attn"] = 3;
  ExpectBad(json, ErrorCode::kCorrupt, "num_ln_in_parallel_attn");
}

TEST(FalconConfigTest, OtherBlocksAreRefusedByName) {
  for (const auto& [key, value] :
       {std::pair("alibi", true), std::pair("bias", true),
        std::pair("parallel_attn", false)}) {
    Json json = TestFalconConfig();
    json[key] = value;
    ExpectBad(json, ErrorCode::kUnsupported, key);
  }
  Json json = GroupedConfig();  // parallel whatever the key says
  json["parallel_attn"] = false;
  EXPECT_TRUE(Parse(json).has_value());
  json["num_ln_in_parallel_attn"] = 1;
  ExpectBad(json, ErrorCode::kUnsupported, "parallel_attn");
}

TEST(FalconConfigTest, SenselessValuesAreNamed) {
  for (const auto& [key, value] :
       {std::pair("hidden_size", Json(0)),
        std::pair("hidden_size", Json(1 << 23)),
        std::pair("num_attention_heads", Json(5)),
        std::pair("num_hidden_layers", Json(nullptr)),
        std::pair("ffn_hidden_size", Json(0)),
        std::pair("layer_norm_epsilon", Json(2)),
        std::pair("max_position_embeddings", Json(-1))}) {
    Json json = TestFalconConfig();
    json[key] = value;
    ExpectBad(json, ErrorCode::kCorrupt, key);
  }
}

using Rows = std::vector<uint32_t>;

TEST(RowsOfFusedHeadsTest, TheThreeLayouts) {
  // One KV head: already in order.
  EXPECT_EQ(RowsOfFusedHeads(2, 1, 2), (Rows{0, 1, 2, 3, 4, 5, 6, 7}));
  // q, k, v per head.
  EXPECT_EQ(RowsOfFusedHeads(2, 2, 2),
            (Rows{0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11}));
  // Two groups of two query heads.
  EXPECT_EQ(RowsOfFusedHeads(4, 2, 1), (Rows{0, 1, 4, 5, 2, 6, 3, 7}));
}

TestTensors FalconWeights(const HfConfig& config) {
  Random random(3);
  TestTensors t;
  const auto add = [&](const std::string& name, std::vector<uint64_t> shape) {
    t["transformer." + name] = RandomTensor("F16", std::move(shape), random);
  };
  const auto qkv = (config.num_heads + 2 * config.num_kv_heads) * 16;
  add("word_embeddings.weight", {12, 64});
  for (const char* kind : {".weight", ".bias"}) {
    add(std::string("ln_f") + kind, {64});
    if (config.two_norms) {
      add(std::string("h.0.ln_attn") + kind, {64});
      add(std::string("h.0.ln_mlp") + kind, {64});
    } else {
      add(std::string("h.0.input_layernorm") + kind, {64});
    }
  }
  add("h.0.self_attention.query_key_value.weight", {qkv, 64});
  add("h.0.self_attention.dense.weight", {64, 64});
  add("h.0.mlp.dense_h_to_4h.weight", {256, 64});
  add("h.0.mlp.dense_4h_to_h.weight", {64, 256});
  return t;
}

class FalconPlanTest : public ::testing::Test {
 protected:
  Result<std::vector<PlannedTensor>> Plan() {
    folder_.Write("model.safetensors", ToSafetensors(weights_));
    checkpoint_ = Checkpoint::Open(folder_.path()).value();
    return PlanTensors(Parse(json_).value(), checkpoint_, DType::kF16);
  }

  static bool Has(const std::vector<PlannedTensor>& plan,
                  const std::string& name) {
    return std::ranges::find(plan, name, &PlannedTensor::name) != plan.end();
  }

  os::TestFolder folder_;
  Json json_ = TestFalconConfig();
  TestTensors weights_ = FalconWeights(Parse(TestFalconConfig()).value());
  Checkpoint checkpoint_;
};

TEST_F(FalconPlanTest, SecondNormIsTheAttentions) {
  json_ = GroupedConfig();
  weights_ = FalconWeights(Parse(json_).value());
  const auto plan = Plan().value();
  const auto source_of = [&](const char* name) {
    return std::ranges::find(plan, name, &PlannedTensor::name)
        ->sources.at(0)
        ->name;
  };
  EXPECT_EQ(source_of("blk.0.attn_norm.weight"),
            "transformer.h.0.ln_mlp.weight");
  EXPECT_EQ(source_of("blk.0.attn_norm_2.bias"),
            "transformer.h.0.ln_attn.bias");
}

TEST_F(FalconPlanTest, TheHeadCountsOnlyIfItDiffers) {
  EXPECT_FALSE(Has(Plan().value(), "output.weight"));
  weights_["lm_head.weight"] = weights_["transformer.word_embeddings.weight"];
  EXPECT_FALSE(Has(Plan().value(), "output.weight"));
  weights_["lm_head.weight"].values[5] += 1.0f;
  EXPECT_TRUE(Has(Plan().value(), "output.weight"));
  json_["tie_word_embeddings"] = true;
  EXPECT_FALSE(Has(Plan().value(), "output.weight"));
  json_["tie_word_embeddings"] = false;
  weights_.erase("lm_head.weight");
  ASSERT_FALSE(Plan().has_value());
  EXPECT_NE(Plan().error().message.find("lm_head.weight"), std::string::npos);
}

TEST_F(FalconPlanTest, EveryMissingTensorIsNamed) {
  const TestTensors all = weights_;
  for (const auto& [name, tensor] : all) {
    weights_ = all;
    weights_.erase(name);
    const auto plan = Plan();
    ASSERT_FALSE(plan.has_value()) << name;
    EXPECT_NE(plan.error().message.find(name), std::string::npos)
        << plan.error().message;
  }
}

TEST_F(FalconPlanTest, NamesWithoutTheOuterPrefix) {
  TestTensors bare;
  for (const auto& [name, tensor] : weights_) bare[name.substr(12)] = tensor;
  weights_ = bare;
  EXPECT_TRUE(Plan().has_value());
}

}  // namespace
}  // namespace thermocline::importer
