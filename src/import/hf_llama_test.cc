#include "import/hf_llama.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "import/hf_config.h"
#include "import/hf_test_folder.h"
#include "import/tensor_plan.h"
#include "import/test_hf_config.h"

namespace thermocline::importer {
namespace {

TEST(RowsOfHalvesTest, HalvesBecomePairs) {
  EXPECT_EQ(RowsOfHalves(16, 8),
            (std::vector<uint32_t>{0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14,
                                   11, 15}));
  EXPECT_EQ(RowsOfHalves(4, 2), (std::vector<uint32_t>{0, 1, 2, 3}));
}

TEST(LlamaLayoutTest, OnlyQAndKOfTheNormKindMove) {
  HfConfig config = Parse(TestConfig()).value();
  for (const RopeKind kind : {RopeKind::kNorm, RopeKind::kNeox}) {
    config.rope_kind = kind;
    for (const Part& part : LlamaLayout(config).layer) {
      const bool moves =
          kind == RopeKind::kNorm && (part.gguf_name.starts_with("attn_q.") ||
                                      part.gguf_name.starts_with("attn_k."));
      const size_t rows = part.gguf_name.starts_with("attn_q.") ? 64 : 32;
      EXPECT_EQ(part.rows.size(), moves ? rows : 0) << part.gguf_name;
    }
  }
}

TEST(LlamaLayoutTest, KHasItsOwnNumberOfHeads) {
  const HfConfig config = Parse(TestConfig()).value();  // 4 heads over 2
  const auto layer = LlamaLayout(config).layer;
  const auto k = std::ranges::find(layer, "attn_k.weight", &Part::gguf_name);
  ASSERT_NE(k, layer.end());
  EXPECT_EQ(k->rows, RowsOfHalves(32, 16));
}

Json BambooConfig() {
  Json json = TestConfig();
  json["architectures"] = {"BambooForCausalLM"};
  json["hidden_act"] = "relu";
  return json;
}

TEST(LlamaConfigTest, BambooIsDoubleRelu) {
  const HfConfig config = Parse(BambooConfig()).value();
  EXPECT_EQ(config.architecture, "bamboo");
  EXPECT_EQ(config.rope_kind, RopeKind::kNorm);
  EXPECT_EQ(config.activation, Activation::kDRelu);
  Json json = BambooConfig();
  json["hidden_act"] = "silu";
  ExpectBad(json, ErrorCode::kUnsupported, "hidden_act");
}

TEST(LlamaConfigTest, ProSparseHasItsThreshold) {
  Json json = TestConfig();
  json.erase("architectures");
  json["model_type"] = "sparsellama";
  json["hidden_act"] = "fatrelu";
  json["hidden_act_param"] = 0.01;
  const HfConfig config = Parse(json).value();
  EXPECT_EQ(config.architecture, "prosparse-llama");
  EXPECT_EQ(config.activation, Activation::kFatRelu);
  EXPECT_EQ(config.activation_threshold, 0.01);
}

Json MixtralConfig() {
  Json json = TestConfig();
  json["architectures"] = {"MixtralForCausalLM"};
  json["num_local_experts"] = 3;
  json["num_experts_per_tok"] = 2;
  return json;
}

TestTensors MixtralWeights() {
  TestTensors weights = TestWeights();
  Random random(5);
  for (const char* layer : {"model.layers.0.", "model.layers.1."}) {
    const std::string l = layer;
    for (const char* name : {"gate_proj", "up_proj", "down_proj"}) {
      weights.erase(l + "mlp." + name + ".weight");
    }
    const std::string moe = l + "block_sparse_moe.";
    weights[moe + "gate.weight"] = RandomTensor("F16", {3, 64}, random);
    for (const char* e : {"0", "1", "2"}) {
      const std::string expert = moe + "experts." + e;
      weights[expert + ".w1.weight"] = RandomTensor("BF16", {96, 64}, random);
      weights[expert + ".w2.weight"] = RandomTensor("F16", {64, 96}, random);
      weights[expert + ".w3.weight"] = RandomTensor("F32", {96, 64}, random);
    }
  }
  return weights;
}

Json QwenMixtureConfig() {
  Json json = TestConfig();
  json["architectures"] = {"Qwen3MoeForCausalLM"};
  json["moe_intermediate_size"] = 32;
  json["num_experts"] = 8;
  json["num_experts_per_tok"] = 3;
  json["norm_topk_prob"] = true;
  json["mlp_only_layers"] = Json::array();
  return json;
}

TEST(LlamaConfigTest, QwensExpertsHaveTheirOwnWidth) {
  const HfConfig config = Parse(QwenMixtureConfig()).value();
  EXPECT_EQ(config.architecture, "qwen3moe");
  EXPECT_EQ(config.rope_kind, RopeKind::kNeox);
  EXPECT_EQ(config.ffn_width, 32);
  EXPECT_EQ(config.dense_ffn_width, 96);
  EXPECT_EQ(config.num_experts, 8);
  EXPECT_EQ(config.num_experts_used, 3);
  struct Case {
    const char* key;
    Json value;
    ErrorCode code;
  };
  for (const Case& c :
       {Case{"norm_topk_prob", false, ErrorCode::kUnsupported},
        Case{"norm_topk_prob", nullptr, ErrorCode::kUnsupported},
        Case{"mlp_only_layers", {1}, ErrorCode::kUnsupported},
        Case{"decoder_sparse_step", 2, ErrorCode::kUnsupported},
        Case{"moe_intermediate_size", nullptr, ErrorCode::kCorrupt},
        Case{"num_experts", 0, ErrorCode::kCorrupt},
        Case{"num_experts_per_tok", 9, ErrorCode::kCorrupt}}) {
    Json json = QwenMixtureConfig();
    json[c.key] = c.value;
    ExpectBad(json, c.code, c.key);
  }
}

Json NemotronConfig() {
  Json json = TestConfig();
  json["architectures"] = {"NemotronForCausalLM"};
  json["hidden_act"] = "relu2";
  json.erase("rms_norm_eps");
  return json;
}

// Half of it, unless the file says another share, in either place.
TEST(LlamaConfigTest, NemotronsHeadsRotateInPart) {
  const HfConfig config = Parse(NemotronConfig()).value();
  EXPECT_EQ(config.norm, NormKind::kLayer);
  EXPECT_EQ(config.norm_epsilon, 1e-5);
  EXPECT_EQ(config.activation, Activation::kRelu2);
  EXPECT_TRUE(config.norms_lack_one);
  EXPECT_EQ(config.rotated_width, 8);
  Json json = NemotronConfig();
  json["partial_rotary_factor"] = 0.25;
  EXPECT_EQ(Parse(json)->rotated_width, 4);
  json.erase("partial_rotary_factor");
  json["rope_parameters"] = {{"rope_type", "default"},
                             {"partial_rotary_factor", 1.0}};
  EXPECT_EQ(Parse(json)->rotated_width, 16);
  for (const double share : {0.0, -0.5, 1.5, 0.2, 0.01}) {
    Json bad = NemotronConfig();
    bad["partial_rotary_factor"] = share;
    ExpectBad(bad, ErrorCode::kCorrupt, "partial_rotary_factor");
  }
}

TEST(LlamaConfigTest, ArceeIsLlamaWithoutAGate) {
  Json json = TestConfig();
  json["architectures"] = {"ArceeForCausalLM"};
  json["hidden_act"] = "relu2";
  const HfConfig config = Parse(json).value();
  EXPECT_EQ(config.architecture, "arcee");
  EXPECT_EQ(config.rope_kind, RopeKind::kNorm);
  EXPECT_EQ(config.rotated_width, 16);
  EXPECT_FALSE(config.norms_lack_one);
}

TEST(LlamaConfigTest, Experts) {
  const HfConfig config = Parse(MixtralConfig()).value();
  Json bare = MixtralConfig();
  bare.erase("rope_theta");
  EXPECT_EQ(Parse(bare)->rope.theta, 1e6);
  EXPECT_EQ(config.architecture, "llama");
  EXPECT_EQ(config.num_experts, 3);
  EXPECT_EQ(config.num_experts_used, 2);
  for (const auto& [key, value] :
       {std::pair("num_local_experts", Json(0)),
        std::pair("num_local_experts", Json(model::kMaxExperts + 1)),
        std::pair("num_local_experts", Json(nullptr)),
        std::pair("num_experts_per_tok", Json(4)),
        std::pair("num_experts_per_tok", Json(0)),
        std::pair("num_experts_per_tok", Json(nullptr))}) {
    Json json = MixtralConfig();
    json[key] = value;
    ExpectBad(json, ErrorCode::kCorrupt, key);
  }
}

class MixtralPlanTest : public ::testing::Test {
 protected:
  Result<std::vector<PlannedTensor>> Plan(DType dtype = DType::kQ8_0) {
    folder_.Write("model.safetensors", ToSafetensors(weights_));
    checkpoint_ = Checkpoint::Open(folder_.path()).value();
    return PlanTensors(Parse(json_).value(), checkpoint_, dtype);
  }

  void ExpectBadPlan(ErrorCode code, const std::string& part) {
    const auto plan = Plan();
    ASSERT_FALSE(plan.has_value()) << part;
    EXPECT_EQ(plan.error().code, code) << plan.error().message;
    EXPECT_NE(plan.error().message.find(part), std::string::npos)
        << plan.error().message;
  }

  os::TestFolder folder_;
  Json json_ = MixtralConfig();
  TestTensors weights_ = MixtralWeights();
  Checkpoint checkpoint_;
};

TEST_F(MixtralPlanTest, ExpertsAreStackedAndTheRouterStaysF32) {
  const auto plan = Plan().value();
  const auto find = [&](const std::string& name) {
    return *std::ranges::find(plan, name, &PlannedTensor::name);
  };
  EXPECT_EQ(find("blk.1.ffn_gate_inp.weight").dtype, DType::kF32);
  EXPECT_EQ(find("blk.1.ffn_gate_inp.weight").shape, (Shape{{64, 3, 1, 1}, 2}));
  const PlannedTensor down = find("blk.1.ffn_down_exps.weight");
  EXPECT_EQ(down.shape, (Shape{{96, 64, 3, 1}, 3}));
  EXPECT_EQ(down.dtype, DType::kQ8_0);
  ASSERT_EQ(down.sources.size(), 3u);
  EXPECT_EQ(down.sources[2]->name,
            "model.layers.1.block_sparse_moe.experts.2.w2.weight");
  EXPECT_EQ(find("blk.0.ffn_gate_exps.weight").sources[1]->name,
            "model.layers.0.block_sparse_moe.experts.1.w1.weight");
  EXPECT_EQ(find("blk.0.ffn_up_exps.weight").sources[0]->name,
            "model.layers.0.block_sparse_moe.experts.0.w3.weight");
}

TEST_F(MixtralPlanTest, CountsThatLieAreFound) {
  weights_.erase("model.layers.1.block_sparse_moe.experts.2.w2.weight");
  ExpectBadPlan(ErrorCode::kCorrupt, "layers.1.block_sparse_moe.experts.2.w2");
  weights_ = MixtralWeights();
  json_["num_local_experts"] = 4;  // the router is the first to tell
  ExpectBadPlan(ErrorCode::kCorrupt, "block_sparse_moe.gate.weight");
  for (const char* layer : {"0", "1"}) {
    Random random(1);
    weights_[std::string("model.layers.") + layer +
             ".block_sparse_moe.gate.weight"] =
        RandomTensor("F32", {4, 64}, random);
  }
  ExpectBadPlan(ErrorCode::kCorrupt, "experts.3.w1.weight");
  weights_ = MixtralWeights();
  json_["num_local_experts"] = 2;
  ExpectBadPlan(ErrorCode::kCorrupt, "block_sparse_moe.gate.weight");
  for (const char* layer : {"0", "1"}) {
    Random random(1);
    weights_[std::string("model.layers.") + layer +
             ".block_sparse_moe.gate.weight"] =
        RandomTensor("F32", {2, 64}, random);
  }
  ExpectBadPlan(ErrorCode::kUnsupported, "experts.2");
}

TEST_F(MixtralPlanTest, OneExpertOfAnotherShape) {
  weights_["model.layers.0.block_sparse_moe.experts.1.w3.weight"].shape = {64,
                                                                           96};
  ExpectBadPlan(ErrorCode::kCorrupt, "experts.1.w3.weight");
}

}  // namespace
}  // namespace thermocline::importer
