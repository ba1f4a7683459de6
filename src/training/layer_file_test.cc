#include "training/layer_file.h"

#include <cstdio>
#include <filesystem>

#include "training/testing.h"

namespace thermocline::training {
namespace {

using ::testing::HasSubstr;

model::Config SmallConfig() {
  model::Config config = OpenDemo()->config();
  config.num_layers = 2;
  config.width = 32;
  config.ffn_width = 64;
  return config;
}

LayerFile SmallLayer() {
  const std::vector<float> up(32 * 32, 0.5f);
  const std::vector<float> down(64 * 32, -0.25f);
  LayerFile layer;
  layer.trained = {.up = convert::EncodeMatrix(DType::kQ8_0, 32, 32, up),
                   .up_bias = std::vector<float>(32, 1.0f),
                   .down = convert::EncodeMatrix(DType::kQ8_0, 64, 32, down),
                   .down_bias = std::vector<float>(64, 2.0f)};
  layer.free = {.signs = std::vector<uint64_t>(64, 7), .max_differences = 9};
  layer.findings = {.density = 0.125,
                    .skew = 0.5,
                    .locality = 0.25,
                    .ffn_bytes = 12345,
                    .trained = {32, DType::kQ8_0, 999, 0.98, 0.6, 1.5},
                    .reason = "none at all",
                    .free = {0, DType::kQ8_0, 512, 0.97, 0.5, 2.0},
                    .free_sign_candidates_per_fired = 3.5,
                    .recall_ahead = {0.97, 0.9}};
  return layer;
}

class LayerFileTest : public ::testing::Test {
 protected:
  LayerFileTest() {
    path_ = ::testing::TempDir() + "/layer-" +
            ::testing::UnitTest::GetInstance()->current_test_info()->name() +
            ".gguf";
  }
  ~LayerFileTest() override { std::remove(path_.c_str()); }
  std::string path_;
  model::Config config_ = SmallConfig();
};

TEST_F(LayerFileTest, ComesBackAsItWas) {
  const LayerFile layer = SmallLayer();
  ASSERT_TRUE(WriteLayerFile(layer, 1, 1, config_, path_));
  const auto read = ReadLayerFile(path_, 1, config_);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, layer);
}

TEST_F(LayerFileTest, WithoutPredictors) {
  LayerFile layer = SmallLayer();
  layer.trained.reset();
  layer.free.reset();
  layer.findings.trained = {};
  layer.findings.recall_ahead.clear();
  ASSERT_TRUE(WriteLayerFile(layer, 0, 0, config_, path_));
  const auto read = ReadLayerFile(path_, 0, config_);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, layer);
}

TEST_F(LayerFileTest, OfAnotherLayerOrModel) {
  ASSERT_TRUE(WriteLayerFile(SmallLayer(), 1, 0, config_, path_));
  const auto other = ReadLayerFile(path_, 0, config_);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(other.error().message, HasSubstr("layer 0"));
  config_.ffn_width = 128;
  EXPECT_FALSE(ReadLayerFile(path_, 1, config_));
}

TEST_F(LayerFileTest, CutOffAnywhere) {
  ASSERT_TRUE(WriteLayerFile(SmallLayer(), 1, 0, config_, path_));
  const auto size = std::filesystem::file_size(path_);
  for (uintmax_t kept = size - 1; kept > 0; kept = kept * 3 / 4) {
    std::filesystem::resize_file(path_, kept);
    EXPECT_FALSE(ReadLayerFile(path_, 1, config_)) << kept;
  }
}

}  // namespace
}  // namespace thermocline::training
