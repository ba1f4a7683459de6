#include "model/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>

#include "model/test_log.h"
#include "model/test_model.h"
#include "model/test_prepared.h"
#include "model/test_split.h"
#include "os/test_folder.h"

namespace thermocline::model {
namespace {

using gguf::ParsedCopy;
using gguf::TestFile;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Opened {
  explicit Opened(TestFile file, const OpenOptions& options = {})
      : parsed(file.Bytes()),
        model(Model::FromFile(std::move(*parsed.file), options)) {}
  ParsedCopy parsed;
  Result<std::shared_ptr<const Model>> model;
};

void ExpectNotOpened(TestFile file, ErrorCode code, const std::string& part) {
  const Opened opened(std::move(file));
  ASSERT_FALSE(opened.model) << part;
  EXPECT_EQ(opened.model.error().code, code) << opened.model.error().message;
  EXPECT_THAT(opened.model.error().message,
              AllOf(HasSubstr("test.gguf"), HasSubstr(part)));
}

TEST(Model, HasAllParts) {
  TestLog log;
  const Opened opened(TestModel());
  ASSERT_TRUE(opened.model) << opened.model.error().message;
  const Model& model = **opened.model;
  EXPECT_EQ(model.config().width, 32);
  EXPECT_EQ(model.weights().layers.size(), 2u);
  ASSERT_NE(model.tokenizer(), nullptr);
  EXPECT_EQ(model.tokenizer()->num_tokens(), 6);
  EXPECT_EQ(model.file().path(), "test.gguf");
  EXPECT_THAT(log.lines(), IsEmpty());
}

TEST(Model, WithThresholdsIsTheModelAsItWasOpened) {
  const os::TestFolder folder;
  const std::string path = folder.Write("m.gguf", TestModel().Bytes());
  auto opened =
      Model::Open(path, {.bundle_at_load = true,
                         .overrides = {.ffn_activation = Activation::kGelu}});
  ASSERT_TRUE(opened) << opened.error().message;
  const auto model = (*opened)->WithThresholds({0.5f, 0.25f});
  EXPECT_THAT((*opened)->config().thresholds, IsEmpty());
  const std::byte* const rows = (*opened)->weights().layers[0].ffn.up.data;
  opened->reset();
  EXPECT_THAT(model->config().thresholds, ElementsAre(0.5f, 0.25f));
  EXPECT_EQ(CommonFfn(model->config()).activation, Activation::kGelu);
  EXPECT_TRUE(model->weights().layers[0].ffn.bundled);
  EXPECT_EQ(model->weights().layers[0].ffn.up.data, rows);
  EXPECT_GT(model->num_bundle_bytes(), 0u);
  EXPECT_EQ(model->file().path(), path);
  EXPECT_EQ(model->tokenizer()->num_tokens(), 6);
}

TEST(Model, ShapeOfHasMatricesOfATypeAndNoBytes) {
  const Opened opened(TestModel());
  ASSERT_TRUE(opened.model) << opened.model.error().message;
  const Weights& whole = (*opened.model)->weights();
  const auto shape = (*opened.model)->ShapeOf(DType::kQ8_0);
  ASSERT_TRUE(shape) << shape.error().message;
  const Weights& weights = (*shape)->weights();
  ASSERT_EQ(weights.layers.size(), whole.layers.size());
  const LayerWeights& layer = weights.layers[0];
  for (const TensorView& view :
       {weights.head, layer.attention.q, layer.attention.out, layer.ffn.up}) {
    EXPECT_EQ(view.dtype, DType::kQ8_0);
    EXPECT_FALSE(view.in_memory());
  }
  EXPECT_EQ(layer.ffn.up.shape, whole.layers[0].ffn.up.shape);
  EXPECT_EQ(layer.ffn.norm.data, whole.layers[0].ffn.norm.data);
  // Rows of 32 elements.
  const auto in_blocks_of_256 = (*opened.model)->ShapeOf(DType::kQ4_K);
  ASSERT_FALSE(in_blocks_of_256);
  EXPECT_THAT(in_blocks_of_256.error().message, HasSubstr("no whole blocks"));
}

TEST(Model, WithPartsOfAnotherFile) {
  const os::TestFolder folder;
  TestFile parts;
  AddTestParts(parts);
  parts.SetText("general.architecture", "llama")
      .SetText(prepared::kActivation, "relu")
      .SetNumbers<float>(prepared::kThresholds, gguf::ValueType::kF32, {1, 2});
  const std::string path = folder.Write("m.gguf", TestModel().Bytes());
  auto opened = Model::Open(path, {.bundle_at_load = true});
  ASSERT_TRUE(opened) << opened.error().message;
  auto file = gguf::File::Open(folder.Write("p.gguf", parts.Bytes()));
  ASSERT_TRUE(file) << file.error().message;
  const auto both = (*opened)->WithParts(*std::move(file));
  ASSERT_TRUE(both) << both.error().message;
  EXPECT_FALSE((*opened)->weights().layers[1].predictor.up);
  opened->reset();
  const Model& model = **both;
  EXPECT_EQ(model.config().predictor.kind, PredictorKind::kThermocline);
  EXPECT_EQ(model.config().predictor.lookahead, 1);
  EXPECT_EQ(CommonFfn(model.config()).activation, Activation::kRelu);
  EXPECT_THAT(model.config().thresholds, ElementsAre(1.0f, 2.0f));
  EXPECT_EQ(model.config().records.size(), 2u);
  EXPECT_FALSE(model.weights().layers[0].predictor.up);
  EXPECT_TRUE(model.weights().layers[1].predictor.up);
  EXPECT_TRUE(model.weights().layers[0].self_test.inputs);
  EXPECT_EQ(model.file().path(), path);
}

TEST(Model, WithPartsReplacesItsOwn) {
  const os::TestFolder folder;
  const auto prepared =
      Model::Open(folder.Write("m.gguf", TestModelWithParts().Bytes()));
  ASSERT_TRUE(prepared) << prepared.error().message;
  // A file without any part, of today's version and of none.
  for (const std::string& parts :
       {TestFile().SetU32(prepared::kVersionKey, 1).Bytes(),
        TestFile().Bytes()}) {
    const auto bare = (*prepared)->WithParts(
        gguf::File::Open(folder.Write("p.gguf", parts)).value());
    ASSERT_TRUE(bare) << bare.error().message;
    EXPECT_EQ((*bare)->config().predictor.kind, PredictorKind::kNone);
    EXPECT_FALSE((*bare)->config().has_training_free);
    const LayerWeights& layer = (*bare)->weights().layers[1];
    EXPECT_FALSE(layer.predictor.up);
    EXPECT_FALSE(layer.training_free.signs);
    EXPECT_FALSE(layer.self_test.inputs);
    EXPECT_FALSE(layer.order);
    EXPECT_TRUE(layer.ffn.bundled);
  }
}

TEST(Model, PartsThatDoNotFit) {
  const os::TestFolder folder;
  const auto model =
      Model::Open(folder.Write("m.gguf", TestModel("falcon").Bytes()));
  ASSERT_TRUE(model) << model.error().message;
  const auto expect_refused = [&](TestFile parts, ErrorCode code,
                                  const std::string& what) {
    const auto refused = (*model)->WithParts(
        gguf::File::Open(folder.Write("p.gguf", parts.Bytes())).value());
    ASSERT_FALSE(refused) << what;
    EXPECT_EQ(refused.error().code, code);
    EXPECT_THAT(refused.error().message,
                AllOf(HasSubstr("p.gguf"), HasSubstr(what)));
  };
  TestFile parts;
  AddTestParts(parts);
  expect_refused(TestFile(parts).SetTensor("blk.1.tc_selftest.inputs",
                                           DType::kF32, {16, 3}),
                 ErrorCode::kCorrupt, "tc_selftest.inputs");
  expect_refused(TestFile(parts).SetText(prepared::kActivation, "drelu"),
                 ErrorCode::kInvalidArgument, "needs a gate");
  expect_refused(TestFile(parts).SetU32(prepared::kVersionKey, 2),
                 ErrorCode::kUnsupported, "newer version");
}

TEST(Model, ErrorsOfAllParts) {
  ExpectNotOpened(TestModel().Remove("llama.block_count"), ErrorCode::kCorrupt,
                  "block_count");
  ExpectNotOpened(TestModel().RemoveTensor("output_norm.weight"),
                  ErrorCode::kCorrupt, "output_norm.weight");
  ExpectNotOpened(TestModel().SetU32("tokenizer.ggml.scores", 1),
                  ErrorCode::kCorrupt, "scores");
}

TEST(Model, SplitFilesBesideIt) {
  TestLog log;
  const os::TestFolder folder;
  const auto open = [&](TestFile split) {
    OpenOptions options;
    options.split_path = folder.Write("split", split.Bytes());
    return Opened(TestModel(), options).model;
  };
  const auto ordered = open(TestOrder(2, 64));
  ASSERT_TRUE(ordered) << ordered.error().message;
  EXPECT_EQ((*ordered)->hot_neurons(), nullptr);
  ASSERT_NE((*ordered)->neuron_order(), nullptr);
  EXPECT_EQ((*ordered)->neuron_order()->layers[1][1], 4u);
  EXPECT_THAT(log.lines(), IsEmpty());
  const auto hot = open(TestHot(2, 64));
  ASSERT_TRUE(hot) << hot.error().message;
  EXPECT_EQ((*hot)->neuron_order(), nullptr);
  ASSERT_NE((*hot)->hot_neurons(), nullptr);
  EXPECT_EQ((*hot)->hot_neurons()->layers[0].size(), 32u);
  EXPECT_THAT(log.lines(), ElementsAre(HasSubstr("for a GPU")));
  const auto other = open(TestOrder(2, 32));
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message,
              AllOf(HasSubstr(folder / "split"), HasSubstr("another model?")));
  const auto missing =
      Opened(TestModel(), {.split_path = folder / "none"}).model;
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
}

TEST(Model, NoSplitFileForNeuronsWithOtherNumbers) {
  const os::TestFolder folder;
  TestFile file = TestModelWithParts();
  std::string reversed;
  for (int32_t i = 63; i >= 0; --i) reversed += gguf::Raw(i);
  for (const std::string blk : {"blk.0.", "blk.1."}) {
    file.SetTensor(blk + "tc_source_neurons", DType::kI32, {64}, reversed);
  }
  ASSERT_TRUE(Opened(file).model);
  OpenOptions options;
  options.split_path = folder.Write("split", TestOrder(2, 64).Bytes());
  const auto refused = Opened(file, options).model;
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(refused.error().message, HasSubstr("was prepared from"));
}

TEST(Model, OverridesReachTheConfig) {
  OpenOptions options;
  options.overrides.ffn_activation = Activation::kRelu;
  const Opened opened(TestModel(), options);
  ASSERT_TRUE(opened.model) << opened.model.error().message;
  EXPECT_EQ(CommonFfn((*opened.model)->config()).activation, Activation::kRelu);
}

TEST(Model, WithoutAVocabulary) {
  TestLog log;
  const Opened opened(TestModel().Remove("tokenizer.ggml.model"));
  ASSERT_TRUE(opened.model) << opened.model.error().message;
  EXPECT_EQ((*opened.model)->tokenizer(), nullptr);
  EXPECT_THAT(log.lines(), IsEmpty());
}

TEST(Model, OpensWithAWarningWhenWeLackTheTokenizer) {
  TestLog log;
  const Opened opened(TestModel().SetText("tokenizer.ggml.model", "t5"));
  ASSERT_TRUE(opened.model) << opened.model.error().message;
  EXPECT_EQ((*opened.model)->tokenizer(), nullptr);
  EXPECT_THAT(log.lines(), ElementsAre(AllOf(HasSubstr("\"t5\""),
                                             HasSubstr("only token ids"))));
}

TEST(Model, OpensWithAWarningWhenWeLackThePreTokenizer) {
  TestLog log;
  const Opened opened(TestModel()
                          .SetText("tokenizer.ggml.model", "gpt2")
                          .SetText("tokenizer.ggml.pre", "of-the-future")
                          .SetTexts("tokenizer.ggml.merges", {"a b"}));
  ASSERT_TRUE(opened.model) << opened.model.error().message;
  EXPECT_EQ((*opened.model)->tokenizer(), nullptr);
  EXPECT_THAT(log.lines(), ElementsAre(AllOf(HasSubstr("test.gguf"),
                                             HasSubstr("of-the-future"))));
}

TEST(Model, VocabularyLargerThanTheEmbedding) {
  ExpectNotOpened(TestModel()
                      .SetTensor("token_embd.weight", DType::kF16, {32, 5})
                      .SetTensor("output.weight", DType::kF16, {32, 5}),
                  ErrorCode::kCorrupt, "has 6 tokens");
}

TEST(Model, EmbeddingLargerThanTheVocabulary) {
  TestLog log;
  const Opened opened(TestModel()
                          .SetTensor("token_embd.weight", DType::kF16, {32, 8})
                          .SetTensor("output.weight", DType::kF16, {32, 8}));
  ASSERT_TRUE(opened.model) << opened.model.error().message;
  EXPECT_EQ((*opened.model)->config().vocab_size, 8);
  EXPECT_THAT(log.lines(), ElementsAre(HasSubstr("6 tokens for 8 rows")));
}

TEST(Model, ScansTensorsOnRequest) {
  std::string data(32 * 4, '\0');
  const float infinity = std::numeric_limits<float>::infinity();
  std::memcpy(data.data() + 4, &infinity, 4);
  const TestFile file =
      TestModel().SetTensor("output_norm.weight", DType::kF32, {32}, data);
  EXPECT_TRUE(Opened(file).model);
  OpenOptions options;
  options.check_tensors = true;
  int num_calls = 0;
  options.progress = [&](std::string_view, uint64_t, uint64_t) { ++num_calls; };
  const Opened opened(file, options);
  ASSERT_FALSE(opened.model);
  EXPECT_EQ(opened.model.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(opened.model.error().message,
              AllOf(HasSubstr("output_norm.weight"), HasSubstr("element 1")));
  EXPECT_GT(num_calls, 0);
  std::string records(64 * 64, '\0');
  records[1] = '\x7c';  // the scale of the first neuron's gate row
  EXPECT_FALSE(
      Opened(TestPreparedModel().SetTensor("blk.0.ffn_records.weight",
                                           DType::kI8, {64, 64}, records),
             {.check_tensors = true})
          .model);
}

// Refusals come before anything is read, and what is read computes as mapped.
TEST(Model, HoldsItsWeightsOnceAdmitted) {
  const os::TestFolder folder;
  const std::string path = folder.Write("m.gguf", TestModel().Bytes());
  uint64_t num_read = 0;
  OpenOptions options;
  options.hold.read = true;
  options.hold_progress = [&](std::string_view, uint64_t num_done, uint64_t) {
    num_read = num_done;
  };
  options.admit = [&](const Config& config, uint64_t num_bytes) -> Status {
    EXPECT_EQ(config.width, 32);
    EXPECT_EQ(num_bytes, std::filesystem::file_size(path));
    return Fail(ErrorCode::kResourceExhausted, "no room");
  };
  const auto refused = Model::Open(path, options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "no room");
  EXPECT_EQ(num_read, 0u);

  options.admit = {};
  const auto model = Model::Open(path, options);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(num_read, std::filesystem::file_size(path));
  EXPECT_TRUE((*model)->file().held().read);
  const TensorView head = (*model)->weights().head;
  EXPECT_EQ(head.data, (*model)->file().FindTensor("output.weight")->data);

  const auto broken = Model::Open(
      folder.Write("b.gguf",
                   TestModel().RemoveTensor("output_norm.weight").Bytes()),
      {.hold = {.read = true}, .hold_progress = [](auto, auto, auto) {
         ADD_FAILURE() << "read for nothing";
       }});
  EXPECT_FALSE(broken);
}

TEST(Model, MayBeToldNotToLeaveTensors) {
  const os::TestFolder folder;
  const std::string path = folder.Write("m.gguf", TestPreparedModel().Bytes());
  OpenOptions options;
  options.leaves = [](const gguf::File& file, const Config&) {
    return Result<std::vector<std::string>>({file.tensors()[0].name});
  };
  options.check_tensors = true;
  const auto scanned = Model::Open(path, options);
  ASSERT_FALSE(scanned);
  EXPECT_THAT(scanned.error().message, HasSubstr("cannot all be scanned"));
  options.leaves = [](const gguf::File&,
                      const Config&) -> Result<std::vector<std::string>> {
    return Fail(ErrorCode::kResourceExhausted, "no room");
  };
  EXPECT_FALSE(Model::Open(path, options));
}

std::vector<std::string> NamesOfRecords() {
  std::vector<std::string> names;
  for (size_t i = 0; i < kTestLayers; ++i) {
    names.push_back(prepared::OfLayer(i, prepared::kRecords));
  }
  return names;
}

TEST(Model, LeavesRecordsInTheFile) {
  const os::TestFolder folder;
  const std::string path = folder.Write("m.gguf", TestPreparedModel().Bytes());
  bool leaves = false;
  OpenOptions options;
  uint64_t record_bytes = 0;
  uint64_t admitted_bytes = 0;
  options.leaves = [&](const gguf::File& file, const Config& config) {
    EXPECT_EQ(config.width, 32);
    const std::vector<std::string> names = NamesOfRecords();
    record_bytes = 0;
    for (const std::string& name : names) {
      record_bytes += file.FindTensor(name)->num_bytes;
    }
    return Result<std::vector<std::string>>(
        leaves ? names : std::vector<std::string>());
  };
  options.admit = [&](const Config&, uint64_t num_bytes) -> Status {
    admitted_bytes = num_bytes;
    return {};
  };
  const auto mapped = Model::Open(path, options);
  ASSERT_TRUE(mapped) << mapped.error().message;
  EXPECT_FALSE((*mapped)->is_partly_left());
  EXPECT_TRUE((*mapped)->weights().layers[1].ffn.up.in_memory());
  EXPECT_EQ(admitted_bytes, 0u);

  leaves = true;
  const auto left = Model::Open(path, options);
  ASSERT_TRUE(left) << left.error().message;
  EXPECT_TRUE((*left)->is_partly_left());
  const FfnWeights& ffn = (*left)->weights().layers[1].ffn;
  EXPECT_FALSE(ffn.up.in_memory());
  EXPECT_TRUE(ffn.up && ffn.gate && ffn.down_t);
  EXPECT_TRUE(ffn.norm.in_memory() && (*left)->weights().head.in_memory());
  EXPECT_EQ((*left)->RecordSpan(1).value().num_bytes,
            record_bytes / kTestLayers);
  EXPECT_EQ(admitted_bytes, (*left)->file().num_held_bytes());
  EXPECT_FALSE((*left)->RecordSpan(kTestLayers));
}

TEST(Model, OpensTheRealFiles) {
  namespace fs = std::filesystem;
  const fs::path root = TC_TEST_DATA;
  std::vector<fs::path> paths = {root / "models/stories260K.gguf"};
  for (const auto& entry : fs::directory_iterator(root / "golden")) {
    if (entry.path().extension() == ".gguf") paths.push_back(entry.path());
  }
  ASSERT_GE(paths.size(), 12u);
  OpenOptions options;
  options.check_tensors = true;
  for (const fs::path& path : paths) {
    const auto model = Model::Open(path, options);
    ASSERT_TRUE(model) << model.error().message;
    const Model& m = **model;
    EXPECT_NE(m.tokenizer(), nullptr) << path;
    const bool is_tied = path.string().find("tied") != std::string::npos;
    EXPECT_EQ(m.weights().rope_freq_factors.size(), is_tied ? 8u : 0u) << path;
    const std::string stem = path.filename().string();
    EXPECT_EQ(m.config().architecture, stem.starts_with("qwen2")    ? "qwen2"
                                       : stem.starts_with("falcon") ? "falcon"
                                                                    : "llama");
  }
}

TEST(Model, OpensPowerInfersFiles) {
  namespace fs = std::filesystem;
  const fs::path root = std::string(TC_TEST_DATA) + "/golden-powerinfer";
  int num_models = 0;
  for (const auto& entry : fs::directory_iterator(root)) {
    if (entry.path().extension() != ".gguf") continue;
    const auto model = Model::Open(entry.path());
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_EQ((*model)->config().predictor.kind, PredictorKind::kPowerInfer);
    for (const LayerWeights& layer : (*model)->weights().layers) {
      EXPECT_TRUE(layer.predictor.up && layer.predictor.down);
      EXPECT_TRUE(layer.ffn.down_t && !layer.ffn.down);
    }
    ++num_models;
  }
  EXPECT_EQ(num_models, 5);
}

}  // namespace
}  // namespace thermocline::model
