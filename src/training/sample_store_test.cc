#include "training/sample_store.h"

#include <algorithm>
#include <vector>

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
  SampleStore store(corpus, 64, {2, 4}, 3, {.num_neurons = 70});
  for (size_t chunk = 0; chunk < corpus.num_chunks(); ++chunk) {
    for (size_t layer = 0; layer < 6; ++layer) {
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

TEST(SampleStoreTest, KeepsTheExpertsInUse) {
  const auto model = OpenDemo();
  const Corpus corpus = SmallCorpus(*model, 16);
  SampleStore store(corpus, 64, {0, 2}, 1,
                    {.num_neurons = 30, .num_experts = 3, .num_used = 2});
  for (size_t chunk = 0; chunk < corpus.num_chunks(); ++chunk) {
    for (int64_t position = 0; position < 16; ++position) {
      for (size_t layer = 0; layer < 2; ++layer) {
        const std::vector<float> input = {static_cast<float>(position % 3)};
        // All but one, another one in each layer; nothing needs to fire.
        const auto first = static_cast<uint32_t>(
            (static_cast<size_t>(position) + layer + 1) % 3);
        const std::vector<uint32_t> experts = {first, (first + 1) % 3};
        store.Add(chunk, {.layer_idx = layer,
                          .position = position,
                          .input = input,
                          .experts = experts});
      }
    }
  }
  const Samples samples = store.train(0, 1).Thinned(20);
  EXPECT_GT(samples.step, 1u);
  EXPECT_EQ(samples.used_neurons(), 20u);
  for (size_t n = 0; n < samples.num_samples; ++n) {
    float x = 0;
    samples.LoadInput(n, &x);
    std::vector<size_t> firsts;
    samples.ForEachUsed(n, [&](size_t first, size_t end) {
      EXPECT_EQ(end, first + 10);
      firsts.push_back(first);
    });
    const size_t unused = (static_cast<size_t>(x) + 1) % 3;
    EXPECT_EQ(firsts.size(), 2u);
    EXPECT_EQ(std::ranges::count(firsts, 10 * unused), 0) << x;
  }
}

// Halves hold them, and one infinity would spoil what is fitted.
TEST(SampleStoreTest, InputsThatAreTooLargeForHalvesStayFinite) {
  const auto model = OpenDemo();
  const Corpus corpus = SmallCorpus(*model, 16);
  SampleStore store(corpus, 256, {0, 1}, 2, {.num_neurons = 1});
  for (size_t chunk = 0; chunk < corpus.num_chunks(); ++chunk) {
    for (int64_t position = 0; position < 16; ++position) {
      const std::vector<float> input = {1e5f, -3e38f};
      store.Add(chunk, {.layer_idx = 0, .position = position, .input = input});
    }
  }
  float x[2];
  store.train(0, 0).LoadInput(0, x);
  EXPECT_EQ(x[0], 65504.0f);
  EXPECT_EQ(x[1], -65504.0f);
}

TEST(SampleStoreTest, ASamplesBytes) {
  EXPECT_EQ(SampleBytes(256, {.num_neurons = 1536}), 512u + 192);
  EXPECT_EQ(SampleBytes(4, {.num_neurons = 65}), 8u + 16);
  EXPECT_EQ(SampleBytes(4, {.num_neurons = 130, .num_experts = 2}),
            8u + 24 + 8);
}

}  // namespace
}  // namespace thermocline::training
