#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/inspect_report.h"

namespace thermocline::cli {
namespace {

using Json = nlohmann::json;

InspectReport Sample() {
  InspectReport report = {};
  report.path = "m.gguf";
  report.gguf_version = 3;
  report.num_shards = 1;
  report.architecture = "llama";
  report.name = "bad \x1b[31m name \xff";
  report.num_params = 1'500'000;
  report.quantisation[TensorClass::kFfn][DType::kQ4_0] = {2, 1000};
  report.shape.width = 64;
  report.isa = "avx2";
  return report;
}

TEST(FormatInspectJsonTest, DescribesWhatRuns) {
  InspectReport report = Sample();
  report.config = model::Config{};
  report.config->ffn = {.activation = Activation::kFatRelu, .threshold = 0.1f};
  report.config->rope.width = 8;
  report.tied_head = true;
  report.tokenizer_model = "llama";
  report.vocab = text::Vocab{.tokens = {"<s>", "a"}, .bos = 0, .add_bos = true};
  report.memory = engine::MemoryNeed{.kv_bytes = 4096, .scratch_bytes = 512};
  report.memory_context = 256;

  const Json json = Json::parse(FormatInspectJson(report));
  EXPECT_EQ(json["name"], "bad \x1b[31m name \xef\xbf\xbd");
  EXPECT_EQ(json["parameters"], 1'500'000);
  EXPECT_EQ(json["width"], 64);
  EXPECT_TRUE(json["layers"].is_null());
  EXPECT_EQ(json["rope"]["width"], 8);
  EXPECT_EQ(json["rope"]["kind"], "norm");
  EXPECT_EQ(json["ffn"]["activation"], "fatrelu");
  EXPECT_EQ(json["ffn"]["threshold"].dump(), "0.1");
  EXPECT_EQ(json["quantisation"]["ffn"][0]["type"], "Q4_0");
  EXPECT_EQ(json["quantisation"]["ffn"][0]["bytes"], 1000);
  EXPECT_TRUE(json["quantisation"]["head"].empty());
  EXPECT_EQ(json["tied_head"], true);
  EXPECT_EQ(json["tokenizer"]["tokens"], 2);
  EXPECT_EQ(json["tokenizer"]["bos"], 0);
  EXPECT_TRUE(json["tokenizer"]["eos"].is_null());
  EXPECT_EQ(json["memory"]["kv_bytes"], 4096);
  EXPECT_EQ(json["runs"], true);
  EXPECT_EQ(json["isa"], "avx2");
  EXPECT_TRUE(json["reason"].is_null());
}

TEST(FormatInspectJsonTest, SaysWhyNotWithTheSameKeys) {
  InspectReport report = Sample();
  report.cannot_run = "too new";
  const Json json = Json::parse(FormatInspectJson(report));
  EXPECT_EQ(json["runs"], false);
  EXPECT_EQ(json["reason"], "too new");
  for (const char* key : {"rope", "ffn", "tied_head", "tokenizer",
                          "tokenizer_problem", "memory", "executor", "isa"}) {
    ASSERT_TRUE(json.contains(key)) << key;
    EXPECT_TRUE(json[key].is_null()) << key;
  }
}

TEST(FormatInspectJsonTest, OneObjectAndALineEnd) {
  const std::string text = FormatInspectJson(Sample());
  EXPECT_EQ(text.front(), '{');
  EXPECT_EQ(text.substr(text.size() - 3), "\n}\n");
}

}  // namespace
}  // namespace thermocline::cli
