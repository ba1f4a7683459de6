#include "model/prepared_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "model/prepared_names.h"
#include "model/test_prepared.h"

namespace thermocline::model {
namespace {

using gguf::ParsedCopy;
using gguf::TestFile;
using gguf::ValueType;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<Config> TryReadConfig(TestFile file,
                             const ConfigOverrides& overrides = {}) {
  const ParsedCopy parsed(file.Bytes());
  return ReadConfig(**parsed.file, overrides);
}

void ExpectError(TestFile file, ErrorCode code, const std::string& part) {
  const auto config = TryReadConfig(std::move(file));
  ASSERT_FALSE(config.has_value()) << part;
  EXPECT_EQ(config.error().code, code) << config.error().message;
  EXPECT_THAT(config.error().message,
              AllOf(HasSubstr("test.gguf"), HasSubstr(part)));
}

TEST(ReadPreparedTest, PlainFilesAreNotPrepared) {
  const auto config = TryReadConfig(TestModel());
  ASSERT_TRUE(config.has_value());
  EXPECT_EQ(config->prepared_version, 0);
  EXPECT_TRUE(config->records.empty());
  EXPECT_FALSE(config->has_training_free);
  EXPECT_TRUE(config->thresholds.empty());
}

TEST(ReadPreparedTest, GatesMayBeAMatrix) {
  const auto config =
      TryReadConfig(BundleTestModel(TestModel(), true, 1, false));
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_EQ(config->records[1].gate, std::nullopt);
  EXPECT_EQ(config->records[1].up, DType::kQ4_0);
  EXPECT_EQ(config->records[1].stride, 64u);
}

TEST(ReadPreparedTest, EverythingIsRead) {
  const auto config = TryReadConfig(TestModelWithParts());
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_EQ(config->prepared_version, 1);
  ASSERT_EQ(config->records.size(), 2u);
  const neuron::RecordLayout& layout = config->records[1];
  EXPECT_EQ(layout.gate, DType::kQ4_0);
  EXPECT_EQ(layout.up, DType::kQ4_0);
  EXPECT_EQ(layout.down, DType::kQ4_0);
  EXPECT_EQ(layout.width, 32u);
  EXPECT_EQ(layout.stride, 64u);
  EXPECT_EQ(config->predictor.kind, PredictorKind::kThermocline);
  EXPECT_EQ(config->predictor.lookahead, 1);
  EXPECT_EQ(config->predictor.threshold, 0.0f);
  EXPECT_TRUE(config->has_training_free);  // though layer 0 has none
  EXPECT_THAT(config->thresholds, ElementsAre(0.25f, 0.5f));
}

TEST(ReadPreparedTest, TwoMatricesHaveTwoTypes) {
  const auto config = TryReadConfig(TestPreparedModel("opt"));
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_FALSE(config->records[0].gate.has_value());
  EXPECT_EQ(config->records[0].used_bytes(), 36u);
}

TEST(ReadPreparedTest, OurPredictorsTakeThePlaceOfOthers) {
  TestFile file = TestPowerInferModel();
  AddTestParts(file);
  const auto config = TryReadConfig(
      std::move(file.SetF32("powerinfer.sparse_threshold", 0.5f)));
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_EQ(config->predictor.kind, PredictorKind::kThermocline);
  EXPECT_EQ(config->predictor.threshold, 0.0f);
  EXPECT_EQ(CommonFfn(*config).activation, Activation::kRelu);
}

TEST(ReadPreparedTest, AUsersThresholdHoldsForOurPredictorsToo) {
  const auto config =
      TryReadConfig(TestModelWithParts(), {.predictor_threshold = -0.5f});
  ASSERT_TRUE(config.has_value());
  EXPECT_EQ(config->predictor.threshold, -0.5f);
}

TEST(ReadPreparedTest, NewerVersionsAreRefusedByName) {
  ExpectError(TestPreparedModel().SetU32(prepared::kVersionKey, 2),
              ErrorCode::kUnsupported, "newer version");
  ExpectError(TestPreparedModel().SetU32(prepared::kVersionKey, 0),
              ErrorCode::kCorrupt, prepared::kVersionKey);
  ExpectError(TestPreparedModel().SetText(prepared::kVersionKey, "1"),
              ErrorCode::kCorrupt, prepared::kVersionKey);
}

TEST(ReadPreparedTest, AVersionIsNeeded) {
  ExpectError(TestPreparedModel().Remove(prepared::kVersionKey),
              ErrorCode::kCorrupt, prepared::kVersionKey);
  TestFile thresholds = TestModel();
  thresholds.SetNumbers<float>(prepared::kThresholds, ValueType::kF32, {0, 0});
  ExpectError(thresholds, ErrorCode::kCorrupt, prepared::kVersionKey);
}

TEST(ReadPreparedTest, RecordTypesThatCannotBe) {
  const auto with_types = [](const std::vector<std::string>& types) {
    return TestPreparedModel().SetTexts(prepared::kRecordTypes, types);
  };
  ExpectError(TestPreparedModel().Remove(prepared::kRecordTypes),
              ErrorCode::kCorrupt, prepared::kRecordTypes);
  ExpectError(with_types({"Q4_0", "Q4_0", "Q4_0"}), ErrorCode::kCorrupt,
              "an array of 6");
  ExpectError(with_types({"Q4_0", "Q4_0", "Q4_0", "Q4_0", "Q4_0", "Q4_9"}),
              ErrorCode::kCorrupt, "unknown type \"Q4_9\"");
  ExpectError(with_types({"Q4_0", "Q4_0", "Q4_0", "Q4_0", "Q4_0", "I8"}),
              ErrorCode::kCorrupt, "down rows are I8");
  ExpectError(with_types({"Q4_0", "Q4_0", "Q4_0", "Q4_K", "Q4_0", "Q4_0"}),
              ErrorCode::kCorrupt, "blocks of 256");
  // Larger than the stride that is there.
  ExpectError(with_types({"Q4_0", "Q4_0", "Q4_0", "F32", "Q4_0", "Q4_0"}),
              ErrorCode::kCorrupt, prepared::kRecordStride);
  ExpectError(TestPreparedModel().SetNumbers<int32_t>(
                  prepared::kRecordTypes, ValueType::kI32, {0, 0, 0, 0, 0, 0}),
              ErrorCode::kCorrupt, prepared::kRecordTypes);
}

TEST(ReadPreparedTest, StridesThatCannotBe) {
  for (const uint64_t stride : {uint64_t{0}, uint64_t{1}, uint64_t{63},
                                uint64_t{65}, uint64_t{INT64_MAX}}) {
    TestFile file = TestPreparedModel();
    file.SetNumbers<uint64_t>(prepared::kRecordStride, ValueType::kU64,
                              {64, stride});
    ExpectError(file, ErrorCode::kCorrupt, prepared::kRecordStride);
  }
  TestFile one = TestPreparedModel();
  one.SetNumbers<uint64_t>(prepared::kRecordStride, ValueType::kU64, {64});
  ExpectError(one, ErrorCode::kCorrupt, "an array of 2");
}

TEST(ReadPreparedTest, LookaheadIsNeededAndSmall) {
  ExpectError(TestModelWithParts().Remove(prepared::kLookahead),
              ErrorCode::kCorrupt, prepared::kLookahead);
  ExpectError(TestModelWithParts().SetU32(prepared::kLookahead, 2),
              ErrorCode::kCorrupt, prepared::kLookahead);
}

// Which experts a layer uses is not known before it.
TEST(ReadPreparedTest, MixturesDoNotLookAhead) {
  TestFile file = TestPreparedExpertModel();
  file.SetTensor("blk.0.tc_pred_up.weight", DType::kF16, {32, 8})
      .SetTensor("blk.0.tc_pred_down.weight", DType::kF16, {8, 256})
      .SetU32(prepared::kLookahead, 1);
  ExpectError(file, ErrorCode::kCorrupt, "which experts");
}

TEST(ReadPreparedTest, ThresholdsAreFiniteAndPositive) {
  for (const float bad : {-1.0f, std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()}) {
    TestFile file = TestModelWithParts();
    file.SetNumbers<float>(prepared::kThresholds, ValueType::kF32, {0.5f, bad});
    ExpectError(file, ErrorCode::kCorrupt, prepared::kThresholds);
  }
  TestFile three = TestModelWithParts();
  three.SetNumbers<float>(prepared::kThresholds, ValueType::kF32, {1, 2, 3});
  ExpectError(three, ErrorCode::kCorrupt, "an array of 2");
}

}  // namespace
}  // namespace thermocline::model
