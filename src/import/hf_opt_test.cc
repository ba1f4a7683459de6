#include "import/hf_opt.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "import/hf_config.h"
#include "import/hf_test_folder.h"
#include "import/tensor_plan.h"
#include "import/test_hf_config.h"

namespace thermocline::importer {
namespace {

Json TestOptConfig() {
  return {{"architectures", {"OPTForCausalLM"}},
          {"model_type", "opt"},
          {"hidden_size", 64},
          {"ffn_dim", 96},
          {"num_hidden_layers", 1},
          {"num_attention_heads", 4},
          {"max_position_embeddings", 10},
          {"word_embed_proj_dim", 64},
          {"do_layer_norm_before", true},
          {"activation_function", "relu"},
          {"vocab_size", 12},
          {"bos_token_id", 2},
          {"eos_token_id", 2},
          {"pad_token_id", 1}};
}

TEST(OptConfigTest, AllFields) {
  Json json = TestOptConfig();
  json["layer_norm_eps"] = 1e-3;  // no key of OPT's
  const HfConfig config = Parse(json).value();
  EXPECT_EQ(config.architecture, "opt");
  EXPECT_EQ(config.rope_kind, RopeKind::kNone);
  EXPECT_EQ(config.norm, NormKind::kLayer);
  EXPECT_EQ(config.norm_epsilon, 1e-5);
  EXPECT_EQ(config.ffn_width, 96);
  EXPECT_EQ(config.num_kv_heads, 4);
  EXPECT_EQ(config.context_length, 10);
  EXPECT_EQ(config.activation, Activation::kRelu);
  EXPECT_EQ(config.bos_id, 2);
  EXPECT_EQ(config.pad_id, 1);
  EXPECT_EQ(config.tied_head, std::nullopt);
}

TEST(OptConfigTest, OtherBlocksAreRefusedByName) {
  for (const auto& [key, value] :
       {std::pair("do_layer_norm_before", Json(false)),
        std::pair("word_embed_proj_dim", Json(32)),
        std::pair("_remove_final_layer_norm", Json(true)),
        std::pair("layer_norm_elementwise_affine", Json(false)),
        std::pair("enable_bias", Json(false))}) {
    Json json = TestOptConfig();
    json[key] = value;
    ExpectBad(json, ErrorCode::kUnsupported, key);
  }
}

TEST(OptConfigTest, SenselessValuesAreNamed) {
  for (const auto& [key, value] :
       {std::pair("hidden_size", Json(0)), std::pair("ffn_dim", Json(nullptr)),
        std::pair("num_attention_heads", Json(5)),
        std::pair("max_position_embeddings", Json(0)),
        std::pair("max_position_embeddings", Json(int64_t{1} << 30)),
        std::pair("word_embed_proj_dim", Json("64")),
        std::pair("do_layer_norm_before", Json(1))}) {
    Json json = TestOptConfig();
    json[key] = value;
    ExpectBad(json, ErrorCode::kCorrupt, key);
  }
}

TestTensors OptWeights(const std::string& prefix) {
  Random random(3);
  TestTensors t;
  const auto add = [&](const std::string& name, std::vector<uint64_t> shape) {
    t[prefix + name + ".bias"] = RandomTensor("F16", {shape[0]}, random);
    t[prefix + name + ".weight"] =
        RandomTensor("F16", std::move(shape), random);
  };
  add("embed_tokens", {12, 64});
  add("embed_positions", {12, 64});
  t.erase(prefix + "embed_tokens.bias");
  t.erase(prefix + "embed_positions.bias");
  add("final_layer_norm", {64});
  add("layers.0.self_attn_layer_norm", {64});
  add("layers.0.final_layer_norm", {64});
  for (const char* name : {"q_proj", "k_proj", "v_proj", "out_proj"}) {
    add(std::string("layers.0.self_attn.") + name, {64, 64});
  }
  add("layers.0.fc1", {96, 64});
  add("layers.0.fc2", {64, 96});
  return t;
}

class OptPlanTest : public ::testing::Test {
 protected:
  Result<std::vector<PlannedTensor>> Plan() {
    folder_.Write("model.safetensors", ToSafetensors(weights_));
    checkpoint_ = Checkpoint::Open(folder_.path()).value();
    return PlanTensors(Parse(json_).value(), checkpoint_, DType::kF16);
  }

  os::TestFolder folder_;
  Json json_ = TestOptConfig();
  TestTensors weights_ = OptWeights("model.decoder.");
  Checkpoint checkpoint_;
};

TEST_F(OptPlanTest, NamesOfBothSides) {
  const std::pair<const char*, const char*> names[] = {
      {"blk.0.attn_norm.weight", "layers.0.self_attn_layer_norm.weight"},
      {"blk.0.attn_output.bias", "layers.0.self_attn.out_proj.bias"},
      {"blk.0.ffn_norm.bias", "layers.0.final_layer_norm.bias"},
      {"blk.0.ffn_up.bias", "layers.0.fc1.bias"},
      {"blk.0.ffn_down.weight", "layers.0.fc2.weight"},
      {"output_norm.weight", "final_layer_norm.weight"}};
  for (const std::string prefix : {"model.decoder.", "decoder.", ""}) {
    weights_ = OptWeights(prefix);
    const auto plan = Plan();
    ASSERT_TRUE(plan.has_value()) << plan.error().message;
    EXPECT_EQ(plan->size(), 20u);
    for (const auto& [name, source] : names) {
      const auto found = std::ranges::find(*plan, name, &PlannedTensor::name);
      ASSERT_NE(found, plan->end()) << name;
      EXPECT_EQ(found->sources.at(0)->name, prefix + source);
      EXPECT_TRUE(found->rows.empty());
    }
  }
}

TEST_F(OptPlanTest, TheFirstTwoPositionsStayBehind) {
  const auto plan = Plan().value();
  EXPECT_EQ(plan[1].name, "position_embd.weight");
  EXPECT_EQ(plan[1].shape, (Shape{{64, 10, 1, 1}, 2}));
  EXPECT_EQ(plan[1].dtype, DType::kF32);
  EXPECT_EQ(plan[1].rows,
            (std::vector<uint32_t>{2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
  json_["max_position_embeddings"] = 12;  // a table without the two
  ASSERT_FALSE(Plan().has_value());
  EXPECT_NE(Plan().error().message.find("embed_positions"), std::string::npos);
}

TEST_F(OptPlanTest, EveryMissingTensorIsNamed) {
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

}  // namespace
}  // namespace thermocline::importer
