#include "npu/export_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "npu/test_npu_model.h"

namespace thermocline::npu {
namespace {

using ::testing::HasSubstr;

ExportedModel SomeExport() {
  return {.model_path = "/models/a \"b\".gguf",
          .model = {.architecture = "llama",
                    .name = "x",
                    .num_layers = 2,
                    .width = 64,
                    .ffn_width = 96,
                    .hash = 0x0123456789abcdef},
          .weights = WeightForm::kI4Channel,
          .kv = KvForm::kStateful,
          .rows = {1, 8},
          .contexts = {64, 512},
          .layers_per_graph = 2};
}

TEST(ExportTextTest, WhatIsWrittenIsRead) {
  const ExportedModel written = SomeExport();
  const auto read = ParseExport(FormatExport(written), "v.json");
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(read->model_path, written.model_path);
  EXPECT_EQ(read->model, written.model);
  EXPECT_EQ(read->weights, written.weights);
  EXPECT_EQ(read->kv, written.kv);
  EXPECT_EQ(read->rows, written.rows);
  EXPECT_EQ(read->contexts, written.contexts);
  EXPECT_EQ(read->layers_per_graph, written.layers_per_graph);
}

TEST(ExportTextTest, TextsThatAreNoneNameTheKey) {
  const std::string good = FormatExport(SomeExport());
  const std::pair<const char*, std::pair<const char*, const char*>> cases[] = {
      {"\"format\"", {"thermocline-npu", "other"}},
      {"\"version\"", {"\"version\": 1", "\"version\": 2"}},
      {"\"hash\"", {"0123456789abcdef", "0123"}},
      {"\"hash\"", {"0123456789abcdef", "0123456789ABCDEF"}},
      {"\"weights\"", {"i4-cw", "i3"}},
      {"\"kv\"", {"stateful", "none"}},
      {"\"kv\"", {"stateful", "roll"}},
      {"\"layers\"", {"\"layers\": 2", "\"layers\": -2"}},
      {"\"width\"", {"\"width\": 64", "\"width\": 6.5"}},
      {"\"model_path\"", {"\"model_path\"", "\"path\""}},
      {"\"rows\"", {"\"rows\": [", "\"rows\": [[],"}},
      {"contexts", {"512", "500"}},
  };
  for (const auto& [key, change] : cases) {
    std::string text = good;
    const size_t at = text.find(change.first);
    ASSERT_NE(at, std::string::npos) << change.first;
    text.replace(at, std::string(change.first).size(), change.second);
    const auto read = ParseExport(text, "v.json");
    ASSERT_FALSE(read.has_value()) << text;
    EXPECT_EQ(read.error().code, ErrorCode::kCorrupt);
    EXPECT_THAT(read.error().message, HasSubstr(key));
  }
  for (size_t length = 0; length + 1 < good.size(); ++length) {
    EXPECT_FALSE(ParseExport(good.substr(0, length), "v.json")) << length;
  }
}

TEST(ExportTextTest, FactsHaveHuggingFacesNames) {
  const auto model = MakeNpuModel({});
  const std::string facts = FormatModelFacts(model->config());
  for (const char* fact :
       {"\"model_type\": \"llama\"", "\"hidden_size\": 64",
        "\"num_key_value_heads\": 2", "\"rope_theta\": 10000"}) {
    EXPECT_THAT(facts, HasSubstr(fact));
  }
}

}  // namespace
}  // namespace thermocline::npu
