#include "cli/inspect_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/test_main.h"

namespace thermocline::cli {
namespace {

std::string InTestData(const std::string& name) {
  return std::string(TC_SOURCE_DIR) + "/testdata/" + name;
}

using ::testing::HasSubstr;

TEST(ClassOfTest, FollowsTheNames) {
  EXPECT_EQ(ClassOf("token_embd.weight"), TensorClass::kEmbedding);
  EXPECT_EQ(ClassOf("blk.0.attn_q.weight"), TensorClass::kAttention);
  EXPECT_EQ(ClassOf("blk.11.attn_output.bias"), TensorClass::kAttention);
  EXPECT_EQ(ClassOf("blk.0.ffn_down.weight"), TensorClass::kFfn);
  EXPECT_EQ(ClassOf("blk.0.attn_norm.weight"), TensorClass::kNorm);
  EXPECT_EQ(ClassOf("blk.0.ffn_norm.weight"), TensorClass::kNorm);
  EXPECT_EQ(ClassOf("output_norm.weight"), TensorClass::kNorm);
  EXPECT_EQ(ClassOf("output.weight"), TensorClass::kHead);
  EXPECT_EQ(ClassOf("rope_freqs.weight"), TensorClass::kOther);
  EXPECT_EQ(ClassOf(""), TensorClass::kOther);
}

TEST(InspectModelTest, DescribesAModelThatRuns) {
  const auto report = InspectModel(InTestData("models/stories260K.gguf"));
  ASSERT_TRUE(report.has_value()) << report.error().message;
  EXPECT_EQ(report->architecture, "llama");
  EXPECT_EQ(report->shape.width, 64);
  EXPECT_EQ(report->shape.num_layers, 5);
  EXPECT_EQ(report->shape.num_heads, 8);
  EXPECT_EQ(report->shape.num_kv_heads, 4);
  EXPECT_EQ(report->cannot_run, "");
  ASSERT_TRUE(report->vocab.has_value());
  EXPECT_EQ(report->vocab->tokens.size(), 512u);
  ASSERT_TRUE(report->memory.has_value());
  EXPECT_GT(report->memory->kv_bytes, 0u);
  int64_t num_tensors = 0;
  uint64_t num_bytes = 0;
  for (const auto& [tensor_class, types] : report->quantisation) {
    for (const auto& [dtype, use] : types) {
      num_tensors += use.num_tensors;
      num_bytes += use.num_bytes;
    }
  }
  EXPECT_EQ(num_tensors, static_cast<int64_t>(report->num_tensors));
  EXPECT_EQ(num_bytes, report->num_weight_bytes);
}

TEST(InspectModelTest, DescribesAVocabularyAndSaysThatItDoesNotRun) {
  const auto report =
      InspectModel(InTestData("tokenizers/ggml-vocab-gpt-2.gguf"));
  ASSERT_TRUE(report.has_value()) << report.error().message;
  EXPECT_EQ(report->num_tensors, 0u);
  EXPECT_THAT(report->cannot_run, HasSubstr("no tensors"));
  ASSERT_TRUE(report->vocab.has_value());
  EXPECT_EQ(report->vocab->tokens.size(), 50257u);
  EXPECT_FALSE(report->memory.has_value());
}

TEST(InspectModelTest, FailsOnlyOnWhatIsNoModelFile) {
  const auto report = InspectModel(InTestData("demo/valid.txt"));
  ASSERT_FALSE(report.has_value());
  EXPECT_THAT(report.error().message, HasSubstr("valid.txt"));
}

}  // namespace
}  // namespace thermocline::cli
