#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "inspect/report.h"

namespace thermocline::inspect {
namespace {

using Json = nlohmann::json;

InspectReport FullReport() {
  InspectReport report = {};
  report.path = "m.gguf";
  report.gguf_version = 3;
  report.num_shards = 1;
  report.architecture = "llama";
  report.name = "bad \x1b[31m name \xff";
  report.total = {2, 1000, 1'500'000};
  report.tensors = {{.role = TensorRole::kFfnUp,
                     .layer = 3,
                     .dtype = DType::kQ4_0,
                     .num_tensors = 2,
                     .num_bytes = 1000}};
  report.shape.width = 64;
  report.isa = "avx2";
  return report;
}

TEST(FormatInspectJsonTest, DescribesWhatRuns) {
  InspectReport report = FullReport();
  report.config = model::Config{.layers = {{}}, .ropes = {{.width = 8}}};
  report.config->layers[0].ffn = {.activation = Activation::kFatRelu,
                                  .threshold = 0.1f};
  report.tied_head = true;
  report.tokenizer_model = "llama";
  report.vocab = text::Vocab{.tokens = {"<s>", "a"}, .bos = 0, .add_bos = true};
  report.memory = engine::MemoryPlan{.host = {.kv = 4096, .scratch = 512}};
  report.memory_context = 256;
  report.executor = "dense";
  report.weight_bytes_per_token = 77;
  report.kv_bytes = KvBytes{.f16 = 64, .q8_0 = {}};

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
  EXPECT_EQ(json["layer_bytes"].dump(), R"([{"ffn":1000,"layer":3}])");
  EXPECT_EQ(json["container"], "GGUF");
  EXPECT_EQ(json["executor"], "dense");
  EXPECT_EQ(json["weight_bytes_per_token"], 77);
  EXPECT_EQ(json["kv_bytes_per_position"].dump(), R"({"f16":64,"q8_0":null})");
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
  InspectReport report = FullReport();
  report.cannot_run = "too new";
  const Json json = Json::parse(FormatInspectJson(report));
  EXPECT_EQ(json["runs"], false);
  EXPECT_EQ(json["reason"], "too new");
  for (const char* key :
       {"rope", "ffn", "tied_head", "tokenizer", "tokenizer_problem", "memory",
        "executor", "isa", "experts", "predictors", "prepared", "split_file",
        "position_rows", "weight_bytes_per_token", "kv_bytes_per_position"}) {
    ASSERT_TRUE(json.contains(key)) << key;
    EXPECT_TRUE(json[key].is_null()) << key;
  }
}

TEST(FormatInspectJsonTest, DescribesSparsityAndSplitFiles) {
  InspectReport report = FullReport();
  report.shape.num_experts = 8;
  report.sparsity = {.predictor_ranks = {16, 0}, .score_threshold = 0.5};
  report.split = SplitFile{.kind = "KAIROX model split",
                           .num_layers = 2,
                           .num_neurons = 64,
                           .num_gpu_neurons = {},
                           .vram_bytes = {},
                           .neurons_per_group = 16};
  const Json json = Json::parse(FormatInspectJson(report));
  EXPECT_EQ(json["experts"], 8);
  EXPECT_EQ(json["predictors"].dump(), R"({"bias":false,"ranks":[16,0]})");
  EXPECT_EQ(json["score_threshold"], 0.5);
  EXPECT_EQ(json["split_file"]["group_size"], 16);
  EXPECT_TRUE(json["split_file"]["gpu_neurons"].is_null());
}

TEST(FormatInspectJsonTest, OneObjectAndALineEnd) {
  const std::string text = FormatInspectJson(FullReport());
  EXPECT_EQ(text.front(), '{');
  EXPECT_EQ(text.substr(text.size() - 3), "\n}\n");
}

}  // namespace
}  // namespace thermocline::inspect
