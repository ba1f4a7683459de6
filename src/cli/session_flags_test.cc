#include "cli/session_flags.h"
#include "cli/open_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "cli/remedies.h"
#include "cli/signals.h"
#include "cli/test_files.h"
#include "cli/test_main.h"
#include "model/prepared_names.h"
#include "model/test_model.h"
#include "os/test_folder.h"

namespace thermocline::cli {
namespace {

using ::testing::HasSubstr;

struct AllFlags {
  CLI::App app;
  ModelFlags model;
  SessionFlags session;
  AllFlags() {
    AddModelFlags(app, model);
    AddThreadsFlag(app, session);
    AddContextFlag(app, session, "the model's");
    AddEngineFlags(app, model, session);
  }
  std::string Parse(std::vector<std::string> args) {
    std::reverse(args.begin(), args.end());
    try {
      app.parse(args);
    } catch (const CLI::ParseError& error) {
      return error.what();
    }
    return "";
  }
};

TEST(SessionFlagsTest, BecomeOptions) {
  AllFlags flags;
  ASSERT_EQ(flags.Parse({"-m",
                         "a.gguf",
                         "-t",
                         "3",
                         "-c",
                         "99",
                         "-b",
                         "7",
                         "--ctk",
                         "q8_0",
                         "--ctv",
                         "F32",
                         "--isa",
                         "scalar",
                         "--ffn-act",
                         "fatrelu",
                         "--ffn-threshold",
                         "0.25",
                         "--check-tensors",
                         "--no-mmap",
                         "--mlock",
                         "--ffn",
                         "fast",
                         "--sparse-threshold",
                         "-0.5",
                         "--split",
                         "a.gpuidx"}),
            "");
  EXPECT_EQ(flags.model.path, "a.gguf");
  EXPECT_TRUE(flags.model.check_tensors);
  EXPECT_TRUE(flags.model.hold.read);
  EXPECT_TRUE(flags.model.hold.lock);
  EXPECT_EQ(flags.model.overrides.ffn_activation, Activation::kFatRelu);
  EXPECT_EQ(flags.model.overrides.ffn_threshold, 0.25f);
  EXPECT_EQ(flags.model.overrides.predictor_threshold, -0.5f);
  EXPECT_EQ(flags.model.split_path, "a.gpuidx");
  ProgressLine progress;
  const engine::SessionOptions options =
      *MakeSessionOptions(flags.session, {.context_length = 1000}, progress);
  EXPECT_EQ(options.context, 99);
  EXPECT_EQ(options.num_threads, 3);
  EXPECT_EQ(options.batch, 7);
  EXPECT_EQ(options.k_type, DType::kQ8_0);
  EXPECT_EQ(options.v_type, DType::kF32);
  EXPECT_EQ(options.isa, kernels::Isa::kScalar);
  EXPECT_EQ(options.ffn, engine::FfnMode::kFast);
  EXPECT_EQ(options.cancel, CancelFlag());
}

TEST(InputFilesOfTest, AreAllThatFlagsName) {
  using ::testing::ElementsAre;
  ModelFlags flags = {.path = "m.gguf"};
  EXPECT_THAT(InputFilesOf(flags, {}), ElementsAre("m.gguf"));
  flags.split_path = "m.gpuidx";
  EXPECT_THAT(
      InputFilesOf(flags, {.machine = "card.json",
                           .plan_path = "plan.json",
                           .counts_path = "p.gguf"}),
      ElementsAre("m.gguf", "m.gpuidx", "card.json", "plan.json", "p.gguf"));
  EXPECT_THAT(InputFilesOf(ModelFlags(), {}), ElementsAre());
}

TEST(SessionFlagsTest, ContextZeroIsTheModelsOwn) {
  ProgressLine progress;
  const model::Config config = {.context_length = 100000};
  SessionFlags flags;
  EXPECT_EQ(MakeSessionOptions(flags, config, progress)->context, 0);
  flags.context = 0;
  EXPECT_EQ(MakeSessionOptions(flags, config, progress)->context, 100000);
}

TEST(SessionFlagsTest, RefuseWhatCannotBe) {
  AllFlags flags;
  EXPECT_THAT(flags.Parse({"-m", "a", "--isa", "mmx"}),
              HasSubstr("'mmx' is not known; choose from scalar"));
  EXPECT_THAT(flags.Parse({"-m", "a", "--ctk", "q4_0"}),
              HasSubstr("f32, f16, q8_0"));
  EXPECT_THAT(flags.Parse({"-m", "a", "--ffn-act", "tanh"}),
              HasSubstr("silu, gelu"));
  EXPECT_THAT(flags.Parse({"-m", "a", "--ffn", "sparse"}),
              HasSubstr("auto, dense, exact, fast, threshold"));
  EXPECT_THAT(flags.Parse({"-m", "a", "--sparse-threshold", "nan"}),
              HasSubstr("--sparse-threshold"));
  EXPECT_THAT(flags.Parse({"-m", "a", "-b", "0"}), HasSubstr("out of range"));
  EXPECT_THAT(flags.Parse({"-m", "a", "-t", "513"}), HasSubstr("0 to 512"));
}

TEST(CheckScoresAreUsedTest, OneModeAsksTheFilesPredictors) {
  using enum engine::FfnMode;
  using engine::PredictorChoice;
  ModelFlags flags;
  EXPECT_NO_THROW(
      CheckScoresAreUsed(flags, PredictorChoice::kTrainingFree, {kDense}));
  flags.overrides.predictor_threshold = 1.0f;
  for (const PredictorChoice own :
       {PredictorChoice::kAuto, PredictorChoice::kTrained}) {
    EXPECT_NO_THROW(CheckScoresAreUsed(flags, own, {kAuto}));
    EXPECT_NO_THROW(CheckScoresAreUsed(flags, own, {kDense, kFast}));
    EXPECT_THROW(CheckScoresAreUsed(flags, own, {kDense, kExact, kThreshold}),
                 CLI::ValidationError);
  }
  for (const PredictorChoice other :
       {PredictorChoice::kTrainingFree, PredictorChoice::kNone}) {
    EXPECT_THROW(CheckScoresAreUsed(flags, other, {kFast}),
                 CLI::ValidationError);
  }
}

TEST(DescribeModeTest, NamesWhatRuns) {
  const auto model = model::Model::Open(kLlamaF16);
  ASSERT_TRUE(model.has_value()) << model.error().message;
  engine::SessionOptions options = {.context = 64,
                                    .num_threads = 1,
                                    .v_type = DType::kF32,
                                    .isa = kernels::Isa::kScalar};
  const auto session = CreateSession(*model, options);
  ASSERT_TRUE(session.has_value()) << session.error().message;
  EXPECT_THAT(DescribeMode(**session, options),
              ::testing::StartsWith(
                  "dense, scalar, 1 thread, context 64, KV f16/f32 "));
}

TEST(DescribeModeTest, NamesWhosePredictors) {
  const auto model = model::Model::Open(
      InTestData("golden-powerinfer/llama-thr-f16.powerinfer.gguf"));
  ASSERT_TRUE(model.has_value()) << model.error().message;
  engine::SessionOptions options = {.context = 64, .num_threads = 1};
  for (const auto& [mode, name] :
       {std::pair(engine::FfnMode::kAuto,
                  "fast (PowerInfer predictors, threshold 0.4), "),
        std::pair(engine::FfnMode::kDense, "dense, ")}) {
    options.ffn = mode;
    const auto session = CreateSession(*model, options);
    ASSERT_TRUE(session.has_value()) << session.error().message;
    EXPECT_THAT(DescribeMode(**session, options), ::testing::StartsWith(name));
  }
}

TEST(DescribeModeTest, MarksWhatIsSynthetic) {
  os::TestFolder folder;
  gguf::TestFile file = model::TestModel();
  const engine::SessionOptions options = {.context = 8, .num_threads = 1};
  const auto describe = [&] {
    const auto model = model::Model::Open(folder.Write("m.gguf", file.Bytes()));
    EXPECT_TRUE(model.has_value()) << model.error().message;
    return DescribeMode(**CreateSession(*model, options), options);
  };
  EXPECT_THAT(describe(), ::testing::EndsWith(", weights mapped"));
  file.SetText(model::prepared::kSynthetic, "like tiny");
  EXPECT_THAT(describe(), ::testing::EndsWith(", synthetic model"));
}

TEST(DescribeModeTest, SaysWhereWeightsAre) {
  ProgressLine progress;
  ModelFlags flags = {.path = kLlamaF16};
  flags.hold.read = true;
  const auto model = OpenModel(flags, progress);
  ASSERT_TRUE(model.has_value()) << model.error().message;
  const engine::SessionOptions options = {.context = 64, .num_threads = 1};
  const auto session = CreateSession(*model, options);
  ASSERT_TRUE(session.has_value()) << session.error().message;
  EXPECT_THAT(DescribeMode(**session, options),
              ::testing::EndsWith(", weights read"));
}

TEST(ParseModeTest, NamesOfTheFlagFfn) {
  EXPECT_EQ(ParseMode("dense").value(), engine::FfnMode::kDense);
  const auto bad = ParseMode("den\nse");
  ASSERT_FALSE(bad.has_value());
  EXPECT_THAT(bad.error().message,
              HasSubstr("'den\\nse' is not one of auto, "));
}

}  // namespace
}  // namespace thermocline::cli
