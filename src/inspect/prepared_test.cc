#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>

#include <nlohmann/json.hpp>

#include "gguf/test_file.h"
#include "inspect/report.h"
#include "model/prepared_names.h"
#include "model/test_prepared.h"
#include "os/test_folder.h"

namespace thermocline::inspect {
namespace {

namespace prepared = model::prepared;
using ::testing::HasSubstr;
using ::testing::Not;

InspectReport Inspect(gguf::TestFile file) {
  const os::TestFolder folder;
  const std::string path = folder / "prepared.gguf";
  std::ofstream(path, std::ios::binary) << file.Bytes();
  auto report = InspectModel(path);
  EXPECT_TRUE(report.has_value()) << report.error().message;
  return *std::move(report);
}

gguf::TestFile PreparedFile() {
  gguf::TestFile file = model::TestPreparedModel();
  model::AddTestParts(file);
  file.SetF32("thermocline.profile.density", 0.125f);
  return file;
}

TEST(InspectPreparedTest, ReadsWhatPrepareWrote) {
  const InspectReport report = Inspect(PreparedFile());
  ASSERT_TRUE(report.prepared.has_value());
  const PreparedFacts& prepared = *report.prepared;
  EXPECT_EQ(prepared.version, 1);
  EXPECT_TRUE(prepared.has_model);
  EXPECT_EQ(prepared.records.size(), 2u);
  EXPECT_EQ(prepared.lookahead, 1);
  EXPECT_EQ(prepared.num_training_free_layers, 1);
  EXPECT_EQ(prepared.num_free_margins, 1);
  EXPECT_EQ(prepared.thresholds.size(), 2u);
  EXPECT_EQ(prepared.profile_tokens, 1000);
  EXPECT_EQ(prepared.density, 0.125);
  EXPECT_FALSE(prepared.skew.has_value());
  EXPECT_EQ(prepared.num_test_samples, 3);
  EXPECT_EQ(prepared.order_group_size, 4);
  EXPECT_EQ(report.cannot_run, "");
  EXPECT_EQ(report.sparsity.predictor_ranks, (std::vector<int64_t>{0, 32}));
}

// The same weights, so nearly the same sums: padding and findings are bytes.
TEST(InspectPreparedTest, CountsWeightsNotBytesOfRecords) {
  const InspectReport plain = Inspect(model::TestModel());
  const InspectReport bundled = Inspect(model::TestPreparedModel());
  EXPECT_EQ(bundled.total.num_params, plain.total.num_params);
  const auto types = SumBy(std::span<const TensorRow>(bundled.tensors),
                           [](const TensorRow& row) { return row.dtype; });
  EXPECT_FALSE(types.contains(DType::kI8));
  const InspectReport whole = Inspect(PreparedFile());
  // Predictors are weights; signs, sets, counts and places are not.
  EXPECT_EQ(whole.total.num_params - plain.total.num_params,
            32u * 32 + 32 + 32 * 64 + 64 + 32 * 8 + 8 * 64 + 64);
}

TEST(InspectPreparedTest, TextPageAndObject) {
  const InspectReport report = Inspect(PreparedFile());
  const std::string text = FormatInspect(report);
  EXPECT_THAT(text, HasSubstr("prepared        format 1\n"));
  EXPECT_THAT(text, HasSubstr("Q4_0 gate, Q4_0 up, Q4_0 down, 64 bytes a "
                              "neuron\n"));
  EXPECT_THAT(text, HasSubstr("predictors read that of the layer before\n"));
  EXPECT_THAT(text, HasSubstr("signs of 1 layer, margins of 1\n"));
  EXPECT_THAT(text, HasSubstr("thresholds    0.25 to 0.5\n"));
  EXPECT_THAT(text, HasSubstr("1000 tokens, density 12.5 %\n"));
  EXPECT_THAT(text, HasSubstr("order         groups of 4\n"));
  EXPECT_THAT(text, HasSubstr("self-test     3 tokens\n"));
  const std::string html = FormatInspectHtml(report);
  EXPECT_THAT(html, HasSubstr("Q4_0 gate, Q4_0 up, Q4_0 down"));
  EXPECT_THAT(html, HasSubstr("ffn records"));
  const auto json = nlohmann::json::parse(FormatInspectJson(report));
  EXPECT_EQ(json["prepared"]["records"][1].dump(),
            R"({"down":"Q4_0","gate":"Q4_0","stride":64,"up":"Q4_0"})");
  EXPECT_EQ(json["prepared"]["thresholds"].dump(), "[0.25,0.5]");
  EXPECT_EQ(json["prepared"]["profile_tokens"], 1000);
}

TEST(InspectPreparedTest, NeuronsThatLieInTheirOrder) {
  gguf::TestFile file = PreparedFile();
  std::string numbers;
  for (int32_t i = 63; i >= 0; --i) numbers += gguf::Raw(i);
  for (const std::string blk : {"blk.0.", "blk.1."}) {
    file.SetTensor(blk + prepared::kSourceNeurons, DType::kI32, {64}, numbers);
  }
  for (const bool in_order : {true, false}) {
    const InspectReport report = Inspect(in_order ? file : PreparedFile());
    const auto json = nlohmann::json::parse(FormatInspectJson(report));
    EXPECT_EQ(json["prepared"]["in_order"], in_order);
    EXPECT_EQ(FormatInspect(report).find("and neurons lie in it") !=
                  std::string::npos,
              in_order);
  }
}

TEST(InspectPreparedTest, PlainFilesSayNothing) {
  const InspectReport report = Inspect(model::TestModel());
  EXPECT_FALSE(report.prepared.has_value());
  EXPECT_THAT(FormatInspect(report), Not(HasSubstr("\nprepared ")));
}

TEST(InspectPreparedTest, PartsWithoutAModel) {
  gguf::TestFile file;
  file.SetText("general.type", prepared::kPartsType)
      .SetText("general.architecture", "llama");
  model::AddTestParts(file);
  const InspectReport report = Inspect(std::move(file));
  ASSERT_TRUE(report.prepared.has_value());
  EXPECT_FALSE(report.prepared->has_model);
  EXPECT_THAT(report.cannot_run, HasSubstr("predictors without their model"));
  EXPECT_THAT(FormatInspect(report), HasSubstr("self-test     3 tokens"));
}

TEST(InspectPreparedTest, NewerFilesSayWhyTheyDoNotRun) {
  const InspectReport report =
      Inspect(PreparedFile().SetU32(prepared::kVersionKey, 2));
  EXPECT_THAT(report.cannot_run, HasSubstr("newer version"));
  EXPECT_EQ(report.prepared->version, 2);
}

TEST(DescribeRecordsTest, LayersThatDifferStandApart) {
  const auto layout = [](DType down) {
    return neuron::MakeRecordLayout(std::nullopt, DType::kQ4_K, down, 256)
        .value();
  };
  EXPECT_EQ(DescribeRecords({}), "");
  const std::vector<neuron::RecordLayout> records = {
      layout(DType::kQ6_K), layout(DType::kQ4_K), layout(DType::kQ4_K)};
  EXPECT_EQ(DescribeRecords(records),
            "0: Q4_K up, Q6_K down, 384 bytes a neuron; "
            "1-2: Q4_K up, Q4_K down, 320 bytes a neuron");
}

}  // namespace
}  // namespace thermocline::inspect
