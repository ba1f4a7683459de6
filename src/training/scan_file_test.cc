#include "training/scan_file.h"

#include <cmath>
#include <cstdio>
#include <filesystem>

#include "pack/part_file.h"
#include "training/testing.h"

namespace thermocline::training {
namespace {

using ::testing::HasSubstr;

model::Config StoriesConfig() {
  model::Config config =
      OpenTestModel("testdata/models/stories260K.gguf")->config();
  config.num_layers = 2;
  config.width = 32;
  model::LayerSpec layer = config.layers.front();
  layer.ffn.width = 64;
  config.layers = {layer, layer};
  return config;
}

ScanFile SmallScan() {
  const pack::LayerSelfTest test = {.inputs = std::vector<float>(2 * 32, 0.5f),
                                    .fired = {{0, 7}, {63}}};
  return {.self_test = {test, test},
          .thresholds = {0.125f, 0.25f},
          .choice = DensityChoice{
              .density = 0.5, .perplexity = 11, .dense_perplexity = 10}};
}

class ScanFileTest : public ::testing::Test {
 protected:
  ScanFileTest() {
    path_ = ::testing::TempDir() + "/scan-" +
            ::testing::UnitTest::GetInstance()->current_test_info()->name() +
            ".gguf";
  }
  ~ScanFileTest() override { std::remove(path_.c_str()); }

  Result<ScanFile> WriteAndRead(const ScanFile& scan) {
    const Status written = WriteScanFile(scan, config_, path_);
    EXPECT_TRUE(written) << written.error().message;
    return ReadScanFile(path_, config_);
  }

  std::string path_;
  model::Config config_ = StoriesConfig();
};

TEST_F(ScanFileTest, ComesBackAsItWas) {
  ScanFile scan = SmallScan();
  auto read = WriteAndRead(scan);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, scan);
  scan.choice.reset();
  read = WriteAndRead(scan);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, scan);
  scan.thresholds.clear();
  read = WriteAndRead(scan);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, scan);
}

TEST_F(ScanFileTest, CutOffAnywhere) {
  ASSERT_TRUE(WriteScanFile(SmallScan(), config_, path_));
  const auto size = std::filesystem::file_size(path_);
  for (uintmax_t kept = size - 32; kept > 0; kept = kept * 3 / 4) {
    std::filesystem::resize_file(path_, kept);
    EXPECT_FALSE(ReadScanFile(path_, config_)) << kept;
  }
}

TEST_F(ScanFileTest, OfAnotherModel) {
  ASSERT_TRUE(WriteScanFile(SmallScan(), config_, path_));
  for (auto& layer : config_.layers) layer.ffn.width = 128;
  EXPECT_FALSE(ReadScanFile(path_, config_));
}

// AddCandidates reads the samples of every layer.
TEST_F(ScanFileTest, WithoutSamples) {
  ScanFile scan = SmallScan();
  scan.self_test.clear();
  const auto read = WriteAndRead(scan);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(read.error().message, HasSubstr("samples of 0 layers, not of 2"));
}

TEST_F(ScanFileTest, ChoicesThatCannotBe) {
  const DensityChoice wrong[] = {
      {.density = -0.1, .perplexity = 11, .dense_perplexity = 10},
      {.density = 1.1, .perplexity = 11, .dense_perplexity = 10},
      {.density = NAN, .perplexity = 11, .dense_perplexity = 10},
      {.density = 0.5, .perplexity = INFINITY, .dense_perplexity = 10},
      {.density = 0.5, .perplexity = 0, .dense_perplexity = 10},
      {.density = 0.5, .perplexity = 11, .dense_perplexity = NAN}};
  for (const DensityChoice& choice : wrong) {
    ScanFile scan = SmallScan();
    scan.choice = choice;
    const auto read = WriteAndRead(scan);
    ASSERT_FALSE(read) << choice.density;
    EXPECT_EQ(read.error().code, ErrorCode::kCorrupt);
    EXPECT_THAT(read.error().message, HasSubstr("choice of thresholds"));
  }
  ScanFile scan = SmallScan();
  scan.thresholds.clear();
  const auto read = WriteAndRead(scan);
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().message, HasSubstr("has none"));
}

TEST_F(ScanFileTest, HalfOfAChoice) {
  const ScanFile scan = SmallScan();
  const pack::PreparedParts parts = {
      .thresholds = scan.thresholds,
      .self_test = scan.self_test,
      .keys = {{.key = "thermocline.work.density",
                .type = gguf::ValueType::kF64,
                .value = 0.5}}};
  ASSERT_TRUE(pack::WriteParts(parts, config_, path_));
  const auto read = ReadScanFile(path_, config_);
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().message, HasSubstr("not whole"));
}

}  // namespace
}  // namespace thermocline::training
