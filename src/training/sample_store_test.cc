#include "training/sample_store.h"

#include "training/testing.h"

namespace thermocline::training {
namespace {

using ::testing::ElementsAre;

TEST(GroupLayersTest, CoversEveryLayerOnce) {
  EXPECT_THAT(GroupLayers(6, 6, 0), ElementsAre(LayerRange{0, 6}));
  EXPECT_THAT(GroupLayers(6, 100, 3), ElementsAre(LayerRange{0, 6}));
  EXPECT_THAT(
      GroupLayers(5, 2, 0),
      ElementsAre(LayerRange{0, 2}, LayerRange{2, 4}, LayerRange{4, 5}));
  // The second group has room for one layer and the one before it.
  EXPECT_THAT(
      GroupLayers(4, 2, 1),
      ElementsAre(LayerRange{0, 2}, LayerRange{2, 3}, LayerRange{3, 4}));
}

TEST(SampleStoreTest, TheSameTokensInEveryLayer) {
  const auto model = OpenDemo();
  const Corpus corpus = SmallCorpus(*model, 16);  // 256 tokens, 32 held out
  SampleStore store(corpus, 64, {2, 4}, 3, 70);
  for (size_t chunk = 0; chunk < corpus.num_chunks(); ++chunk) {
    for (int64_t layer = 0; layer < 6; ++layer) {
      for (int64_t position = 0; position < 16; ++position) {
        const std::vector<float> input = {static_cast<float>(chunk),
                                          static_cast<float>(position),
                                          static_cast<float>(layer)};
        const std::vector<uint32_t> fired = {static_cast<uint32_t>(position),
                                             static_cast<uint32_t>(63 + layer)};
        store.Add(chunk, {.layer_idx = layer,
                          .position = position,
                          .input = input,
                          .fired = fired});
      }
    }
  }
  const Samples train = store.train(2, 3);
  const Samples held_out = store.held_out(2, 3);
  EXPECT_EQ(train.num_samples, 56u);
  EXPECT_EQ(held_out.num_samples, 8u);
  for (const Samples& samples : {train, held_out}) {
    for (size_t n = 0; n < samples.num_samples; ++n) {
      float x[3];
      samples.LoadInput(n, x);
      EXPECT_EQ(Corpus::IsHeldOut(static_cast<size_t>(x[0])),
                samples.fired == held_out.fired);
      EXPECT_EQ(x[2], 2);  // layer 2's input, and what layer 3 fired
      EXPECT_EQ(samples.fired_of(n)[0], uint64_t{1} << static_cast<int>(x[1]));
      EXPECT_EQ(samples.fired_of(n)[1], uint64_t{1} << 2);
    }
  }
}

TEST(SampleStoreTest, ASamplesBytes) {
  EXPECT_EQ(SampleBytes(256, 1536), 512u + 192);
  EXPECT_EQ(SampleBytes(4, 65), 8u + 16);
}

}  // namespace
}  // namespace thermocline::training
