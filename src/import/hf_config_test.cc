#include "import/hf_config.h"

#include <gtest/gtest.h>

#include "base/log.h"
#include "import/hf_test_folder.h"
#include "import/test_hf_config.h"

namespace thermocline::importer {
namespace {

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
  EXPECT_EQ(config.rope_kind, RopeKind::kNorm);
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
  EXPECT_EQ(config.tied_head, false);
  EXPECT_EQ(config.bos_id, 1);
  EXPECT_EQ(config.eos_ids, std::vector<int64_t>{2});
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
  EXPECT_TRUE(config.eos_ids.empty());
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

TEST(HfConfigTest, ArchitecturesByClass) {
  struct Case {
    const char* class_name;
    const char* gguf_name;
    RopeKind rope_kind;
    bool qkv_bias;
  };
  for (const auto& [class_name, gguf_name, rope_kind, qkv_bias] :
       {Case{"LlamaForCausalLM", "llama", RopeKind::kNorm, false},
        Case{"MistralForCausalLM", "llama", RopeKind::kNorm, false},
        Case{"Qwen2ForCausalLM", "qwen2", RopeKind::kNeox, true},
        Case{"SparseLlamaForCausalLM", "prosparse-llama", RopeKind::kNorm,
             false}}) {
    const auto config = Parse(With("architectures", {class_name}));
    ASSERT_TRUE(config.has_value()) << config.error().message;
    EXPECT_EQ(config->architecture, gguf_name);
    EXPECT_EQ(config->rope_kind, rope_kind);
    EXPECT_EQ(config->qkv_bias, qkv_bias);
    EXPECT_EQ(config->num_experts, 0);
  }
  ExpectBad(With("architectures", {"GemmaForCausalLM"}),
            ErrorCode::kUnsupported, "\"GemmaForCausalLM\"");
  ExpectBad(With("architectures", {"GemmaForCausalLM"}),
            ErrorCode::kUnsupported, "falcon");
  ExpectBad(With("architectures", Json::array()), ErrorCode::kCorrupt,
            "architectures");
  ExpectBad(With("architectures", {"A", "B"}), ErrorCode::kCorrupt,
            "architectures");
}

TEST(HfConfigTest, ArchitecturesByTypeWhereThereIsNoClass) {
  Json json = TestConfig();
  json.erase("architectures");
  ExpectBad(json, ErrorCode::kCorrupt, "model_type");
  json["model_type"] = "qwen2";
  EXPECT_EQ(Parse(json)->architecture, "qwen2");
  json["model_type"] = "gemma";
  ExpectBad(json, ErrorCode::kUnsupported, "\"gemma\"");
  // Fine-tunes keep odd types: the class counts.
  json["architectures"] = {"LlamaForCausalLM"};
  EXPECT_EQ(Parse(json)->architecture, "llama");
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
  // YaRN stretches the whole context, not the window.
  Json yarn = With("rope_scaling", {{"rope_type", "yarn"}, {"factor", 4.0}});
  yarn["sliding_window"] = 40;
  EXPECT_EQ(Parse(yarn)->context_length, 40);
  EXPECT_EQ(Parse(yarn)->rope.original_context, 128);
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
  EXPECT_EQ(config.eos_ids, (std::vector<int64_t>{7, 8}));
  HfConfig other = Parse(json).value();
  EXPECT_FALSE(ReadGenerationConfig("[", "g", other).has_value());
  EXPECT_FALSE(ReadGenerationConfig(R"({"eos_token_id": [-1]})", "g", other)
                   .has_value());
}

}  // namespace
}  // namespace thermocline::importer
