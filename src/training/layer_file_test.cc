#include "training/layer_file.h"

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <numeric>

#include "pack/part_file.h"
#include "training/testing.h"

namespace thermocline::training {
namespace {

using ::testing::HasSubstr;

model::Config SmallConfig() {
  model::Config config = OpenDemo()->config();
  config.num_layers = 2;
  config.width = 32;
  model::LayerSpec layer = config.layers.front();
  layer.ffn.width = 64;
  config.layers = {layer, layer};
  return config;
}

LayerFile SmallLayer() {
  const std::vector<float> up(32 * 32, 0.5f);
  const std::vector<float> down(64 * 32, -0.25f);
  LayerFile layer;
  layer.trained = {.up = pack::EncodeMatrix(DType::kQ8_0, 32, 32, up),
                   .up_bias = std::vector<float>(32, 1.0f),
                   .down = pack::EncodeMatrix(DType::kQ8_0, 64, 32, down),
                   .down_bias = std::vector<float>(64, 2.0f)};
  layer.free = {.signs = std::vector<uint64_t>(64, 7), .max_differences = 9};
  layer.order.resize(64);
  std::iota(layer.order.rbegin(), layer.order.rend(), 0u);
  layer.findings = {.density = 0.125,
                    .skew = 0.5,
                    .locality = 0.25,
                    .ffn_bytes = 12345,
                    .fired_per_group = 2.5,
                    .fired_per_group_as_they_lie = 1.25,
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
  layer.findings.locality.reset();
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
  for (auto& layer : config_.layers) layer.ffn.width = 128;
  EXPECT_FALSE(ReadLayerFile(path_, 1, config_));
}

TEST_F(LayerFileTest, AnOrderThatIsNone) {
  const auto expect_refused = [&](std::vector<uint32_t> order) {
    LayerFile layer = SmallLayer();
    layer.order = std::move(order);
    ASSERT_TRUE(WriteLayerFile(layer, 1, 0, config_, path_));
    const auto read = ReadLayerFile(path_, 1, config_);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code, ErrorCode::kCorrupt);
  };
  expect_refused({});
  std::vector<uint32_t> order = SmallLayer().order;
  order.back() = 64;
  expect_refused(order);
  order.back() = order.front();
  expect_refused(order);
  order.pop_back();
  expect_refused(order);
}

TEST_F(LayerFileTest, CutOffAnywhere) {
  ASSERT_TRUE(WriteLayerFile(SmallLayer(), 1, 0, config_, path_));
  const auto size = std::filesystem::file_size(path_);
  for (uintmax_t kept = size - 1; kept > 0; kept = kept * 3 / 4) {
    std::filesystem::resize_file(path_, kept);
    EXPECT_FALSE(ReadLayerFile(path_, 1, config_)) << kept;
  }
}

// A file of parts with such figures.
class LayerFiguresTest : public LayerFileTest {
 protected:
  LayerFiguresTest() { parts_.predictors = {std::nullopt, layer_.trained}; }

  gguf::KeyValue Doubles(const char* key, std::vector<double> values) {
    return {.key = key,
            .type = gguf::ValueType::kArray,
            .value = gguf::Array{.elem_type = gguf::ValueType::kF64,
                                 .values = std::move(values)}};
  }

  Result<LayerFile> Read() {
    parts_.keys = {
        Doubles("thermocline.work.figures", figures_),
        Doubles("thermocline.work.recall_ahead", ahead_),
        {.key = "thermocline.work.reason",
         .type = gguf::ValueType::kString,
         .value = std::string()},
        {.key = "thermocline.work.layer",
         .type = gguf::ValueType::kU32,
         .value = int64_t{1}},
        {.key = "thermocline.work.order",
         .type = gguf::ValueType::kArray,
         .value = gguf::Array{.elem_type = gguf::ValueType::kU32,
                              .values = std::vector<int64_t>(
                                  layer_.order.begin(), layer_.order.end())}}};
    if (left_out_ < parts_.keys.size()) {
      parts_.keys.erase(parts_.keys.begin() +
                        static_cast<ptrdiff_t>(left_out_));
    }
    const Status written = pack::WriteParts(parts_, config_, path_);
    EXPECT_TRUE(written) << written.error().message;
    return ReadLayerFile(path_, 1, config_);
  }

  const LayerFile layer_ = SmallLayer();
  pack::PreparedParts parts_;
  // Density, skew, locality, FFN bytes, candidates after signs; then rank,
  // type, bytes, recall, precision and candidates of the trained predictor, and
  // of the free one; fired per group, and as they lie.
  std::vector<double> figures_ = {0.1, 0.5, 0.2, 999, 0,   32, 8, 99,  0.9, 0.6,
                                  1.5, 0,   -1,  0,   0.0, 0,  0, 2.5, 1.5};
  std::vector<double> ahead_ = {0.9, 0.8, 0.7, 0.6};
  size_t left_out_ = SIZE_MAX;  // of the keys
};

TEST_F(LayerFiguresTest, AsTheyAre) {
  const auto read = Read();
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->findings.trained.rank, 32u);
  EXPECT_EQ(read->findings.trained.dtype, DType::kQ8_0);
  EXPECT_EQ(read->findings.free, PredictorFindings());
  EXPECT_EQ(read->findings.recall_ahead.size(), 4u);
}

TEST_F(LayerFiguresTest, ValuesThatCannotBe) {
  const std::vector<double> right = figures_;
  const std::pair<size_t, double> wrong[] = {
      {0, NAN},  {8, INFINITY}, {3, -1},     {5, -32}, {5, 1e300},
      {5, 31},   {6, 1e300},    {6, 250},    {6, -2},  {7, -1},
      {7, 1e17}, {11, 8},       {12, 4.0e9}, {17, NAN}};
  for (const auto& [place, value] : wrong) {
    figures_ = right;
    figures_[place] = value;
    const auto read = Read();
    ASSERT_FALSE(read) << place << " " << value;
    EXPECT_EQ(read.error().code, ErrorCode::kCorrupt);
    EXPECT_THAT(read.error().message, HasSubstr("kept of layer 1"));
  }
}

TEST_F(LayerFiguresTest, TooFewTooManyOrNone) {
  figures_.pop_back();
  EXPECT_FALSE(Read());
  figures_.resize(20);
  EXPECT_FALSE(Read());
  figures_.resize(19);
  EXPECT_TRUE(Read());
  for (left_out_ = 0; left_out_ < 5; ++left_out_) {
    EXPECT_FALSE(Read()) << left_out_;
  }
  ahead_.push_back(0.5);
  EXPECT_FALSE(Read());
  ahead_ = {NAN};
  EXPECT_FALSE(Read());
}

TEST_F(LayerFiguresTest, FindingsOfAPredictorThatIsNotThere) {
  parts_.predictors.clear();
  EXPECT_FALSE(Read());
  figures_[5] = 0;
  EXPECT_TRUE(Read());
}

}  // namespace
}  // namespace thermocline::training
