#include "import/tensor_plan.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "import/hf_test_folder.h"

namespace thermocline::importer {
namespace {

class PlanTest : public ::testing::Test {
 protected:
  Result<std::vector<PlannedTensor>> Plan(DType dtype = DType::kQ8_0) {
    folder_.Write("model.safetensors", ToSafetensors(weights_));
    checkpoint_ = Checkpoint::Open(folder_.path()).value();
    config_ = ParseHfConfig(json_.dump(), "config.json").value();
    return PlanTensors(config_, checkpoint_, dtype);
  }

  void ExpectBad(ErrorCode code, const std::string& part) {
    const auto plan = Plan();
    ASSERT_FALSE(plan.has_value()) << part;
    EXPECT_EQ(plan.error().code, code) << plan.error().message;
    EXPECT_NE(plan.error().message.find(part), std::string::npos)
        << plan.error().message;
  }

  os::TestFolder folder_;
  Json json_ = TestConfig();
  TestTensors weights_ = TestWeights();
  Checkpoint checkpoint_;
  HfConfig config_;
};

TEST_F(PlanTest, TypesShapesAndOrder) {
  const auto plan = Plan().value();
  ASSERT_EQ(plan.size(), 21u);
  EXPECT_EQ(plan.front().name, "token_embd.weight");
  EXPECT_EQ(plan.back().name, "output.weight");
  for (const PlannedTensor& tensor : plan) {
    const bool is_vector = tensor.shape.rank == 1;
    EXPECT_EQ(tensor.dtype, is_vector ? DType::kF32 : DType::kQ8_0);
    const bool rotates = tensor.name.find("attn_q.") != std::string::npos ||
                         tensor.name.find("attn_k.") != std::string::npos;
    EXPECT_EQ(tensor.rows.size(), rotates ? tensor.shape.ne[1] : 0u)
        << tensor.name;
  }
  const auto found =
      std::ranges::find(plan, "blk.1.attn_k.weight", &PlannedTensor::name);
  ASSERT_NE(found, plan.end());
  EXPECT_EQ(found->shape, (Shape{{64, 32, 1, 1}, 2}));
  EXPECT_EQ(found->sources.at(0)->name,
            "model.layers.1.self_attn.k_proj.weight");
}

TEST_F(PlanTest, EveryMissingTensorIsNamed) {
  for (const auto& [name, tensor] : TestWeights()) {
    weights_ = TestWeights();
    weights_.erase(name);
    ExpectBad(ErrorCode::kCorrupt, name);
  }
}

TEST_F(PlanTest, Qwen2NeedsItsBiases) {
  json_["architectures"] = {"Qwen2ForCausalLM"};
  ExpectBad(ErrorCode::kCorrupt, "q_proj.bias");
  weights_ = TestWeights(true);
  EXPECT_TRUE(Plan().has_value());
}

TEST_F(PlanTest, WrongShapesAreNamed) {
  weights_["model.layers.0.self_attn.o_proj.weight"].shape = {4096};
  ExpectBad(ErrorCode::kCorrupt, "o_proj.weight");
  weights_ = TestWeights();
  weights_["model.layers.0.mlp.down_proj.weight"].shape = {96, 64};
  ExpectBad(ErrorCode::kCorrupt, "[96, 64]");
}

TEST_F(PlanTest, VocabularyOfConfigAndTensorAgree) {
  json_["vocab_size"] = 13;
  ExpectBad(ErrorCode::kCorrupt, "vocab_size");
  json_.erase("vocab_size");
  EXPECT_TRUE(Plan().has_value());
}

TEST_F(PlanTest, UnknownTensorsAreRefusedAndHarmlessOnesIgnored) {
  weights_["model.layers.0.self_attn.rotary_emb.inv_freq"] = {
      "F32", {2}, {1.0f, 2.0f}};
  EXPECT_EQ(Plan()->size(), 21u);
  weights_["model.layers.0.self_attn.q_norm.weight"] = {"F32", {1}, {1.0f}};
  ExpectBad(ErrorCode::kUnsupported, "q_norm.weight");
  weights_ = TestWeights();
  weights_["model.layers.2.mlp.up_proj.weight"] = {"F32", {1}, {1.0f}};
  ExpectBad(ErrorCode::kUnsupported, "model.layers.2");
}

TEST_F(PlanTest, OnlyFloatsAreConverted) {
  Json header = {
      {"model.embed_tokens.weight",
       {{"dtype", "I8"}, {"shape", {12, 64}}, {"data_offsets", {0, 768}}}}};
  folder_.Write("model.safetensors",
                SafetensorsBytes(header.dump(), std::string(768, 'x')));
  const Checkpoint checkpoint = Checkpoint::Open(folder_.path()).value();
  const HfConfig config = ParseHfConfig(json_.dump(), "config.json").value();
  const auto plan = PlanTensors(config, checkpoint, DType::kF16);
  ASSERT_FALSE(plan.has_value());
  EXPECT_EQ(plan.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(plan.error().message.find("\"I8\""), std::string::npos);
}

TEST_F(PlanTest, RowsThatDoNotDivideBecomeF16) {
  json_["intermediate_size"] = 40;
  Random random(1);
  for (const std::string layer :
       {"model.layers.0.mlp.", "model.layers.1.mlp."}) {
    weights_[layer + "gate_proj.weight"] =
        RandomTensor("F16", {40, 64}, random);
    weights_[layer + "up_proj.weight"] = RandomTensor("F16", {40, 64}, random);
    weights_[layer + "down_proj.weight"] =
        RandomTensor("F16", {64, 40}, random);
  }
  const auto plan = Plan(DType::kQ4_0).value();
  for (const std::string name :
       {"blk.0.ffn_down.weight", "blk.1.ffn_down.weight"}) {
    const auto down = std::ranges::find(plan, name, &PlannedTensor::name);
    ASSERT_NE(down, plan.end()) << name;
    EXPECT_EQ(down->dtype, DType::kF16) << name;
  }
}

// What saves shared tensors once keeps either name.
TEST_F(PlanTest, ATiedEmbeddingMayHaveTheHeadsName) {
  json_["tie_word_embeddings"] = true;
  const auto usual = Plan().value();
  weights_["lm_head.weight"] = weights_.at("model.embed_tokens.weight");
  weights_.erase("model.embed_tokens.weight");
  const auto plan = Plan();
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  ASSERT_EQ(plan->size(), usual.size());
  EXPECT_EQ(plan->front().name, "token_embd.weight");
  EXPECT_EQ(plan->front().sources.at(0)->name, "lm_head.weight");
  json_["tie_word_embeddings"] = false;
  ExpectBad(ErrorCode::kCorrupt, "model.embed_tokens.weight");
}

// Checkpoints of the bare model have shorter names.
TEST_F(PlanTest, NamesWithoutTheOuterPrefix) {
  const auto usual = Plan().value();
  TestTensors bare;
  for (const auto& [name, tensor] : weights_) {
    bare[name.starts_with("model.") ? name.substr(6) : name] = tensor;
  }
  weights_ = bare;
  const auto plan = Plan();
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  ASSERT_EQ(plan->size(), usual.size());
  for (size_t i = 0; i < usual.size(); ++i) {
    EXPECT_EQ((*plan)[i].name, usual[i].name);
  }
}

}  // namespace
}  // namespace thermocline::importer
