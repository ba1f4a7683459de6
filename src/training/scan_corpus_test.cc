#include "training/scan_corpus.h"

#include <filesystem>

#include "base/remedy.h"
#include "training/testing.h"

namespace thermocline::training {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class ScanCorpusTest : public ::testing::Test {
 protected:
  ScanCorpusTest() {
    path_ = ::testing::TempDir() + "/scanned-" +
            ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(path_);
    options_.corpus_name = "valid.txt";
    options_.session = {.num_threads = 2, .ffn = engine::FfnMode::kDense};
  }
  ~ScanCorpusTest() override { fs::remove_all(path_); }

  WorkFolder Work() { return WorkFolder::Open(path_, "test\n").value(); }
  Status Scan(const std::shared_ptr<const model::Model>& model) {
    return ScanCorpus(model, SmallCorpus(*model, 16), options_, Work(), nullptr,
                      stages_);
  }

  std::string path_;
  FindOptions options_;
  std::vector<Stage> stages_;
};

TEST_F(ScanCorpusTest, LeavesWhatIsReadAgain) {
  const auto model = OpenTiny();
  const Corpus corpus = SmallCorpus(*model, 16);
  SampleStore store(corpus, 64, LayerRange{0, 2}, model->config().width,
                    NeuronsOf(model->config()));
  EXPECT_FALSE(IsScanned(Work()));
  ASSERT_TRUE(ScanCorpus(model, corpus, options_, Work(), &store, stages_));
  EXPECT_TRUE(IsScanned(Work()));
  ASSERT_EQ(stages_.size(), 1u);
  EXPECT_EQ(stages_[0].name, "profile and samples");
  EXPECT_EQ(store.train(0, 1).num_samples, 56u);
  const auto scanned = ReadScanned(*model, Work());
  ASSERT_TRUE(scanned) << scanned.error().message;
  EXPECT_EQ(scanned->profile.corpus, "valid.txt");
  EXPECT_EQ(scanned->profile.context, 16);
  EXPECT_EQ(scanned->profile.profile.num_tokens(), corpus.num_tokens());
  EXPECT_EQ(scanned->scan.self_test.size(), 2u);
  EXPECT_TRUE(scanned->scan.thresholds.empty());
}

TEST_F(ScanCorpusTest, ASiluModelNeedsThresholds) {
  const auto model = OpenTestModel("testdata/models/stories260K.gguf");
  const Status scanned = Scan(model);
  ASSERT_FALSE(scanned);
  EXPECT_EQ(scanned.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(scanned.error().message,
              AllOf(HasSubstr("100.0 % of the neurons fire"),
                    HasSubstr("over 16 tokens")));  // the first chunk said it
  EXPECT_EQ(scanned.error().advice.remedy, Remedy::kCalibrateForRest);
  EXPECT_FALSE(IsScanned(Work()));

  options_.density = 0.25;
  ASSERT_TRUE(Scan(model));
  EXPECT_EQ(stages_.back().name, "profile with thresholds");
  const auto read = ReadScanned(*model, Work());
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->scan.thresholds.size(), 5u);
  EXPECT_FALSE(read->scan.choice);
  // Of what the thresholds leave: an eighth of the text has not chosen them.
  EXPECT_EQ(read->profile.profile.num_tokens(),
            SmallCorpus(*model, 16).num_tokens());
  for (const neuron::LayerProfile& layer : read->profile.profile.layers) {
    EXPECT_NEAR(layer.density(), 0.25, 0.05);
  }

  // Nearly all fire: no reason to refuse what was asked for.
  options_.density = 0.98;
  EXPECT_TRUE(Scan(model));
}

// A token uses two experts of eight: a fourth of all neurons fires, and all
// that could.
TEST_F(ScanCorpusTest, OfAMixtureTheExpertsThatAreUsedCount) {
  const Status scanned =
      Scan(OpenTestModel("testdata/golden/mixtral-8x2-f16.gguf"));
  ASSERT_FALSE(scanned);
  EXPECT_EQ(scanned.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(scanned.error().message,
              AllOf(HasSubstr("100.0 % of the neurons of a token's experts"),
                    HasSubstr("silu, is never 0")));
  EXPECT_EQ(scanned.error().advice.remedy, Remedy::kCalibrateForRest);
}

TEST_F(ScanCorpusTest, DamageIsNamed) {
  const auto model = OpenTiny();
  ASSERT_TRUE(Scan(model));
  const auto expect_named = [&](const model::Model& of, const char* name) {
    const auto read = ReadScanned(of, Work());
    ASSERT_FALSE(read);
    EXPECT_THAT(read.error().message,
                AllOf(HasSubstr(name), HasSubstr("delete " + path_)));
  };
  expect_named(*OpenDemo(), "profile.gguf");
  const std::string scan = path_ + "/scan.gguf";
  const std::string profile = path_ + "/profile.gguf";
  fs::resize_file(scan, fs::file_size(scan) / 2);
  expect_named(*model, "scan.gguf");
  fs::resize_file(profile, fs::file_size(profile) / 2);
  expect_named(*model, "profile.gguf");
}

}  // namespace
}  // namespace thermocline::training
