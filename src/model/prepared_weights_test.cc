#include "model/prepared_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "model/prepared_names.h"
#include "model/test_log.h"
#include "model/test_prepared.h"
#include "model/weights.h"

namespace thermocline::model {
namespace {

using gguf::CountField;
using gguf::ParsedCopy;
using gguf::TestFile;
using gguf::ValueType;
using ::testing::AllOf;
using ::testing::HasSubstr;

struct BoundPrepared {
  explicit BoundPrepared(TestFile file)
      : parsed(file.Bytes()),
        config(ReadConfig(**parsed.file).value()),
        weights(BindWeights(**parsed.file, config)) {}
  const LayerWeights& layer(size_t i) const { return weights->layers[i]; }
  ParsedCopy parsed;
  Config config;
  Result<Weights> weights;
};

void ExpectError(TestFile file, const std::string& part,
                 ErrorCode code = ErrorCode::kCorrupt) {
  const BoundPrepared bound(std::move(file));
  ASSERT_FALSE(bound.weights) << part;
  EXPECT_EQ(bound.weights.error().code, code) << bound.weights.error().message;
  EXPECT_THAT(bound.weights.error().message,
              AllOf(HasSubstr("test.gguf"), HasSubstr(part)));
}

TEST(BindRecordsTest, PartsAreViewsWithAStride) {
  const BoundPrepared bound(TestPreparedModel());
  ASSERT_TRUE(bound.weights) << bound.weights.error().message;
  const FfnWeights& ffn = bound.layer(1).ffn;
  const std::byte* records =
      (*bound.parsed.file)->FindTensor("blk.1.ffn_records.weight")->data;
  EXPECT_TRUE(ffn.bundled);
  EXPECT_FALSE(ffn.down);
  EXPECT_EQ(ffn.gate.data, records);
  EXPECT_EQ(ffn.up.row(63), records + 63 * 64 + 18);
  EXPECT_EQ(ffn.down_t.row(63), records + 63 * 64 + 36);
  EXPECT_EQ(ffn.down_t.shape.num_rows(), 64u);
  EXPECT_EQ(ffn.down_t.shape.ne[0], 32u);
}

TEST(BindRecordsTest, WithoutAGate) {
  const BoundPrepared bound(TestPreparedModel("opt"));
  ASSERT_TRUE(bound.weights) << bound.weights.error().message;
  EXPECT_FALSE(bound.layer(0).ffn.gate);
  EXPECT_TRUE(bound.layer(0).ffn.up && bound.layer(0).ffn.down_t);
  EXPECT_TRUE(bound.layer(0).ffn.up_bias);
}

TEST(BindRecordsTest, ExpertsFollowEachOther) {
  const BoundPrepared bound(TestPreparedExpertModel());
  ASSERT_TRUE(bound.weights) << bound.weights.error().message;
  const FfnWeights& ffn = bound.layer(0).ffn;
  ASSERT_EQ(ffn.experts.size(), 4u);
  const size_t stride = bound.config.records[0].stride;
  EXPECT_TRUE(ffn.experts[3].bundled);
  EXPECT_EQ(ffn.experts[3].gate.data,
            ffn.experts[0].gate.data + 3 * 64 * stride);
  EXPECT_EQ(ffn.experts[3].down_t.shape.num_rows(), 64u);
  EXPECT_TRUE(ffn.router);
}

TEST(BindRecordsTest, GatesMayBeAMatrix) {
  const auto file = [] { return BundleTestModel(TestModel(), true, 1, false); };
  const BoundPrepared bound(file());
  ASSERT_TRUE(bound.weights) << bound.weights.error().message;
  const FfnWeights& ffn = bound.layer(1).ffn;
  EXPECT_EQ(ffn.gate.data,
            (*bound.parsed.file)->FindTensor("blk.1.ffn_gate.weight")->data);
  EXPECT_EQ(ffn.gate.shape.num_rows(), 64u);
  EXPECT_EQ(ffn.down_t.data - ffn.up.data, 18);
  ExpectError(file().RemoveTensor("blk.1.ffn_gate.weight"),
              "blk.1.ffn_gate.weight");
  ExpectError(file().SetTensor("blk.0.ffn_gate.weight", DType::kQ4_0, {32, 63}),
              "blk.0.ffn_gate.weight");
}

TEST(BindRecordsTest, GatesOfExpertsMayBeAMatrix) {
  const BoundPrepared bound(TestPreparedExpertModel(false));
  ASSERT_TRUE(bound.weights) << bound.weights.error().message;
  const FfnWeights& ffn = bound.layer(0).ffn;
  const gguf::TensorInfo* gates =
      (*bound.parsed.file)->FindTensor("blk.0.ffn_gate_exps.weight");
  EXPECT_EQ(ffn.experts[3].gate.data, gates->data + gates->num_bytes / 4 * 3);
  EXPECT_EQ(ffn.experts[3].up.row_stride(), 128u);
  ExpectError(
      TestPreparedExpertModel(false).RemoveTensor("blk.0.ffn_gate_exps.weight"),
      "blk.0.ffn_gate_exps.weight");
}

TEST(BindRecordsTest, TheTensorMustBeTheLayouts) {
  const std::string name = "blk.1.ffn_records.weight";
  ExpectError(TestPreparedModel().RemoveTensor(name), name);
  ExpectError(TestPreparedModel().SetTensor(name, DType::kI8, {64, 63}), name);
  ExpectError(TestPreparedModel().SetTensor(name, DType::kI8, {128, 64}), name);
  ExpectError(TestPreparedModel().SetTensor(name, DType::kF32, {64, 64}),
              "must be I8");
}

TEST(BindRecordsTest, MatricesBesideRecordsAreUnknown) {
  ExpectError(TestPreparedModel().SetTensor("blk.0.ffn_up.weight", DType::kQ4_0,
                                            {32, 64}),
              "blk.0.ffn_up.weight", ErrorCode::kUnsupported);
}

TEST(BindPreparedTest, EverythingIsBound) {
  const BoundPrepared bound(TestModelWithParts());
  ASSERT_TRUE(bound.weights) << bound.weights.error().message;
  const LayerWeights& layer = bound.layer(1);
  EXPECT_EQ(layer.predictor.up.shape.num_rows(), 32u);
  EXPECT_TRUE(layer.predictor.up_bias && layer.predictor.down_bias);
  EXPECT_EQ(layer.training_free.signs.row_bytes(), 8u);
  EXPECT_EQ(layer.training_free.max_differences, 12);
  EXPECT_EQ(layer.training_free.up.shape.num_rows(), 8u);
  EXPECT_TRUE(layer.training_free.bias);
  EXPECT_EQ(layer.self_test.inputs.shape.num_rows(), 3u);
  EXPECT_TRUE(layer.self_test.candidates);
  EXPECT_EQ(layer.profile_counts.shape.ne[0], 64u);
  EXPECT_EQ(layer.order.shape.ne[0], 64u);
  EXPECT_FALSE(bound.layer(0).predictor.up);
  EXPECT_FALSE(bound.layer(0).training_free.signs);
  EXPECT_FALSE(bound.layer(0).self_test.candidates);
}

TEST(BindPreparedTest, PartsWithoutRecords) {
  TestFile file = TestModel();
  AddTestParts(file);
  const BoundPrepared bound(std::move(file));
  ASSERT_TRUE(bound.weights) << bound.weights.error().message;
  EXPECT_FALSE(bound.layer(0).ffn.bundled);
  EXPECT_TRUE(bound.layer(1).predictor.up);
}

TEST(BindPreparedTest, ExpertsNeuronsAreNumberedThrough) {
  const auto with_predictor = [](uint64_t num_neurons) {
    return TestPreparedExpertModel()
        .SetU32(prepared::kLookahead, 0)
        .SetTensor("blk.0.tc_pred_up.weight", DType::kF16, {32, 16})
        .SetTensor("blk.0.tc_pred_down.weight", DType::kF16, {16, num_neurons});
  };
  const BoundPrepared bound(with_predictor(256));
  ASSERT_TRUE(bound.weights) << bound.weights.error().message;
  EXPECT_EQ(bound.layer(0).predictor.down.shape.num_rows(), 256u);
  ExpectError(with_predictor(64), "blk.0.tc_pred_down.weight");
}

TEST(BindPreparedTest, PredictorsOfOtherModels) {
  ExpectError(TestModelWithParts().SetTensor("blk.1.tc_pred_up.weight",
                                             DType::kF16, {64, 32}),
              "of another model");
  ExpectError(TestModelWithParts().SetTensor("blk.1.tc_pred_down.weight",
                                             DType::kF16, {32, 128}),
              "of another model");
  ExpectError(TestModelWithParts().SetTensor("blk.1.tc_pred_up.bias",
                                             DType::kF32, {31}),
              "tc_pred_up.bias");
}

TEST(BindPreparedTest, FreePredictorsThatCannotBe) {
  ExpectError(TestModelWithParts().SetTensor("blk.1.tc_free_signs.weight",
                                             DType::kI8, {4, 64}),
              "tc_free_signs");
  ExpectError(TestModelWithParts().Remove(prepared::kMaxDifferences),
              prepared::kMaxDifferences);
  for (const int64_t bad : {int64_t{-1}, int64_t{33}}) {
    TestFile file = TestModelWithParts();
    file.SetNumbers<int64_t>(prepared::kMaxDifferences, ValueType::kI64,
                             {0, bad});
    ExpectError(file, prepared::kMaxDifferences);
  }
  ExpectError(TestModelWithParts().RemoveTensor("blk.1.tc_free_up.weight"),
              "tc_free_up.weight\" is missing");
  ExpectError(TestModelWithParts().RemoveTensor("blk.1.tc_free_down.weight"),
              "tc_free_down.weight\" is missing");
  ExpectError(
      TestModelWithParts().SetTensor("blk.1.tc_free.bias", DType::kF32, {65}),
      "tc_free.bias");
  // Whoever computes with it has room for as many values as an FFN has.
  ExpectError(
      TestModelWithParts()
          .SetTensor("blk.1.tc_free_up.weight", DType::kF16, {32, 65})
          .SetTensor("blk.1.tc_free_down.weight", DType::kF16, {65, 64}),
      "rank 65");
  // Signs alone decide in one step.
  const BoundPrepared bound(TestModelWithParts()
                                .RemoveTensor("blk.1.tc_free_up.weight")
                                .RemoveTensor("blk.1.tc_free_down.weight")
                                .RemoveTensor("blk.1.tc_free.bias"));
  ASSERT_TRUE(bound.weights) << bound.weights.error().message;
  EXPECT_FALSE(bound.layer(1).training_free.down);
}

TEST(BindPreparedTest, SelfTestsThatCannotBe) {
  ExpectError(TestModelWithParts().SetTensor("blk.0.tc_selftest.inputs",
                                             DType::kF32, {32, 2}),
              "tc_selftest.fired");
  ExpectError(TestModelWithParts()
                  .SetTensor("blk.0.tc_selftest.inputs", DType::kF32, {32, 2})
                  .SetTensor("blk.0.tc_selftest.fired", DType::kI8, {8, 2}),
              "layer 1 has 3 samples");
  std::string data(32 * 3 * 4, '\0');
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(data.data() + 33 * 4, &nan, 4);
  ExpectError(TestModelWithParts().SetTensor("blk.0.tc_selftest.inputs",
                                             DType::kF32, {32, 3}, data),
              "element 33");
  ExpectError(TestModelWithParts().SetTensor("blk.1.tc_selftest.candidates",
                                             DType::kI8, {8, 2}),
              "tc_selftest.candidates");
}

// Falcon here: an F that is no multiple of 8 needs an architecture without
// blocks along it; a predictor's sets end within a byte.
TEST(BindPreparedTest, NeuronsPastTheLast) {
  const auto with_last_byte = [](char last) {
    TestFile file = TestModel();
    file.SetU32("llama.feed_forward_length", 60)
        .SetU32(prepared::kVersionKey, 1);
    for (int i = 0; i < kTestLayers; ++i) {
      const std::string blk = "blk." + std::to_string(i) + ".";
      file.SetTensor(blk + "ffn_up.weight", DType::kF16, {32, 60})
          .SetTensor(blk + "ffn_gate.weight", DType::kF16, {32, 60})
          .SetTensor(blk + "ffn_down.weight", DType::kF16, {60, 32})
          .SetTensor(blk + prepared::kTestInputs, DType::kF32, {32, 1})
          .SetTensor(blk + prepared::kTestFired, DType::kI8, {8, 1},
                     std::string(7, '\0') + last);
    }
    return file;
  };
  EXPECT_TRUE(BoundPrepared(with_last_byte('\x0f')).weights.has_value());
  ExpectError(with_last_byte('\x10'), "past the last, 59");
}

// 0 to 63, but for the first.
std::string NumbersWithFirst(int32_t first) {
  std::string data;
  for (int32_t i = 0; i < 64; ++i) data += gguf::Raw(i == 0 ? first : i);
  return data;
}

TEST(BindPreparedTest, OrdersArePermutations) {
  for (const std::string name : {"tc_order", "tc_source_neurons"}) {
    const auto with_first = [&](int32_t neuron, uint64_t count = 64) {
      TestFile file = TestModelWithParts();
      return file
          .SetTensor("blk.0." + name, DType::kI32, {64}, NumbersWithFirst(0))
          .SetTensor("blk.1." + name, DType::kI32, {count},
                     NumbersWithFirst(neuron).substr(0, count * 4));
    };
    EXPECT_TRUE(BoundPrepared(with_first(0)).weights.has_value());
    ExpectError(with_first(1),
                "blk.1." + name + "\" is no permutation: 1 occurs twice");
    ExpectError(with_first(64), "neuron 64 at place 0");
    ExpectError(with_first(-1), "neuron -1 at place 0");
    ExpectError(with_first(0, 63), "blk.1." + name);
  }
}

TEST(BindPreparedTest, NumbersOfSomeLayersAlone) {
  for (const auto& [has, lacks] :
       {std::pair("blk.0.", "blk.1."), std::pair("blk.1.", "blk.0.")}) {
    ExpectError(
        TestModelWithParts().SetTensor(std::string(has) + "tc_source_neurons",
                                       DType::kI32, {64}, NumbersWithFirst(0)),
        std::string(lacks) + "tc_source_neurons\" is missing");
  }
}

TEST(BindPreparedTest, CountsAreOnePerNeuron) {
  ExpectError(TestModelWithParts().SetTensor("blk.0.tc_profile.counts",
                                             DType::kI32, {63}),
              "tc_profile.counts");
  ExpectError(TestModelWithParts().SetTensor("blk.0.tc_profile.counts",
                                             DType::kF32, {64}),
              "must be I32");
}

// Every byte of metadata, every count field, every length: refused or opened.
bool OpensPrepared(std::string_view bytes) {
  ParsedCopy parsed(bytes);
  if (!parsed.file) return false;
  const auto model = Model::FromFile(std::move(*parsed.file), {});
  if (!model) EXPECT_TRUE(model.error().message.starts_with("test.gguf: "));
  return model.has_value();
}

TEST(PreparedRobustness, EveryCountFieldWithEveryBadValue) {
  const TestLog log;
  TestFile file = TestModelWithParts();
  const std::string bytes = file.Bytes();
  ASSERT_TRUE(OpensPrepared(bytes));
  for (const CountField& field : file.fields()) {
    for (const uint64_t value :
         {uint64_t{0}, uint64_t{1}, (uint64_t{1} << 31) - 1, uint64_t{1} << 31,
          uint64_t{1} << 32, uint64_t{1} << 63, ~uint64_t{0}}) {
      std::string patched = bytes;
      std::memcpy(patched.data() + field.position, &value, field.num_bytes);
      SCOPED_TRACE(field.what + " = " + std::to_string(value));
      OpensPrepared(patched);
    }
  }
}

TEST(PreparedRobustness, EveryByteOfTheMetadata) {
  const TestLog log;
  TestFile file = TestModelWithParts();
  const std::string bytes = file.Bytes();
  const size_t num_metadata_bytes =
      file.fields().back().position + file.fields().back().num_bytes;
  for (size_t i = 0; i < num_metadata_bytes; ++i) {
    for (const unsigned char value : {0x00, 0x01, 0xff}) {
      std::string patched = bytes;
      patched[i] = static_cast<char>(value);
      OpensPrepared(patched);
    }
  }
}

// Every length up to the data, and every cut between and inside of tensors.
TEST(PreparedRobustness, EveryTruncation) {
  const TestLog log;
  TestFile file = TestModelWithParts();
  const std::string bytes = file.Bytes();
  for (size_t length = 0; length < bytes.size();
       length += length < 8192 ? 1 : 29) {
    ASSERT_FALSE(OpensPrepared(std::string_view(bytes).substr(0, length)))
        << length;
  }
}

}  // namespace
}  // namespace thermocline::model
