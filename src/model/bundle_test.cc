#include "model/bundle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "model/prepared_names.h"
#include "model/test_log.h"
#include "model/test_prepared.h"
#include "os/test_folder.h"

namespace thermocline::model {
namespace {

using gguf::TestFile;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Bytes that differ: element i of the tensor's bytes is i * 7 + seed, but F16
// and F32 exponents that would be infinite are avoided by small values.
std::string HalfValues(size_t count, int seed) {
  std::string data;
  for (size_t i = 0; i < count; ++i) {
    data += gguf::Raw(static_cast<uint16_t>(
        0x3000 + (i * 7 + static_cast<size_t>(seed)) % 1024));
  }
  return data;
}

TestFile HalfModel() {
  TestFile file = TestModel();
  for (int i = 0; i < kTestLayers; ++i) {
    const std::string blk = "blk." + std::to_string(i) + ".";
    file.SetTensor(blk + "ffn_gate.weight", DType::kF16, {32, 64},
                   HalfValues(32 * 64, i))
        .SetTensor(blk + "ffn_up.weight", DType::kF16, {32, 64},
                   HalfValues(32 * 64, i + 10))
        .SetTensor(blk + "ffn_down.weight", DType::kF16, {64, 32},
                   HalfValues(32 * 64, i + 20));
  }
  return file;
}

TEST(BundleAtLoadTest, RecordsHoldTheFloatsOfTheFile) {
  const TestLog log;
  const os::TestFolder folder;
  const std::string path = folder.Write("m.gguf", HalfModel().Bytes());
  const auto model = Model::Open(path, {.bundle_at_load = true}).value();
  EXPECT_EQ(model->num_bundle_bytes(), uint64_t{2} * 64 * 128);
  ASSERT_EQ(model->config().records.size(), 2u);
  const FfnWeights& ffn = model->weights().layers[1].ffn;
  EXPECT_TRUE(ffn.bundled);
  EXPECT_FALSE(ffn.down);
  // All gates are tested: they stay where they are.
  EXPECT_EQ(ffn.gate.data,
            model->file().FindTensor("blk.1.ffn_gate.weight")->data);
  const auto plain = Model::Open(path).value();
  EXPECT_EQ(plain->num_bundle_bytes(), 0u);
  const FfnWeights& rows = plain->weights().layers[1].ffn;
  for (uint64_t i = 0; i < 64; ++i) {
    ASSERT_EQ(std::memcmp(ffn.gate.row(i), rows.gate.row(i), 64), 0);
    ASSERT_EQ(std::memcmp(ffn.up.row(i), rows.up.row(i), 64), 0);
    for (uint64_t k = 0; k < 32; ++k) {
      ASSERT_EQ(
          std::memcmp(ffn.down_t.row(i) + 2 * k, rows.down.row(k) + 2 * i, 2),
          0);
    }
  }
  EXPECT_THAT(log.lines(), IsEmpty());
}

TEST(BundleAtLoadTest, ExpertsEachHaveTheirs) {
  const os::TestFolder folder;
  const std::string path = folder.Write("m.gguf", TestExpertModel().Bytes());
  const auto model = Model::Open(path, {.bundle_at_load = true}).value();
  const FfnWeights& ffn = model->weights().layers[0].ffn;
  ASSERT_EQ(ffn.experts.size(), 4u);
  EXPECT_TRUE(ffn.experts[3].bundled);
  EXPECT_EQ(ffn.experts[1].up.data - ffn.experts[0].up.data, 64 * 128);
  EXPECT_EQ(ffn.experts[2].gate.row_stride(), ffn.experts[2].gate.row_bytes());
}

TEST(BundleAtLoadTest, GatesOfLayersWithAPredictorAreInTheRecords) {
  const os::TestFolder folder;
  TestFile file = TestModel();
  AddTestParts(file);  // predictors in layer 1
  const auto model = Model::Open(folder.Write("m.gguf", file.Bytes()),
                                 {.bundle_at_load = true})
                         .value();
  EXPECT_FALSE(model->config().records[0].gate.has_value());
  EXPECT_EQ(model->config().records[1].gate, DType::kQ4_0);
  const FfnWeights& ffn = model->weights().layers[1].ffn;
  EXPECT_EQ(ffn.up.data - ffn.gate.data, 18);
  EXPECT_EQ(ffn.gate.row_stride(), 64u);
}

TEST(BundleAtLoadTest, PreparedFilesStayAsTheyAre) {
  const os::TestFolder folder;
  const std::string path = folder.Write("m.gguf", TestPreparedModel().Bytes());
  const auto model = Model::Open(path, {.bundle_at_load = true}).value();
  EXPECT_EQ(model->num_bundle_bytes(), 0u);
  EXPECT_TRUE(model->weights().layers[0].ffn.bundled);
}

TEST(BundleAtLoadTest, QuantisedDownsSayWhatTheyLost) {
  const TestLog log;
  TestFile file = TestModel();
  std::string blocks;
  for (int i = 0; i < 64; ++i) {
    blocks += gguf::Raw(static_cast<uint16_t>(0x2c00 + i)) +
              std::string(16, static_cast<char>(i * 5));
  }
  file.SetTensor("blk.0.ffn_down.weight", DType::kQ4_0, {64, 32}, blocks);
  const os::TestFolder folder;
  const std::string path = folder.Write("m.gguf", file.Bytes());
  ASSERT_TRUE(Model::Open(path, {.bundle_at_load = true}).has_value());
  EXPECT_THAT(log.lines(),
              ElementsAre(AllOf(HasSubstr("m.gguf: bundled at load"),
                                HasSubstr("relative error"))));
}

TEST(BundleAtLoadTest, AsksBeforeMemoryIsTaken) {
  const os::TestFolder folder;
  const std::string path = folder.Write("m.gguf", HalfModel().Bytes());
  uint64_t prefetched_bytes = 0;
  OpenOptions options = {.bundle_at_load = true};
  options.admit = [&](const Config&, uint64_t num_bytes) -> Status {
    prefetched_bytes = num_bytes;
    return Fail(ErrorCode::kResourceExhausted, "too much");
  };
  const auto refused = Model::Open(path, options);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().message, "too much");
  EXPECT_EQ(prefetched_bytes, uint64_t{2} * 64 * 128);
  options.hold.read = true;
  ASSERT_FALSE(Model::Open(path, options).has_value());
  EXPECT_EQ(prefetched_bytes,
            HalfModel().Bytes().size() + uint64_t{2} * 64 * 128);
}

TEST(BundleAtLoadTest, MoreThanTheMachineHas) {
  EXPECT_TRUE(CheckRecordsFit("m.gguf", 1024, 1024).has_value());
  const Status refused = CheckRecordsFit("m.gguf", 2048, 1024);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(refused.error().message,
              AllOf(HasSubstr("m.gguf"), HasSubstr("2.00 KiB"),
                    HasSubstr("1.00 KiB"), HasSubstr("prepare")));
}

TEST(BundleAtLoadTest, WeightsThatAreNotFinite) {
  TestFile file = TestModel();
  std::string blocks(64 * 18, '\0');
  blocks[1] = '\x7c';  // an infinite scale, and quants that are not 0
  file.SetTensor("blk.1.ffn_down.weight", DType::kQ4_0, {64, 32}, blocks);
  const os::TestFolder folder;
  const auto model = Model::Open(folder.Write("m.gguf", file.Bytes()),
                                 {.bundle_at_load = true});
  ASSERT_FALSE(model.has_value());
  EXPECT_EQ(model.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(model.error().message,
              AllOf(HasSubstr("m.gguf"), HasSubstr("layer 1")));
}

// What tests of other rooms use in the place of pack/pack.h.
TEST(WritePreparedFileTest, OpensWithRecordsKeysAndTensors) {
  const TestLog log;
  const os::TestFolder folder;
  for (const TestFile& made : {HalfModel(), TestExpertModel()}) {
    TestFile file = made;
    const auto source = Model::Open(folder.Write("m.gguf", file.Bytes()),
                                    {.bundle_at_load = true})
                            .value();
    const std::string path = folder / "m.tc.gguf";
    const Status written = WritePreparedFile(
        *source,
        {{.key = prepared::kOrderGroupSize,
          .type = gguf::ValueType::kU32,
          .value = int64_t{1}}},
        {{.name = "blk.0.attn_norm.weight",
          .dtype = DType::kF32,
          .shape = {.ne = {32, 1, 1, 1}, .rank = 1},
          .bytes = std::vector<std::byte>(128, std::byte{1})}},
        path);
    ASSERT_TRUE(written.has_value()) << written.error().message;
    const auto model = Model::Open(path);
    ASSERT_TRUE(model.has_value()) << model.error().message;
    EXPECT_EQ((*model)->config().records, source->config().records);
    const FfnMatrices& ffn = ExpertsOf((*model)->weights().layers[1].ffn)[0];
    const FfnMatrices& other = ExpertsOf(source->weights().layers[1].ffn)[0];
    EXPECT_TRUE(ffn.bundled);
    EXPECT_EQ(
        std::memcmp(ffn.gate.data, other.gate.data, 64 * ffn.gate.row_stride()),
        0);
    EXPECT_NE(*(*model)->weights().layers[0].attention.norm.data, std::byte{0});
  }
}

TEST(PlanLayoutsTest, BlocksThatDoNotDivideAreNamed) {
  // D = 32: no block of 256 fits.
  TestFile file = TestModel();
  file.SetTensor("blk.1.ffn_down.weight", DType::kF16, {64, 32});
  const os::TestFolder folder;
  const auto model = Model::Open(folder.Write("m.gguf", file.Bytes())).value();
  EXPECT_TRUE(PlanLayouts("m", model->config(), model->weights()).has_value());
  const auto refused = PlanLayouts("m", model->config(), model->weights(),
                                   {.down_dtype = DType::kQ4_K});
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message,
              AllOf(HasSubstr("m: layer 0"), HasSubstr("256")));
}

// Old files have a tensor for each expert.
TEST(PlanLayoutsTest, ExpertsOfUnlikeTypesAreRefused) {
  for (const char* other : {"ffn_gate.2.weight", "ffn_up.2.weight"}) {
    TestFile file = TestExpertModel();
    for (int i = 0; i < kTestLayers; ++i) {
      const std::string blk = "blk." + std::to_string(i) + ".";
      for (const std::string name : {"ffn_gate", "ffn_up", "ffn_down"}) {
        file.RemoveTensor(blk + name + "_exps.weight");
        const uint64_t width = name == "ffn_down" ? 64 : 32;
        for (int e = 0; e < 4; ++e) {
          file.SetTensor(blk + name + "." + std::to_string(e) + ".weight",
                         DType::kQ8_0, {width, 96 - width});
        }
      }
    }
    file.SetTensor(std::string("blk.1.") + other, DType::kF16, {32, 64});
    const os::TestFolder folder;
    const auto model =
        Model::Open(folder.Write("m.gguf", file.Bytes())).value();
    const auto refused = PlanLayouts("m", model->config(), model->weights());
    ASSERT_FALSE(refused.has_value()) << other;
    EXPECT_THAT(refused.error().message,
                AllOf(HasSubstr("layer 1"), HasSubstr("unlike types")));
  }
}

TEST(PlanLayoutsTest, MixesDifferByLayer) {
  TestFile file = TestModel();
  file.SetTensor("blk.1.ffn_down.weight", DType::kF16, {64, 32});
  const os::TestFolder folder;
  const auto model = Model::Open(folder.Write("m.gguf", file.Bytes())).value();
  const auto layouts =
      PlanLayouts("m", model->config(), model->weights()).value();
  EXPECT_EQ(layouts[0].down, DType::kQ4_0);
  EXPECT_EQ(layouts[1].down, DType::kF16);
  EXPECT_EQ(layouts[1].gate, std::nullopt);
  EXPECT_EQ(NumRecordBytes(model->config(), layouts),
            64 * (layouts[0].stride + layouts[1].stride));
  const auto all = PlanLayouts("m", model->config(), model->weights(),
                               {.bundles_gate = {false, true}})
                       .value();
  EXPECT_EQ(all[0], layouts[0]);
  EXPECT_EQ(all[1].gate, DType::kQ4_0);
}

}  // namespace
}  // namespace thermocline::model
