#include "training/prepare.h"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

#include "base/remedy.h"
#include "engine/session.h"
#include "pack/part_file.h"
#include "training/testing.h"
#include "training/threshold_search.h"
#include "training/work_folder.h"

namespace thermocline::training {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class PrepareTest : public ::testing::Test {
 protected:
  PrepareTest() {
    folder_ = ::testing::TempDir() + "/prepare-" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(folder_);
    fs::create_directory(folder_);
    output_ = folder_ + "/out.gguf";
    options_.corpus_name = "valid.txt";
    options_.session = {.num_threads = 2};
    options_.num_steps = 20;
    options_.training_free = false;
  }
  ~PrepareTest() override { fs::remove_all(folder_); }

  std::string folder_;
  std::string output_;
  FindOptions options_;
  std::shared_ptr<const model::Model> model_ = OpenTiny();
  Corpus corpus_ = SmallCorpus(*model_, 16);
};

TEST_F(PrepareTest, AModelThatRunsFast) {
  const auto prepared =
      PrepareTo(model_, corpus_, options_, {.num_threads = 2}, output_);
  ASSERT_TRUE(prepared) << prepared.error().message;
  EXPECT_FALSE(prepared->is_resumed);
  EXPECT_EQ(prepared->packed->down_error, 0);
  EXPECT_FALSE(fs::exists(WorkFolder::PathFor(output_)));
  const auto opened = model::Model::Open(output_);
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_EQ((*opened)->config().predictor.kind,
            model::PredictorKind::kThermocline);
  EXPECT_TRUE((*opened)->weights().layers[0].ffn.bundled);
  const auto session = engine::Session::Create(*opened, {.num_threads = 2});
  ASSERT_TRUE(session) << session.error().message;
  EXPECT_EQ((*session)->ffn(), engine::FfnMode::kFast);
}

TEST_F(PrepareTest, TheSameBytesAfterAnInterruption) {
  ASSERT_TRUE(
      PrepareTo(model_, corpus_, options_, {.num_threads = 2}, output_));
  const std::string whole = ReadAll(output_);
  fs::remove(output_);
  std::atomic<bool> cancel = false;
  options_.session.cancel = &cancel;
  options_.progress = [&](std::string_view what, uint64_t, uint64_t) {
    if (what.starts_with("layer 2 ")) cancel = true;
  };
  const auto stopped =
      PrepareTo(model_, corpus_, options_, {.num_threads = 2}, output_);
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, ErrorCode::kCancelled);
  EXPECT_FALSE(fs::exists(output_));
  ASSERT_TRUE(fs::exists(WorkFolder::PathFor(output_)));
  options_.session.cancel = nullptr;
  const auto resumed =
      PrepareTo(model_, corpus_, options_, {.num_threads = 1}, output_);
  ASSERT_TRUE(resumed) << resumed.error().message;
  EXPECT_TRUE(resumed->is_resumed);
  EXPECT_EQ(resumed->findings.num_layers_kept, 1u);
  EXPECT_TRUE(ReadAll(output_) == whole);
  EXPECT_FALSE(fs::exists(WorkFolder::PathFor(output_)));
}

TEST_F(PrepareTest, OtherOptionsDoNotGoOn) {
  std::atomic<bool> cancel = true;
  options_.session.cancel = &cancel;
  EXPECT_FALSE(TrainTo(model_, corpus_, options_, output_));
  options_.seed = 9;
  const auto other = TrainTo(model_, corpus_, options_, output_);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(other.error().message, HasSubstr("seed: 0"));
}

// Norms, sizes and all options are the same.
TEST_F(PrepareTest, AnotherModelsFfnsDoNotGoOn) {
  std::atomic<bool> cancel = true;
  options_.session.cancel = &cancel;
  EXPECT_FALSE(TrainTo(model_, corpus_, options_, output_));
  const auto twin = OpenTinyTwin(folder_ + "/twin.gguf");
  const auto other = TrainTo(twin, corpus_, options_, output_);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(other.error().message, HasSubstr("weights: "));
}

TEST_F(PrepareTest, TwoAtOnceWithOneOutput) {
  const auto running = WorkFolder::Open(WorkFolder::PathFor(output_), "a\n");
  ASSERT_TRUE(running) << running.error().message;
  const auto second = TrainTo(model_, corpus_, options_, output_);
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message, HasSubstr("is at work there"));
  EXPECT_TRUE(fs::exists(running->path()));
}

// Before the first stage is written, and between others. What the next command
// begins in a new folder of that name stays its own.
TEST_F(PrepareTest, AFolderThatIsReplacedIsNotWrittenTo) {
  const std::string path = WorkFolder::PathFor(output_);
  for (const char* stage : {"profiling", "layer 2 "}) {
    std::optional<WorkFolder> next;
    options_.progress = [&](std::string_view what, uint64_t, uint64_t) {
      if (next || !what.starts_with(stage)) return;
      fs::remove_all(path);
      auto opened = WorkFolder::Open(path, "next\n");
      if (opened) next.emplace(*std::move(opened));
    };
    const auto replaced =
        PrepareTo(model_, corpus_, options_, {.num_threads = 2}, output_);
    ASSERT_TRUE(next.has_value()) << stage;
    ASSERT_FALSE(replaced) << stage;
    EXPECT_THAT(replaced.error().message, HasSubstr("deleted or replaced"));
    EXPECT_FALSE(fs::exists(output_));
    EXPECT_TRUE(next->IsEmpty()) << stage;
    EXPECT_TRUE(fs::exists(path + "/description.txt")) << stage;
    EXPECT_TRUE(next->Remove());
  }
}

// So that the next try may ask for something else.
TEST_F(PrepareTest, ARefusalLeavesNothing) {
  const auto silu = OpenTestModel("testdata/models/stories260K.gguf");
  const Corpus corpus = SmallCorpus(*silu, 16);
  const auto refused = PrepareTo(silu, corpus, options_, {}, output_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  EXPECT_FALSE(fs::exists(WorkFolder::PathFor(output_)));
  options_.density = 0.5;
  EXPECT_TRUE(PrepareTo(silu, corpus, options_, {}, output_));
}

// What is told of thresholds holds for the file that is written, also where a
// flag gave the model its activation.
TEST_F(PrepareTest, ThresholdsCostWhatIsTold) {
  model::OpenOptions open;
  open.overrides.ffn_activation = Activation::kGelu;
  const auto gelu = OpenTestModel("testdata/models/stories260K.gguf", open);
  const Corpus corpus = SmallCorpus(*gelu, 16);
  options_.predictors = false;
  options_.max_ppl_cost = 0.05;
  const auto prepared = PrepareTo(gelu, corpus, options_, {}, output_);
  ASSERT_TRUE(prepared) << prepared.error().message;
  const Findings& found = prepared->findings;
  ASSERT_TRUE(found.threshold_perplexity && found.dense_perplexity);
  EXPECT_LE(*found.threshold_perplexity, 1.05 * *found.dense_perplexity);
  const auto written = model::Model::Open(output_);
  ASSERT_TRUE(written) << written.error().message;
  const auto measure = [&](const std::vector<float>& thresholds) {
    const auto value =
        MeasurePerplexity(*written, corpus, 256, options_.session, thresholds);
    EXPECT_TRUE(value) << value.error().message;
    return value.value_or(0.0);
  };
  EXPECT_NEAR(measure({}) / *found.dense_perplexity, 1.0, 1e-3);
  EXPECT_NEAR(
      measure((*written)->config().thresholds) / *found.threshold_perplexity,
      1.0, 1e-3);
}

// The file runs in the fast mode, and its self-test holds.
TEST_F(PrepareTest, AMixtureRunsFast) {
  model::OpenOptions open;
  open.overrides.ffn_activation = Activation::kRelu;
  const auto mixture =
      OpenTestModel("testdata/golden/mixtral-8x2-f16.gguf", open);
  // Weights are random: there is little to be learnt.
  options_.goal = {.recall = 0.8, .recall_floor = 0.7};
  const auto prepared =
      PrepareTo(mixture, SmallCorpus(*mixture, 16), options_, {}, output_);
  ASSERT_TRUE(prepared) << prepared.error().message;
  const auto model = model::Model::Open(output_);
  ASSERT_TRUE(model) << model.error().message;
  for (const auto predictor : {engine::PredictorChoice::kTrained,
                               engine::PredictorChoice::kTrainingFree}) {
    const auto session = engine::Session::Create(
        *model, {.ffn = engine::FfnMode::kFast, .predictor = predictor});
    ASSERT_TRUE(session) << session.error().message;
    const std::vector<text::TokenId> tokens = {1, 2};
    std::vector<float> logits((*model)->config().vocab_size);
    EXPECT_TRUE((*session)->Prompt(tokens, engine::LogitsOf::kLast, logits));
  }
}

TEST_F(PrepareTest, TrainingAloneWritesTheSameParts) {
  const auto trained = TrainTo(model_, corpus_, options_, output_);
  ASSERT_TRUE(trained) << trained.error().message;
  const auto parts =
      pack::ReadParts(**gguf::File::Open(output_), model_->config());
  ASSERT_TRUE(parts) << parts.error().message;
  EXPECT_EQ(parts->predictors, trained->findings.parts.predictors);
  EXPECT_EQ(parts->self_test, trained->findings.parts.self_test);
}

// Before anything is read or made.
TEST_F(PrepareTest, NothingToTrain) {
  struct Case {
    std::shared_ptr<const model::Model> model;
    std::vector<std::string> parts;
  };
  const Case cases[] = {
      {OpenTestModel("testdata/models/stories260K.gguf"),
       {"stories260K.gguf", "silu"}},
      {OpenTestModel("testdata/golden/mixtral-8x2-f16.gguf"), {"silu"}}};
  for (const Case& c : cases) {
    const auto trained =
        TrainTo(c.model, SmallCorpus(*c.model, 16), options_, output_);
    ASSERT_FALSE(trained);
    EXPECT_EQ(trained.error().code, ErrorCode::kUnsupported);
    EXPECT_EQ(trained.error().advice.remedy, Remedy::kCalibrate);
    for (const std::string& part : c.parts) {
      EXPECT_THAT(trained.error().message, HasSubstr(part));
    }
    EXPECT_FALSE(fs::exists(WorkFolder::PathFor(output_)));
  }
}

}  // namespace
}  // namespace thermocline::training
