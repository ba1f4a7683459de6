#include "pack/pack.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>

#include "gguf/test_file.h"
#include "model/bundle.h"
#include "model/test_log.h"
#include "model/test_prepared.h"
#include "model/test_random_model.h"
#include "os/test_folder.h"
#include "pack/part_file.h"
#include "pack/test_parts.h"
#include "tensor/codec.h"

namespace thermocline::pack {
namespace {

using model::RandomModel;

using gguf::TestFile;
using model::Model;
using ::testing::AllOf;
using ::testing::HasSubstr;

using ModelPtr = std::shared_ptr<const Model>;

class PackTest : public ::testing::Test {
 protected:
  ModelPtr Open(TestFile file, const std::string& name = "m.gguf") {
    auto opened = Model::Open(folder_.Write(name, file.Bytes()));
    EXPECT_TRUE(opened.has_value()) << opened.error().message;
    return *opened;
  }
  // Packs, and opens the result.
  ModelPtr PackAndOpen(const ModelPtr& source, const PreparedParts& parts,
                       const PackOptions& options = {}) {
    const auto summary = Pack(*source, parts, output(), options);
    if (!summary) ADD_FAILURE() << summary.error().message;
    summary_ = *summary;
    auto opened = Model::Open(output());
    if (!opened) ADD_FAILURE() << opened.error().message;
    return *opened;
  }
  std::string output() const { return folder_ / "m.tc.gguf"; }

  model::TestLog log_;
  os::TestFolder folder_;
  PackSummary summary_;
};

void ExpectSameRows(const TensorView& a, const TensorView& b) {
  ASSERT_EQ(static_cast<bool>(a), static_cast<bool>(b));
  if (!a) return;
  ASSERT_EQ(a.shape, b.shape);
  for (uint64_t i = 0; i < a.shape.num_rows(); ++i) {
    ASSERT_EQ(std::memcmp(a.row(i), b.row(i), a.row_bytes()), 0) << i;
  }
}

// The rows of gate, up and transposed down.
void ExpectSameFfns(const Model& packed, const Model& bundled) {
  for (size_t l = 0; l < packed.weights().layers.size(); ++l) {
    const auto experts = model::ExpertsOf(packed.weights().layers[l].ffn);
    const auto others = model::ExpertsOf(bundled.weights().layers[l].ffn);
    ASSERT_EQ(experts.size(), others.size());
    for (size_t e = 0; e < experts.size(); ++e) {
      EXPECT_TRUE(experts[e].bundled);
      SCOPED_TRACE(fmt::format("layer {}, expert {}", l, e));
      ExpectSameRows(experts[e].gate, others[e].gate);
      ExpectSameRows(experts[e].up, others[e].up);
      ExpectSameRows(experts[e].down_t, others[e].down_t);
    }
  }
}

// As bundling at load has them: the same builder, another way.
void ExpectSameRecords(const Model& packed, const Model& bundled) {
  ASSERT_EQ(packed.config().records, bundled.config().records);
  ExpectSameFfns(packed, bundled);
}

TEST_F(PackTest, EveryTypeAndFormOfFfn) {
  std::vector<TestFile> files;
  for (const DType dtype :
       {DType::kF32, DType::kF16, DType::kQ8_0, DType::kQ4_0, DType::kQ5_1}) {
    files.push_back(RandomModel(dtype));
  }
  files.push_back(RandomModel(DType::kF16, "opt"));
  files.push_back(RandomModel(DType::kQ8_0, "falcon"));
  files.push_back(model::TestExpertModel());
  files.push_back(model::TestPowerInferModel());
  files.push_back(model::TestKairoxModel());
  for (TestFile& file : files) {
    const ModelPtr source = Open(file);
    const ModelPtr packed = PackAndOpen(source, {});
    const auto bundled =
        Model::Open(folder_ / "m.gguf", {.bundle_at_load = true}).value();
    ExpectSameRecords(*packed, *bundled);
    EXPECT_EQ(CommonFfn(packed->config()).activation,
              CommonFfn(source->config()).activation);
    EXPECT_EQ(packed->config().predictor.kind, source->config().predictor.kind);
    EXPECT_EQ(packed->config().norm_epsilon, source->config().norm_epsilon);
    EXPECT_EQ(summary_.num_bytes, packed->file().num_file_bytes());
  }
}

TEST_F(PackTest, RecordsStartAtPages) {
  const ModelPtr packed = PackAndOpen(Open(RandomModel(DType::kF16)), {});
  const auto* first = packed->file().FindTensor("blk.0.ffn_records.weight");
  const auto* second = packed->file().FindTensor("blk.1.ffn_records.weight");
  EXPECT_EQ((second->data - first->data) % 4096, 0);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first->data) % 4096, 0u);
}

TEST_F(PackTest, TheCostOfQuantisedDownsIsStated) {
  PackAndOpen(Open(RandomModel(DType::kF16)), {});
  EXPECT_EQ(summary_.down_error, 0);
  PackAndOpen(Open(RandomModel(DType::kQ8_0)), {});
  EXPECT_GT(summary_.down_error, 0);
  EXPECT_LT(summary_.down_error, 0.01);
  PackAndOpen(Open(RandomModel(DType::kQ4_0)), {});
  EXPECT_GT(summary_.down_error, 0.01);
  EXPECT_LT(summary_.down_error, 0.15);
  ASSERT_EQ(summary_.layers.size(), 2u);
  EXPECT_EQ(summary_.layers[1].down_source, DType::kQ4_0);
  EXPECT_GT(summary_.layers[1].down_error, 0);
  // PowerInfer's files have the columns as rows.
  PackAndOpen(Open(model::TestPowerInferModel()), {});
  EXPECT_EQ(summary_.down_error, 0);
}

TEST_F(PackTest, ABetterSourceForDown) {
  const ModelPtr exact = Open(RandomModel(DType::kF32), "f32.gguf");
  const ModelPtr source = Open(RandomModel(DType::kQ4_0));
  const ModelPtr packed = PackAndOpen(source, {}, {.down_source = exact.get()});
  EXPECT_EQ(summary_.layers[0].down_source, DType::kF32);
  EXPECT_EQ(summary_.layers[0].layout->down, DType::kQ4_0);
  // Column 5 is what encoding the exact one gives.
  const TensorView& down = exact->weights().layers[1].ffn.down;
  std::vector<float> column;
  for (uint64_t k = 0; k < 32; ++k) {
    float value = 0;
    std::memcpy(&value, down.row(k) + 5 * 4, 4);
    column.push_back(value);
  }
  std::vector<std::byte> expected(BytesOf(DType::kQ4_0, 32));
  QuantizeRow(DType::kQ4_0, column, expected.data());
  EXPECT_EQ(std::memcmp(packed->weights().layers[1].ffn.down_t.row(5),
                        expected.data(), expected.size()),
            0);
}

// Either file may have its columns as rows, as prepared ones do.
TEST_F(PackTest, ABetterSourceForDownOfAnotherForm) {
  const ModelPtr exact = Open(RandomModel(DType::kF32), "f32.gguf");
  const ModelPtr coarse = Open(RandomModel(DType::kQ4_0));
  const ModelPtr expected =
      PackAndOpen(coarse, {}, {.down_source = exact.get()});
  const auto prepared = [&](const ModelPtr& source, const std::string& name) {
    const std::string path = folder_ / name;
    EXPECT_TRUE(Pack(*source, {}, path, {}).has_value());
    return Model::Open(path).value();
  };
  const ModelPtr exact_rows = prepared(exact, "f32.tc.gguf");
  const ModelPtr coarse_rows = prepared(coarse, "q4_0.tc.gguf");
  const std::string again = folder_ / "again.gguf";
  for (const auto& [source, better] :
       {std::pair(coarse, exact_rows), std::pair(coarse_rows, exact),
        std::pair(coarse_rows, exact_rows)}) {
    const auto summary =
        Pack(*source, {}, again, {.down_source = better.get()});
    ASSERT_TRUE(summary.has_value()) << summary.error().message;
    ExpectSameRecords(*Model::Open(again).value(), *expected);
  }
}

TEST_F(PackTest, ASourceOfAnotherModelIsRefused) {
  TestFile other = RandomModel(DType::kF32);
  other.SetTensor("blk.1.ffn_norm.weight", DType::kF32, {32},
                  std::string(128, '\1'));
  const ModelPtr stranger = Open(other, "other.gguf");
  const ModelPtr source = Open(RandomModel(DType::kQ4_0));
  const auto refused =
      Pack(*source, {}, output(), {.down_source = stranger.get()});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(refused.error().message,
              AllOf(HasSubstr("other.gguf"), HasSubstr("another model")));
}

TEST_F(PackTest, AnotherTypeForDown) {
  PackAndOpen(Open(RandomModel(DType::kQ4_0)), {},
              {.down_dtype = DType::kQ8_0});
  EXPECT_EQ(summary_.layers[1].layout->down, DType::kQ8_0);
  EXPECT_EQ(summary_.layers[1].layout->gate, std::nullopt);
  EXPECT_LT(summary_.down_error, 0.01);
}

TEST_F(PackTest, StorageRecordsArePages) {
  const ModelPtr packed =
      PackAndOpen(Open(RandomModel(DType::kQ4_0)), {},
                  {.record_alignment = neuron::kStorageAlignment});
  EXPECT_EQ(packed->config().records[0].stride, 4096u);
  // One read is to bring all of a neuron.
  EXPECT_EQ(packed->config().records[0].gate, DType::kQ4_0);
}

TEST_F(PackTest, PartsComeBack) {
  TestFile file = RandomModel(DType::kQ4_0);
  file.SetText("thermocline.ffn.activation", "relu");
  const ModelPtr source = Open(file);
  PreparedParts parts = TestParts(source->config());
  const ModelPtr packed = PackAndOpen(source, parts);
  parts.activation = Activation::kRelu;
  const auto read = ReadParts(packed->file(), packed->config());
  ASSERT_TRUE(read.has_value()) << read.error().message;
  ExpectSameParts(*read, parts);
  EXPECT_EQ(packed->config().predictor.kind,
            model::PredictorKind::kThermocline);
  EXPECT_TRUE(packed->weights().layers[1].predictor.up);
  EXPECT_FALSE(packed->weights().layers[0].predictor.up);
}

TEST_F(PackTest, OurPredictorsReplaceForeignOnes) {
  for (TestFile file :
       {model::TestPowerInferModel(), model::TestKairoxModel()}) {
    const ModelPtr source = Open(file);
    PreparedParts parts;
    parts.predictors = TestParts(source->config()).predictors;
    const ModelPtr packed = PackAndOpen(source, parts);
    EXPECT_EQ(packed->config().predictor.kind,
              model::PredictorKind::kThermocline);
    EXPECT_EQ(CommonFfn(packed->config()).activation,
              CommonFfn(source->config()).activation);
    EXPECT_EQ(packed->file().FindTensor("blk.1.fc1.weight"), nullptr);
    EXPECT_EQ(packed->file().FindTensor("blk.1.ffn_pred_up.weight"), nullptr);
    EXPECT_EQ(packed->file().Find("predictor.low_ranks"), nullptr);
  }
}

TEST_F(PackTest, WithoutBundlingMatricesStay) {
  const ModelPtr source = Open(RandomModel(DType::kQ4_0));
  const ModelPtr packed =
      PackAndOpen(source, {.activation = Activation::kRelu}, {.bundle = false});
  EXPECT_EQ(packed->config().prepared_version, 1);
  EXPECT_EQ(CommonFfn(packed->config()).activation, Activation::kRelu);
  EXPECT_FALSE(packed->weights().layers[0].ffn.bundled);
  EXPECT_TRUE(packed->weights().layers[0].ffn.down);
  EXPECT_FALSE(summary_.layers[0].layout.has_value());
}

TEST_F(PackTest, PreparedModelsCanBePackedAgain) {
  TestFile file = RandomModel(DType::kQ4_0);
  file.SetText("thermocline.ffn.activation", "relu");
  const ModelPtr source = Open(file);
  PreparedParts parts = TestParts(source->config());
  parts.keys.push_back({.key = "thermocline.training.recall_target",
                        .type = gguf::ValueType::kF32,
                        .value = 0.875});
  const ModelPtr first = PackAndOpen(source, parts);
  const std::string again = folder_ / "again.gguf";
  parts = ReadParts(first->file(), first->config()).value();
  const auto summary = Pack(*first, parts, again, {});
  ASSERT_TRUE(summary.has_value()) << summary.error().message;
  EXPECT_EQ(summary->down_error, 0);
  const auto same = Model::Open(again).value();
  ExpectSameRecords(*same, *first);
  ExpectSameParts(ReadParts(same->file(), same->config()).value(), parts);
  EXPECT_NE(same->file().Find("thermocline.training.recall_target"), nullptr);
  // Without parts, only the records stay.
  ASSERT_TRUE(Pack(*first, {}, again, {}).has_value());
  const auto bare = Model::Open(again).value();
  EXPECT_EQ(bare->config().predictor.kind, model::PredictorKind::kNone);
  EXPECT_EQ(CommonFfn(bare->config()).activation, Activation::kRelu);
  EXPECT_EQ(bare->file().Find("thermocline.profile.tokens"), nullptr);
  EXPECT_EQ(bare->file().Find("thermocline.training.recall_target"), nullptr);
  ExpectSameFfns(*bare, *first);
}

// Layer 1 has a predictor, layer 0 has none: its gates are all tested.
TEST_F(PackTest, GatesAreWithTheRecordsWherePredictorsChoose) {
  for (const bool is_mixture : {false, true}) {
    const ModelPtr source =
        Open(is_mixture ? model::TestExpertModel() : RandomModel(DType::kQ8_0));
    const char* matrix =
        is_mixture ? "blk.0.ffn_gate_exps.weight" : "blk.0.ffn_gate.weight";
    PreparedParts parts = TestParts(source->config());
    parts.training_free.clear();
    parts.lookahead = 0;  // mixtures have no other
    const ModelPtr packed = PackAndOpen(source, parts);
    EXPECT_EQ(packed->config().records[0].gate, std::nullopt);
    EXPECT_EQ(packed->config().records[1].gate, DType::kQ8_0);
    EXPECT_EQ(packed->file().FindTensor(matrix)->shape,
              source->file().FindTensor(matrix)->shape);
    EXPECT_EQ(packed->file().FindTensor("blk.1.ffn_gate.weight"), nullptr);
    const auto from = model::ExpertsOf(source->weights().layers[0].ffn);
    const auto to = model::ExpertsOf(packed->weights().layers[0].ffn);
    for (size_t e = 0; e < from.size(); ++e) {
      ExpectSameRows(to[e].gate, from[e].gate);
    }
    const std::string bare = folder_ / "bare.gguf";
    ASSERT_TRUE(Pack(*packed, {}, bare, {}).has_value());
    const ModelPtr apart = Model::Open(bare).value();
    EXPECT_EQ(apart->config().records[1].gate, std::nullopt);
    ExpectSameFfns(*apart, *packed);
  }
}

TEST_F(PackTest, TheOutputMustNotBeTheSource) {
  const ModelPtr source = Open(RandomModel(DType::kQ4_0));
  const auto refused = Pack(*source, {}, folder_ / "m.gguf", {});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(refused.error().message, HasSubstr("would replace"));
}

TEST_F(PackTest, InterruptedNothingIsLeft) {
  const ModelPtr source = Open(RandomModel(DType::kQ4_0));
  const std::atomic<bool> cancel = true;
  const auto refused = Pack(*source, {}, output(), {.cancel = &cancel});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(folder_.num_entries(), 1);
}

TEST_F(PackTest, WeightsThatAreNotFinite) {
  TestFile file = RandomModel(DType::kF32);
  std::string down(32 * 64 * 4, '\0');
  down[6] = '\x80';
  down[7] = '\x7f';
  file.SetTensor("blk.1.ffn_down.weight", DType::kF32, {64, 32}, down);
  const ModelPtr source = Open(file);
  const auto refused =
      Pack(*source, {}, output(), {.down_dtype = DType::kQ8_0});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(refused.error().message, HasSubstr("layer 1"));
  EXPECT_EQ(folder_.num_entries(), 1);
}

TEST_F(PackTest, ThreadsChangeNoByte) {
  const ModelPtr source = Open(RandomModel(DType::kQ4_0));
  ASSERT_TRUE(Pack(*source, {}, output(), {.num_threads = 1}).has_value());
  const std::string one = os::TestFolder::Read(output());
  ASSERT_TRUE(Pack(*source, {}, output(), {.num_threads = 3}).has_value());
  EXPECT_TRUE(one == os::TestFolder::Read(output()));
}

TEST_F(PackTest, ProgressEndsAtTheWhole) {
  uint64_t last = 0;
  uint64_t total = 0;
  PackOptions options;
  options.progress = [&](std::string_view, uint64_t done, uint64_t all) {
    EXPECT_GE(done, last);
    last = done;
    total = all;
  };
  PackAndOpen(Open(RandomModel(DType::kQ4_0)), {}, options);
  EXPECT_GT(total, 0u);
  EXPECT_EQ(last, total);
}

}  // namespace
}  // namespace thermocline::pack
