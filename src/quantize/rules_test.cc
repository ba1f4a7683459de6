// What llama.cpp's quantiser gave for models of these shapes (checked name by
// name on 22 models, every type); one digit per layer.
#include "quantize/rules.h"

#include <gtest/gtest.h>

#include <string>

namespace thermocline::quantize {
namespace {

QuantizedModel ModelOf(const std::string& architecture, size_t num_layers,
                       size_t num_experts = 0) {
  return {.architecture = architecture,
          .num_layers = num_layers,
          .num_experts = num_experts,
          .has_output = true};
}

// One character for the type of every layer's tensor: 4, 5, 6, 8.
std::string Layers(const QuantizedModel& model, gguf::FileType type,
                   const std::string& tensor) {
  std::string out;
  for (size_t i = 0; i < model.num_layers; ++i) {
    const DType dtype = TypeInMix(
        model, type, "blk." + std::to_string(i) + "." + tensor + ".weight");
    out += NameOf(dtype)[1];
  }
  return out;
}

DType Head(const QuantizedModel& model, gguf::FileType type) {
  return TypeInMix(model, type, "output.weight");
}

TEST(QuantizeRulesTest, MixesOf32Layers) {
  const QuantizedModel model = ModelOf("llama", 32);
  const std::string more_bits = "66664464464464464464464464466666";
  EXPECT_EQ(Layers(model, gguf::FileType::kQ4_K_M, "attn_v"), more_bits);
  EXPECT_EQ(Layers(model, gguf::FileType::kQ4_K_M, "ffn_down"), more_bits);
  EXPECT_EQ(Layers(model, gguf::FileType::kQ4_K_M, "ffn_up"),
            std::string(32, '4'));
  EXPECT_EQ(Layers(model, gguf::FileType::kQ4_K_M, "attn_k"),
            std::string(32, '4'));
  EXPECT_EQ(Layers(model, gguf::FileType::kQ5_K_M, "attn_v"),
            "66665565565565565565565565566666");
  EXPECT_EQ(Layers(model, gguf::FileType::kQ5_K_M, "ffn_down"),
            "66665565565565565565565565566666");
  EXPECT_EQ(Layers(model, gguf::FileType::kQ4_K_S, "attn_v"),
            "5555" + std::string(28, '4'));
  EXPECT_EQ(Layers(model, gguf::FileType::kQ4_K_S, "ffn_down"),
            "5555" + std::string(28, '4'));
  EXPECT_EQ(Layers(model, gguf::FileType::kQ5_K_S, "ffn_down"),
            std::string(32, '5'));
  EXPECT_EQ(Layers(model, gguf::FileType::kQ6_K, "attn_v"),
            std::string(32, '6'));
}

TEST(QuantizeRulesTest, FewLayersHaveNoEighths) {
  EXPECT_EQ(Layers(ModelOf("llama", 5), gguf::FileType::kQ4_K_M, "ffn_down"),
            "44646");
  EXPECT_EQ(Layers(ModelOf("llama", 5), gguf::FileType::kQ4_K_S, "ffn_down"),
            "44444");
  EXPECT_EQ(Layers(ModelOf("llama", 5), gguf::FileType::kQ4_K_S, "attn_v"),
            "55554");
}

TEST(QuantizeRulesTest, A70bModelsSmallAttnVHasFiveBits) {
  QuantizedModel model = ModelOf("llama", 80);
  model.has_70b_attention = true;
  EXPECT_EQ(Layers(model, gguf::FileType::kQ4_K_M, "attn_v"),
            "6666666666556556556556556556556556556556"
            "5565565565565565565565565565566666666666");
  EXPECT_EQ(Layers(model, gguf::FileType::kQ4_K_M, "ffn_down"),
            "6666666666446446446446446446446446446446"
            "4464464464464464464464464464466666666666");
  EXPECT_EQ(Layers(model, gguf::FileType::kQ4_K_S, "attn_v"),
            std::string(80, '5'));
  EXPECT_EQ(Layers(model, gguf::FileType::kQ4_0, "attn_v"),
            std::string(80, '4'));
}

TEST(QuantizeRulesTest, EightExpertsKeepTheirAttention) {
  const QuantizedModel model = ModelOf("llama", 32, 8);
  for (const gguf::FileType type :
       {gguf::FileType::kQ4_0, gguf::FileType::kQ4_K_S, gguf::FileType::kQ4_K_M,
        gguf::FileType::kQ5_K_M}) {
    EXPECT_EQ(Layers(model, type, "attn_v"), std::string(32, '8'));
    EXPECT_EQ(Layers(model, type, "attn_k"), std::string(32, '8'));
  }
  EXPECT_EQ(Layers(model, gguf::FileType::kQ4_K_S, "attn_output"),
            std::string(32, '5'));
  EXPECT_EQ(Layers(model, gguf::FileType::kQ4_K_M, "attn_output"),
            std::string(32, '5'));
  EXPECT_EQ(Layers(model, gguf::FileType::kQ4_0, "attn_output"),
            std::string(32, '4'));
  EXPECT_EQ(Layers(model, gguf::FileType::kQ4_K_M, "ffn_down_exps"),
            "66664464464464464464464464466666");
  EXPECT_EQ(Layers(ModelOf("llama", 32, 4), gguf::FileType::kQ4_K_M, "attn_k"),
            std::string(32, '4'));
}

TEST(QuantizeRulesTest, Falcon) {
  const QuantizedModel model = ModelOf("falcon", 32);
  EXPECT_EQ(Layers(model, gguf::FileType::kQ4_K_M, "ffn_down"),
            "66554454454454454454454454455555");
  EXPECT_EQ(Layers(model, gguf::FileType::kQ4_K_M, "attn_qkv"),
            std::string(32, '5'));
  EXPECT_EQ(Layers(model, gguf::FileType::kQ5_K_M, "attn_qkv"),
            std::string(32, '6'));
  EXPECT_EQ(Layers(model, gguf::FileType::kQ4_K_S, "ffn_down"),
            std::string(32, '4'));
  EXPECT_EQ(Layers(model, gguf::FileType::kQ5_K_M, "ffn_down"),
            "66665565565565565565565565566666");
  EXPECT_EQ(Head(model, gguf::FileType::kQ4_K_M), DType::kQ8_0);
  EXPECT_EQ(Head(ModelOf("relu-falcon", 32), gguf::FileType::kQ4_0),
            DType::kQ8_0);
}

TEST(QuantizeRulesTest, TheHeadTiedOrNot) {
  QuantizedModel model = ModelOf("llama", 2);
  EXPECT_EQ(Head(model, gguf::FileType::kQ4_0), DType::kQ6_K);
  EXPECT_EQ(Head(model, gguf::FileType::kQ5_K_S), DType::kQ6_K);
  EXPECT_EQ(Head(model, gguf::FileType::kQ8_0), DType::kQ8_0);
  EXPECT_EQ(Head(model, gguf::FileType::kF16), DType::kF16);
  const std::string embedding = "token_embd.weight";
  EXPECT_FALSE(IsHead(model, embedding));
  EXPECT_EQ(TypeInMix(model, gguf::FileType::kQ4_K_M, embedding), DType::kQ4_K);
  model.has_output = false;
  EXPECT_TRUE(IsHead(model, embedding));
  EXPECT_EQ(TypeInMix(model, gguf::FileType::kQ4_K_M, embedding), DType::kQ6_K);
}

TEST(QuantizeRulesTest, Predictors) {
  QuantizedModel model = ModelOf("llama", 4);
  const auto type_of = [&](gguf::FileType type, const std::string& name) {
    return TypeInMix(model, type, "blk.1." + name + ".weight");
  };
  for (const char* name : {"ffn_pred_up", "ffn_pred_down"}) {
    EXPECT_EQ(type_of(gguf::FileType::kQ4_K_M, name), DType::kF16);
    EXPECT_EQ(type_of(gguf::FileType::kBF16, name), DType::kBF16);
  }
  EXPECT_EQ(type_of(gguf::FileType::kQ4_K_M, "fc1"), DType::kQ4_K);
  model.container = gguf::Container::kPowerInfer;
  for (const char* name : {"fc1", "fc2"}) {
    EXPECT_EQ(type_of(gguf::FileType::kQ4_0, name), DType::kQ4_0);
    EXPECT_EQ(type_of(gguf::FileType::kQ4_K_M, name), DType::kQ5_0);
    EXPECT_EQ(type_of(gguf::FileType::kQ6_K, name), DType::kQ8_0);
    EXPECT_EQ(type_of(gguf::FileType::kQ8_0, name), DType::kQ8_0);
  }
  // By its layer, although a file may have ffn_down too.
  EXPECT_EQ(Layers(model, gguf::FileType::kQ4_K_M, "ffn_down_t"),
            Layers(model, gguf::FileType::kQ4_K_M, "ffn_down"));
}

TEST(QuantizeRulesTest, WhatStays) {
  const Shape matrix = {{256, 2, 1, 1}, 2};
  const Shape experts = {{256, 1, 2, 1}, 3};
  EXPECT_TRUE(IsQuantisable("blk.0.attn_q.weight", matrix));
  EXPECT_TRUE(IsQuantisable("blk.0.ffn_up_exps.weight", experts));
  EXPECT_TRUE(IsQuantisable("token_embd.weight", matrix));
  EXPECT_FALSE(IsQuantisable("blk.0.attn_q.weight", {{256, 1, 1, 1}, 2}));
  for (const char* name :
       {"blk.0.attn_q.bias", "blk.0.attn_norm.weight", "position_embd.weight",
        "blk.0.ffn_gate_inp.weight", "token_types.weight", "blk.0.gpu_idx",
        "blk.0.ssm_conv1d.weight", "", "weights"}) {
    EXPECT_FALSE(IsQuantisable(name, matrix)) << name;
  }
}

TEST(QuantizeRulesTest, NamesWithoutALayerGetNoExtraBits) {
  const QuantizedModel model = ModelOf("llama", 0);
  for (const char* name :
       {"ffn_down.weight", "blk.ffn_down.weight", "blk.-1.ffn_down.weight",
        "blk.99999999999999999999.ffn_down.weight", "blk.1ffn_down.weight"}) {
    EXPECT_EQ(TypeInMix(model, gguf::FileType::kQ4_K_M, name), DType::kQ4_K)
        << name;
  }
  // A layer that the count denies, as in a file that lies.
  EXPECT_EQ(TypeInMix(model, gguf::FileType::kQ4_K_M,
                      "blk.9223372036854775807.attn_v.weight"),
            DType::kQ6_K);
}

TEST(QuantizeRulesTest, RowsThatDoNotDivideFallBack) {
  EXPECT_EQ(FittingType(DType::kQ4_K, 256), DType::kQ4_K);
  EXPECT_EQ(FittingType(DType::kQ4_K, 288), DType::kQ5_0);
  EXPECT_EQ(FittingType(DType::kQ5_K, 288), DType::kQ5_1);
  EXPECT_EQ(FittingType(DType::kQ6_K, 288), DType::kQ8_0);
  EXPECT_EQ(FittingType(DType::kQ6_K, 40), DType::kF16);
  EXPECT_EQ(FittingType(DType::kQ8_0, 40), DType::kF16);
  EXPECT_EQ(FittingType(DType::kQ4_1, 40), DType::kF16);
  EXPECT_EQ(FittingType(DType::kBF16, 3), DType::kBF16);
}

}  // namespace
}  // namespace thermocline::quantize
