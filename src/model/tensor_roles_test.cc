#include "model/tensor_roles.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "model/test_model.h"
#include "model/weights.h"

namespace thermocline::model {
namespace {

using gguf::ParsedCopy;
using gguf::TestFile;

TEST(TensorRoles, NamesAreThereOnce) {
  std::set<std::string_view> names;
  for (const auto roles : {ModelRoles(), LayerRoles()}) {
    for (const TensorRole& role : roles) {
      EXPECT_TRUE(names.insert(role.name).second) << role.name;
      EXPECT_EQ(FindRole(role.name), &role);
      EXPECT_EQ(role.form == TensorForm::kVector,
                role.rows == Extent::kOne && role.form != TensorForm::kData)
          << role.name;
      EXPECT_EQ(role.beside == Beside::kNothing, role.other.empty());
      if (!role.other.empty()) {
        EXPECT_NE(FindRole(role.other), nullptr) << role.name;
      }
    }
  }
  EXPECT_EQ(FindRole("attn_q"), nullptr);
  EXPECT_EQ(FindRole(""), nullptr);
}

TEST(TensorRoles, UsesAreToldByStems) {
  EXPECT_EQ(UseOf("attn_q"), TensorUse::kAttentionQ);
  EXPECT_EQ(UseOf("attn_k_norm"), TensorUse::kNorm);
  EXPECT_EQ(UseOf("ffn_down_exps"), TensorUse::kExpertDown);
  EXPECT_EQ(UseOf("output"), TensorUse::kHead);
  EXPECT_EQ(UseOf("tc_free"), TensorUse::kPredictorFree);
  EXPECT_EQ(UseOf("tc_selftest"), TensorUse::kFindings);
  EXPECT_EQ(UseOf("ssm_in"), TensorUse::kOther);
  EXPECT_EQ(UseOf(""), TensorUse::kOther);
}

TEST(TensorRoles, Extents) {
  const Config config = {
      .width = 40,
      .vocab_size = 7,
      .ropes = {{.width = 6}},
      .num_positions = 9,
      .position_offset = 2,
  };
  const LayerSpec layer = {
      .attention = {.num_heads = 6,
                    .num_kv_heads = 2,
                    .key_width = 10,
                    .value_width = 3},
      .ffn = {.width = 11, .num_experts = 5, .num_experts_used = 2}};
  struct Case {
    Extent extent;
    int64_t count;
  };
  for (const Case& c : {Case{Extent::kOne, 1}, Case{Extent::kVocab, 7},
                        Case{Extent::kPositions, 11}, Case{Extent::kWidth, 40},
                        Case{Extent::kQRows, 60}, Case{Extent::kKRows, 20},
                        Case{Extent::kVRows, 6}, Case{Extent::kQkvRows, 86},
                        Case{Extent::kHeadOut, 18}, Case{Extent::kKeyWidth, 10},
                        Case{Extent::kFfnWidth, 11}, Case{Extent::kNeurons, 55},
                        Case{Extent::kExperts, 5}, Case{Extent::kRopePairs, 3},
                        Case{Extent::kRank, 0}}) {
    EXPECT_EQ(ExtentOf(c.extent, config, layer), c.count)
        << static_cast<int>(c.extent);
  }
}

// The bytes that a visit of all slots sees, and those of the file.
void ExpectAllVisited(TestFile file, const std::string& name) {
  const ParsedCopy parsed(file.Bytes());
  const auto config = ReadConfig(**parsed.file);
  ASSERT_TRUE(config.has_value()) << config.error().message;
  const auto weights = BindWeights(**parsed.file, *config);
  ASSERT_TRUE(weights.has_value()) << weights.error().message;
  uint64_t num_visited = 0;
  const VisitTensor visit = [&](const TensorRole&, const TensorView& view) {
    if (view) num_visited += view.num_bytes();
  };
  ForEachModelTensor(*weights, visit);
  for (const LayerWeights& layer : weights->layers) {
    ForEachLayerTensor(layer, visit);
  }
  uint64_t num_bytes = 0;
  for (const gguf::TensorInfo& info : (*parsed.file)->tensors()) {
    num_bytes += info.num_bytes;
    // One norm, bound for both halves.
    const bool is_shared = config->layers.front().parallel &&
                           info.name.find("attn_norm.") != std::string::npos;
    if (is_shared) num_bytes += info.num_bytes;
  }
  EXPECT_EQ(num_visited, num_bytes) << name;
}

TEST(TensorRoles, EverythingBoundIsVisitedOnce) {
  for (const Architecture& form : KnownArchitectures()) {
    const std::string name(form.name);
    ExpectAllVisited(TestModel(name), name);
  }
  TestFile fused = TestModel("falcon");
  FuseQkv(fused);
  ExpectAllVisited(fused, "fused");
  ExpectAllVisited(TestExpertModel(), "mixture");
  ExpectAllVisited(TestPowerInferModel(), "PowerInfer");
  ExpectAllVisited(TestKairoxModel(), "KAIROX");
}

TEST(TensorRoles, VectorsThatLieAskew) {
  const ParsedCopy parsed(TestModel("qwen3").Bytes());
  auto weights =
      BindWeights(**parsed.file, ReadConfig(**parsed.file).value()).value();
  EXPECT_TRUE(VectorsAreAligned(weights));
  weights.layers[0].attention.q.data += 2;
  EXPECT_TRUE(VectorsAreAligned(weights));
  weights.layers[1].attention.k_norm.data += 2;
  EXPECT_FALSE(VectorsAreAligned(weights));
  weights.layers[1].attention.k_norm.data -= 2;
  weights.layers[0].predictor.down_bias = weights.layers[0].attention.k_norm;
  EXPECT_TRUE(VectorsAreAligned(weights));
  weights.layers[0].predictor.down_bias.data += 1;
  EXPECT_FALSE(VectorsAreAligned(weights));
}

}  // namespace
}  // namespace thermocline::model
