#include "convert/hf_config.h"

#include <gtest/gtest.h>

#include "base/log.h"
#include "convert/hf_test_folder.h"

namespace thermocline::convert {
namespace {

Result<HfConfig> Parse(const Json& json) {
  return ParseHfConfig(json.dump(), "config.json");
}

void ExpectBad(const Json& json, ErrorCode code, const std::string& part) {
  const auto config = Parse(json);
  ASSERT_FALSE(config.has_value()) << part;
  EXPECT_EQ(config.error().code, code) << config.error().message;
  EXPECT_NE(config.error().message.find("config.json"), std::string::npos);
  EXPECT_NE(config.error().message.find(part), std::string::npos)
      << config.error().message;
}

Json With(const char* key, const Json& value) {
  Json json = TestConfig();
  json[key] = value;
  return json;
}

// Collects warnings while it lives.
class Warnings {
 public:
  Warnings() {
    SetLogSink([this](LogLevel, std::string_view line) { text_ += line; });
  }
  ~Warnings() { SetLogSink({}); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

TEST(HfConfigTest, AllFields) {
  const HfConfig config = Parse(TestConfig()).value();
  EXPECT_EQ(config.architecture, "llama");
  EXPECT_FALSE(config.halves_rotate);
  EXPECT_FALSE(config.qkv_bias);
  EXPECT_EQ(config.width, 64);
  EXPECT_EQ(config.ffn_width, 96);
  EXPECT_EQ(config.num_layers, 2);
  EXPECT_EQ(config.num_heads, 4);
  EXPECT_EQ(config.num_kv_heads, 2);
  EXPECT_EQ(config.head_width, 16);
  EXPECT_EQ(config.context_length, 128);
  EXPECT_EQ(config.vocab_size, 12);
  EXPECT_EQ(config.norm_epsilon, 1e-5);
  EXPECT_EQ(config.rope.theta, 50000.0);
  EXPECT_FALSE(config.tied_head);
  EXPECT_EQ(config.bos_id, 1);
  EXPECT_EQ(config.eos_id, 2);
  EXPECT_EQ(config.activation, Activation::kSilu);
}

TEST(HfConfigTest, DefaultsAreThoseOfTheFormat) {
  Json json = TestConfig();
  for (const char* key : {"num_key_value_heads", "rope_theta", "vocab_size",
                          "bos_token_id", "eos_token_id"}) {
    json.erase(key);
  }
  json["head_dim"] = nullptr;
  const HfConfig config = Parse(json).value();
  EXPECT_EQ(config.num_kv_heads, 4);
  EXPECT_EQ(config.head_width, 16);
  EXPECT_EQ(config.rope.theta, 10000.0);
  EXPECT_EQ(config.vocab_size, std::nullopt);
  EXPECT_EQ(config.eos_id, std::nullopt);
}

TEST(HfConfigTest, MissingKeysAreNamed) {
  for (const char* key :
       {"architectures", "hidden_act", "hidden_size", "intermediate_size",
        "num_hidden_layers", "num_attention_heads", "max_position_embeddings",
        "rms_norm_eps"}) {
    Json json = TestConfig();
    json.erase(key);
    ExpectBad(json, ErrorCode::kCorrupt, key);
  }
}

TEST(HfConfigTest, SenselessValuesAreNamed) {
  ExpectBad(With("hidden_size", 0), ErrorCode::kCorrupt, "hidden_size");
  ExpectBad(With("hidden_size", int64_t{1} << 40), ErrorCode::kCorrupt,
            "hidden_size");
  ExpectBad(With("hidden_size", "64"), ErrorCode::kCorrupt, "hidden_size");
  ExpectBad(With("hidden_size", 63), ErrorCode::kCorrupt,
            "num_attention_heads");
  ExpectBad(With("num_hidden_layers", -2), ErrorCode::kCorrupt,
            "num_hidden_layers");
  ExpectBad(With("num_key_value_heads", 3), ErrorCode::kCorrupt,
            "num_key_value_heads");
  ExpectBad(With("num_key_value_heads", 8), ErrorCode::kCorrupt,
            "num_key_value_heads");
  ExpectBad(With("head_dim", 15), ErrorCode::kCorrupt, "head_dim");
  ExpectBad(With("head_dim", 1 << 24), ErrorCode::kCorrupt, "head_dim");
  ExpectBad(With("rms_norm_eps", -1.0), ErrorCode::kCorrupt, "rms_norm_eps");
  ExpectBad(With("eos_token_id", Json::array()), ErrorCode::kCorrupt,
            "eos_token_id");
  ExpectBad(With("bos_token_id", "x"), ErrorCode::kCorrupt, "bos_token_id");
  ExpectBad(Json::array(), ErrorCode::kCorrupt, "object");
}

TEST(HfConfigTest, Architectures) {
  EXPECT_EQ(Parse(With("architectures", {"MistralForCausalLM"}))->architecture,
            "llama");
  const HfConfig qwen2 =
      Parse(With("architectures", {"Qwen2ForCausalLM"})).value();
  EXPECT_EQ(qwen2.architecture, "qwen2");
  EXPECT_TRUE(qwen2.halves_rotate);
  EXPECT_TRUE(qwen2.qkv_bias);
  ExpectBad(With("architectures", {"FalconForCausalLM"}),
            ErrorCode::kUnsupported, "\"FalconForCausalLM\"");
  ExpectBad(With("architectures", Json::array()), ErrorCode::kCorrupt,
            "architectures");
  ExpectBad(With("architectures", {"A", "B"}), ErrorCode::kCorrupt,
            "architectures");
}

TEST(HfConfigTest, Activations) {
  const auto activation = [](const char* name) {
    return Parse(With("hidden_act", name))->activation;
  };
  EXPECT_EQ(activation("silu"), Activation::kSilu);
  EXPECT_EQ(activation("gelu_new"), Activation::kGelu);
  EXPECT_EQ(activation("gelu_pytorch_tanh"), Activation::kGelu);
  EXPECT_EQ(activation("relu"), Activation::kRelu);
  EXPECT_EQ(activation("drelu"), Activation::kDRelu);
  EXPECT_EQ(activation("fatrelu"), Activation::kFatRelu);
  ExpectBad(With("hidden_act", "mish"), ErrorCode::kUnsupported, "\"mish\"");
}

TEST(HfConfigTest, PlainGeluWarns) {
  const Warnings warnings;
  EXPECT_EQ(Parse(With("hidden_act", "gelu_new"))->activation,
            Activation::kGelu);
  EXPECT_EQ(warnings.text(), "");
  EXPECT_EQ(Parse(With("hidden_act", "gelu"))->activation, Activation::kGelu);
  EXPECT_NE(warnings.text().find("erf"), std::string::npos);
}

TEST(HfConfigTest, ThresholdOfFatRelu) {
  Json json = With("hidden_act", "fatrelu");
  json["hidden_act_param"] = 0.01;
  EXPECT_EQ(Parse(json)->activation_threshold, 0.01);
  json["hidden_act_param"] = -1;
  ExpectBad(json, ErrorCode::kCorrupt, "hidden_act_param");
  json.erase("hidden_act_param");
  EXPECT_EQ(Parse(json)->activation_threshold, std::nullopt);
  json["fatrelu_threshold"] = 0.5;
  EXPECT_EQ(Parse(json)->activation_threshold, 0.5);
  json["hidden_act"] = "relu";
  EXPECT_EQ(Parse(json)->activation_threshold, std::nullopt);
}

TEST(HfConfigTest, WhatIsNotDoneIsRefused) {
  ExpectBad(With("quantization_config", {{"bits", 4}}), ErrorCode::kUnsupported,
            "quantised already");
  ExpectBad(With("partial_rotary_factor", 0.5), ErrorCode::kUnsupported,
            "partial_rotary_factor");
  EXPECT_TRUE(Parse(With("partial_rotary_factor", 1.0)).has_value());
}

TEST(HfConfigTest, ASlidingWindowCutsTheContext) {
  const Warnings warnings;
  EXPECT_EQ(Parse(With("sliding_window", nullptr))->context_length, 128);
  EXPECT_EQ(Parse(With("sliding_window", 128))->context_length, 128);
  EXPECT_EQ(warnings.text(), "");
  EXPECT_EQ(Parse(With("sliding_window", 40))->context_length, 40);
  EXPECT_NE(warnings.text().find("40"), std::string::npos);
  Json qwen2 = With("architectures", {"Qwen2ForCausalLM"});
  qwen2["sliding_window"] = 40;
  EXPECT_EQ(Parse(qwen2)->context_length, 128);
  qwen2["use_sliding_window"] = false;
  EXPECT_EQ(Parse(qwen2)->context_length, 128);
  qwen2["use_sliding_window"] = true;
  EXPECT_EQ(Parse(qwen2)->context_length, 40);
}

TEST(HfConfigTest, NameIsTheLastPartOfThePath) {
  EXPECT_EQ(Parse(TestConfig())->name, "");
  EXPECT_EQ(Parse(With("_name_or_path", "someone/model-7b"))->name, "model-7b");
  EXPECT_EQ(Parse(With("_name_or_path", "/a/b/c/"))->name, "c");
  EXPECT_EQ(Parse(With("_name_or_path", "./"))->name, "");
}

TEST(HfConfigTest, GenerationConfigFillsGaps) {
  Json json = TestConfig();
  json.erase("eos_token_id");
  HfConfig config = Parse(json).value();
  ASSERT_TRUE(ReadGenerationConfig(
                  R"({"bos_token_id": 9, "eos_token_id": [7, 8]})", "g", config)
                  .has_value());
  EXPECT_EQ(config.bos_id, 1);
  EXPECT_EQ(config.eos_id, 7);
  HfConfig other = Parse(json).value();
  EXPECT_FALSE(ReadGenerationConfig("[", "g", other).has_value());
  EXPECT_FALSE(ReadGenerationConfig(R"({"eos_token_id": [-1]})", "g", other)
                   .has_value());
}

}  // namespace
}  // namespace thermocline::convert
