#include "training/scan.h"

#include <cmath>

#include "training/testing.h"

namespace thermocline::training {
namespace {

TEST(GateSizesTest, AThresholdIsTheQuantile) {
  GateSizes sizes(2, Activation::kSilu);
  std::vector<float> gate;
  for (int i = 0; i < 1000; ++i) gate.push_back(0.01f * static_cast<float>(i));
  sizes.Add(1, gate);
  for (const double density : {0.1, 0.5, 0.9}) {
    const float x = static_cast<float>(10 * (1 - density));
    const float want = x / (1 + std::exp(-x));
    // To a bin's width, 1/32 of a doubling.
    EXPECT_NEAR(sizes.ThresholdFor(1, density) / want, 1, 0.03);
  }
  EXPECT_EQ(sizes.ThresholdFor(1, 1.0), 0);
  EXPECT_EQ(sizes.ThresholdFor(0, 0.5), 0);  // nothing was seen
  EXPECT_EQ(sizes.ThresholdsFor(0.5).size(), 2u);
}

TEST(GateSizesTest, NegativeGatesCountByTheirSize) {
  GateSizes sizes(1, Activation::kGelu);
  // Of GELU, -1 gives -0.159 and 1 gives 0.841.
  const std::vector<float> gate = {-1, 1};
  sizes.Add(0, gate);
  EXPECT_NEAR(sizes.ThresholdFor(0, 0.5), 0.841, 0.02);
  EXPECT_NEAR(sizes.ThresholdFor(0, 0.51), 0.159, 0.004);
}

TEST(ScanTest, ProfileAndSelfTestOfTheDemoModel) {
  const auto model = OpenDemo();
  const Corpus corpus = SmallCorpus(*model, 16);
  Scan scan(model->config(), corpus, false);
  ASSERT_TRUE(RunCorpus(
      model, corpus, {.num_threads = 2, .ffn = engine::FfnMode::kDense}, "scan",
      {},
      [&](size_t chunk_idx, const auto& seen) { scan.Add(chunk_idx, seen); }));
  EXPECT_EQ(scan.profile().num_tokens(), 256u);
  EXPECT_EQ(scan.profile().layers[0].num_pairs, 16u * 15);
  ASSERT_EQ(scan.self_test().size(), 6u);
  for (const convert::LayerSelfTest& test : scan.self_test()) {
    EXPECT_EQ(test.inputs.size(), kNumSelfTests * 256);
    EXPECT_EQ(test.fired.size(), kNumSelfTests);
    EXPECT_FALSE(test.fired[3].empty());
  }
}

}  // namespace
}  // namespace thermocline::training
