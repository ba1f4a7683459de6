#include "inspect/report.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "gguf/test_file.h"
#include "model/test_model.h"
#include "os/test_folder.h"

namespace thermocline::inspect {
namespace {

using ::testing::HasSubstr;

std::string InTestData(const std::string& name) {
  return std::string(TC_TEST_DATA) + "/" + name;
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
  EXPECT_GT(report->memory->host.kv, 0u);
  EXPECT_EQ(report->container, gguf::Container::kGguf);
  EXPECT_EQ(report->executor, "dense");
  EXPECT_GT(report->weight_bytes_per_token, 0u);
  // 5 layers, keys and values, 4 heads of 8 halves.
  ASSERT_TRUE(report->kv_bytes.has_value());
  EXPECT_EQ(report->kv_bytes->f16, 5u * 2 * 4 * 8 * 2);
  EXPECT_FALSE(report->kv_bytes->q8_0.has_value());  // heads of 8, blocks of 32
  EXPECT_TRUE(report->sparsity.predictor_ranks.empty());
  EXPECT_FALSE(report->split.has_value());
  EXPECT_EQ(report->tensors.size(),
            static_cast<size_t>(report->total.num_tensors));
  TensorUse sum;
  for (const auto& [role, use] :
       SumBy(report->tensors, [](const TensorRow& row) { return row.role; })) {
    sum.num_tensors += use.num_tensors;
    sum.num_bytes += use.num_bytes;
    sum.num_params += use.num_params;
  }
  EXPECT_EQ(sum.num_tensors, report->total.num_tensors);
  EXPECT_EQ(sum.num_bytes, report->total.num_bytes);
  EXPECT_EQ(sum.num_params, report->total.num_params);
}

TEST(InspectModelTest, DescribesAVocabularyAndSaysThatItDoesNotRun) {
  const auto report =
      InspectModel(InTestData("tokenizers/ggml-vocab-gpt-2.gguf"));
  ASSERT_TRUE(report.has_value()) << report.error().message;
  EXPECT_EQ(report->total.num_tensors, 0);
  EXPECT_THAT(report->cannot_run, HasSubstr("no tensors"));
  ASSERT_TRUE(report->vocab.has_value());
  EXPECT_EQ(report->vocab->tokens.size(), 50257u);
  EXPECT_FALSE(report->memory.has_value());
}

// Writes the file and inspects it.
Result<InspectReport> InspectBytes(gguf::TestFile& file) {
  const os::TestFolder folder;
  const std::string path = folder / "inspected.gguf";
  std::ofstream(path, std::ios::binary) << file.Bytes();
  auto report = InspectModel(path);
  return report;
}

TEST(InspectModelTest, LayersThatDiffer) {
  gguf::TestFile file = model::TestUnlikeModel();
  const auto report = InspectBytes(file);
  ASSERT_TRUE(report.has_value()) << report.error().message;
  EXPECT_EQ(report->cannot_run, "");
  const ModelShape& shape = report->shape;
  EXPECT_EQ(shape.num_heads, 4);
  EXPECT_EQ(shape.ffn_width, std::nullopt);
  EXPECT_EQ(shape.ffn_widths, (std::vector<int64_t>{64, 96}));
  EXPECT_EQ(DescribeNumber(shape.num_kv_heads, shape.kv_heads_of_layers),
            "1 to 2, by layer");
  // Keys and values of 2 and 1 heads of 8 halves.
  EXPECT_EQ(report->kv_bytes->f16, 2u * (2 + 1) * 8 * 2);
  const std::string json = FormatInspectJson(*report);
  for (const char* part :
       {"\"ffn_width\": [\n    64,\n    96\n  ]", "\"heads\": 4,",
        "\"kv_heads\": [\n    2,\n    1\n  ]"}) {
    EXPECT_THAT(json, HasSubstr(part));
  }
  EXPECT_THAT(FormatInspect(*report), HasSubstr("64 to 96, by layer"));
}

TEST(InspectModelTest, SumsUpExpertsThatAreTensorsOfTheirOwn) {
  gguf::TestFile file;
  file.SetText("general.architecture", "nosuch")
      .SetU32("nosuch.block_count", 2)
      .SetU32("nosuch.embedding_length", 64)
      .SetU32("nosuch.attention.head_count", 2)
      .SetU32("nosuch.expert_count", 3)
      .SetU32("nosuch.expert_used_count", 2);
  for (int layer = 0; layer < 2; ++layer) {
    for (int expert = 0; expert < 3; ++expert) {
      // The last expert of layer 1 is of another type: a row of its own.
      file.SetTensor(fmt::format("blk.{}.ffn_up.{}.weight", layer, expert),
                     layer == 1 && expert == 2 ? DType::kF32 : DType::kF16,
                     {64, 8});
    }
  }
  const auto report = InspectBytes(file);
  ASSERT_TRUE(report.has_value()) << report.error().message;
  EXPECT_EQ(report->shape.num_experts, 3);
  EXPECT_EQ(report->shape.num_experts_used, 2);
  EXPECT_EQ(report->total.num_tensors, 6);
  ASSERT_EQ(report->tensors.size(), 3u);
  EXPECT_EQ(report->tensors[0].name, "blk.0.ffn_up.*.weight");
  EXPECT_EQ(report->tensors[0].num_tensors, 3);
  EXPECT_EQ(report->tensors[0].num_bytes, 3u * 64 * 8 * 2);
  EXPECT_EQ(report->tensors[1].num_tensors, 2);
  EXPECT_EQ(report->tensors[2].dtype, DType::kF32);
  EXPECT_THAT(report->cannot_run, HasSubstr("nosuch"));
  // By the metadata alone: 2 layers, keys and values, 2 heads of 32.
  ASSERT_TRUE(report->kv_bytes.has_value());
  EXPECT_EQ(report->kv_bytes->f16, 2u * 2 * 64 * 2);
  EXPECT_EQ(report->kv_bytes->q8_0, 2u * 2 * 68);
}

TEST(InspectModelTest, NumbersThatLieAreNotMultiplied) {
  for (const uint32_t bad : {0u, 0xFFFFFFFFu, 0x80000000u}) {
    for (const char* key :
         {"block_count", "attention.head_count", "embedding_length",
          "attention.head_count_kv", "attention.key_length"}) {
      gguf::TestFile file;
      file.SetText("general.architecture", "x")
          .SetU32("x.block_count", 2)
          .SetU32("x.embedding_length", 64)
          .SetU32("x.attention.head_count", 2)
          .SetU32(std::string("x.") + key, bad)
          .SetTensor("blk.0.attn_q.weight", DType::kF16, {64, 64});
      const auto report = InspectBytes(file);
      ASSERT_TRUE(report.has_value()) << report.error().message;
      EXPECT_FALSE(report->kv_bytes.has_value()) << key << " " << bad;
    }
  }
}

TEST(InspectModelTest, ReadsWhatPredictorsThereAre) {
  gguf::TestFile file;
  file.SetText("general.architecture", "x")
      .SetF32("powerinfer.sparse_threshold", 0.25f)
      .SetTensor("blk.0.fc1.weight", DType::kF16, {64, 16})
      .SetTensor("blk.0.fc2.weight", DType::kF16, {16, 128})
      .SetTensor("blk.2.ffn_pred_up.weight", DType::kF16, {64, 24})
      .SetTensor("blk.2.ffn_pred_up.bias", DType::kF32, {24});
  const auto report = InspectBytes(file);
  ASSERT_TRUE(report.has_value()) << report.error().message;
  EXPECT_EQ(report->sparsity.predictor_ranks,
            (std::vector<int64_t>{16, 0, 24}));
  EXPECT_TRUE(report->sparsity.predictor_bias);
  EXPECT_EQ(report->sparsity.score_threshold, 0.25);
  EXPECT_EQ(DescribeRanks(report->sparsity), "16 to 24");
}

TEST(InspectModelTest, SaysWhatASplitFileIs) {
  gguf::TestFile index;
  index.magic = "PWRI";
  index.SetText("general.architecture", "generic.gpu_index")
      .Set("split.vram_capacity", gguf::ValueType::kU64,
           gguf::Raw(uint64_t{1} << 30))
      .SetTensor(
          "blk.0.gpu_idx", DType::kI32, {3},
          gguf::Raw(int32_t{1}) + gguf::Raw(int32_t{0}) + gguf::Raw(int32_t{1}))
      .SetTensor("blk.0.gpu_bucket", DType::kI32, {2})
      .SetTensor("blk.1.gpu_idx", DType::kI32, {3})
      .SetTensor("blk.1.gpu_bucket", DType::kI32, {1});
  const auto gpu_index = InspectBytes(index);
  ASSERT_TRUE(gpu_index.has_value()) << gpu_index.error().message;
  EXPECT_EQ(gpu_index->container, gguf::Container::kPowerInfer);
  ASSERT_TRUE(gpu_index->split.has_value());
  EXPECT_EQ(gpu_index->split->kind, "PowerInfer GPU index");
  EXPECT_EQ(gpu_index->split->num_layers, 2);
  EXPECT_EQ(gpu_index->split->num_neurons, 6);
  EXPECT_EQ(gpu_index->split->num_gpu_neurons, 2);
  EXPECT_EQ(gpu_index->split->vram_bytes, int64_t{1} << 30);
  EXPECT_THAT(gpu_index->cannot_run, HasSubstr("beside a model"));

  gguf::TestFile order;
  order.SetText("general.architecture", "bamboo")
      .SetU32("ffn_group_size", 16)
      .SetTensor("blk.0.ffn_reorder_perms", DType::kI32, {64});
  const auto model_split = InspectBytes(order);
  ASSERT_TRUE(model_split.has_value()) << model_split.error().message;
  ASSERT_TRUE(model_split->split.has_value());
  EXPECT_EQ(model_split->split->kind, "KAIROX model split");
  EXPECT_EQ(model_split->split->neurons_per_group, 16);
  EXPECT_FALSE(model_split->split->num_gpu_neurons.has_value());

  order.SetTensor("blk.0.ffn_up.weight", DType::kF16, {64, 64});
  const auto model = InspectBytes(order);
  ASSERT_TRUE(model.has_value()) << model.error().message;
  EXPECT_FALSE(model->split.has_value());
}

TEST(InspectModelTest, ListsMetadataShortened) {
  gguf::TestFile file;
  file.SetText("general.name", std::string(500, 'x'))
      .SetNumbers<uint32_t>("many", gguf::ValueType::kU32,
                            {1, 2, 3, 4, 5, 6, 7, 8})
      .SetTexts("texts", {"a", "b\x1b"})
      .SetBool("flag", true);
  const auto report = InspectBytes(file);
  ASSERT_TRUE(report.has_value()) << report.error().message;
  ASSERT_EQ(report->metadata.size(), 4u);
  EXPECT_EQ(report->metadata[0].value, std::string(80, 'x') + "...");
  EXPECT_EQ(report->metadata[1].type, "array of u32");
  EXPECT_EQ(report->metadata[1].value, "1, 2, 3, 4, 5, 6, ... (8 values)");
  EXPECT_EQ(report->metadata[2].value, "a, b\\x1b");
  EXPECT_EQ(report->metadata[3].value, "true");
}

TEST(InspectModelTest, FailsOnlyOnWhatIsNoModelFile) {
  const auto report = InspectModel(InTestData("demo/valid.txt"));
  ASSERT_FALSE(report.has_value());
  EXPECT_THAT(report.error().message, HasSubstr("valid.txt"));
}

}  // namespace
}  // namespace thermocline::inspect
