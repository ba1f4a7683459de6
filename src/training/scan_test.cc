#include "training/scan.h"

#include <algorithm>
#include <cmath>

#include "training/testing.h"

namespace thermocline::training {
namespace {

const kernels::KernelTable& Kernels() {
  return kernels::KernelsFor(kernels::BestIsa());
}

TEST(GateSizesTest, AThresholdIsTheQuantile) {
  GateSizes sizes(2, Activation::kSilu, Kernels());
  std::vector<float> gate;
  for (int i = 0; i < 1000; ++i) gate.push_back(0.01f * static_cast<float>(i));
  sizes.Add(1, gate);
  for (const double density : {0.1, 0.5, 0.9}) {
    const float x = static_cast<float>(10 * (1 - density));
    const float want = x / (1 + std::exp(-x));
    // To a gate's distance from the next, and a bin's width.
    EXPECT_NEAR(sizes.ThresholdFor(1, density) / want, 1, 0.012);
  }
  EXPECT_EQ(sizes.ThresholdFor(1, 1.0), 0);
  EXPECT_EQ(sizes.ThresholdFor(0, 0.5), 0);  // nothing was seen
  EXPECT_EQ(sizes.ThresholdsFor(0.5).size(), 2u);
}

TEST(GateSizesTest, NegativeGatesCountByTheirSize) {
  GateSizes sizes(1, Activation::kGelu, Kernels());
  // Of GELU, -1 gives -0.159 and 1 gives 0.841.
  const std::vector<float> gate = {-1, 1};
  sizes.Add(0, gate);
  EXPECT_NEAR(sizes.ThresholdFor(0, 0.5), 0.841, 0.02);
  EXPECT_NEAR(sizes.ThresholdFor(0, 0.51), 0.159, 0.004);
}

// Around SiLU's least value many gates lie close together.
TEST(GateSizesTest, KeepsTheShareThatIsAskedFor) {
  GateSizes sizes(1, Activation::kSilu, Kernels());
  std::vector<float> gate;
  for (int i = 0; i < 20000; ++i) {
    gate.push_back(2e-4f * static_cast<float>(i) - 3.0f);
  }
  sizes.Add(0, gate);
  for (int percent = 5; percent < 100; percent += 5) {
    const float threshold = sizes.ThresholdFor(0, percent / 100.0);
    const auto kept = std::ranges::count_if(gate, [=](float x) {
      return std::abs(x / (1 + std::exp(-x))) >= threshold;
    });
    EXPECT_NEAR(static_cast<double>(kept) / 20000, percent / 100.0, 0.01);
  }
}

// Positions are told apart by what is seen at one of them alone.
TEST(ScanTest, GatesAreOfEachPositionAsOftenAsOfAnyOther) {
  const auto model = OpenDemo();
  const Corpus corpus = SmallCorpus(*model, 8);
  for (int64_t marked = 0; marked < 8; ++marked) {
    Scan scan(model->config(), corpus, true, Kernels());
    for (size_t chunk_idx = 0; chunk_idx < 64; ++chunk_idx) {
      for (int64_t position = 0; position < 8; ++position) {
        const float gate = position == marked ? 1.0f : 0.0f;
        scan.Add(chunk_idx, {.position = position, .gate = {&gate, 1}});
      }
    }
    // The share that is above 0 is an eighth: as large as 1/8, less than 1/7.
    EXPECT_EQ(scan.gates().ThresholdFor(0, 1.0 / 8), 1.0f) << marked;
    EXPECT_EQ(scan.gates().ThresholdFor(0, 1.0 / 7), 0.0f) << marked;
  }
}

// The search measures on those what thresholds cost.
TEST(ScanTest, GatesOfChunksThatAreHeldOutDoNotCount) {
  const auto model = OpenDemo();
  const Corpus corpus = SmallCorpus(*model, 8);
  Scan scan(model->config(), corpus, true, Kernels());
  for (size_t chunk_idx = 0; chunk_idx < 64; ++chunk_idx) {
    const float gate = Corpus::IsHeldOut(chunk_idx) ? 2.0f : 1.0f;
    for (int64_t position = 0; position < 8; ++position) {
      scan.Add(chunk_idx, {.position = position, .gate = {&gate, 1}});
    }
  }
  EXPECT_EQ(scan.gates().ThresholdFor(0, 0.01), 1.0f);
  EXPECT_EQ(scan.gates().ThresholdFor(0, 1.0), 1.0f);
}

// Chunks whose length is no multiple of the tests' number.
TEST(ScanTest, AsManySelfTestsFromChunksOfAnyLength) {
  const auto model = OpenDemo();
  for (const int64_t length : {8, 11, 15, 16, 23}) {
    const Corpus corpus = SmallCorpus(*model, length);
    Scan scan(model->config(), corpus, false, Kernels());
    for (int64_t position = 0; position < length; ++position) {
      scan.Add(7, {.position = position});
    }
    EXPECT_EQ(scan.self_test()[0].fired.size(), kNumSelfTests) << length;
  }
}

TEST(ScanTest, ProfileAndSelfTestOfTheDemoModel) {
  const auto model = OpenDemo();
  const Corpus corpus = SmallCorpus(*model, 16);
  Scan scan(model->config(), corpus, false, Kernels());
  ASSERT_TRUE(RunCorpus(
      model, corpus, {.num_threads = 2, .ffn = engine::FfnMode::kDense}, "scan",
      {},
      [&](size_t chunk_idx, const auto& seen) { scan.Add(chunk_idx, seen); }));
  EXPECT_EQ(scan.profile().num_tokens(), 256u);
  EXPECT_EQ(scan.profile().layers[0].num_pairs, 16u * 15);
  ASSERT_EQ(scan.self_test().size(), 6u);
  for (const pack::LayerSelfTest& test : scan.self_test()) {
    EXPECT_EQ(test.inputs.size(), kNumSelfTests * 256);
    EXPECT_EQ(test.fired.size(), kNumSelfTests);
    EXPECT_FALSE(test.fired[3].empty());
  }
}

}  // namespace
}  // namespace thermocline::training
