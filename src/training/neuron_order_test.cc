#include "training/neuron_order.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "planner/neuron_groups.h"
#include "training/testing.h"

namespace thermocline::training {
namespace {

using ::testing::ElementsAre;

// Samples of which each fires what it is told.
struct Firings {
  Firings(const Neurons& neurons,
          const std::vector<std::vector<uint32_t>>& lists) {
    static_cast<Neurons&>(samples) = neurons;
    samples.num_samples = lists.size();
    words.resize(lists.size() * samples.words());
    counts.resize(neurons.num_neurons);
    for (size_t s = 0; s < lists.size(); ++s) {
      for (const uint32_t neuron : lists[s]) {
        words[s * samples.words() + neuron / 64] |= uint64_t{1} << neuron % 64;
        ++counts[neuron];
      }
    }
    samples.fired = words.data();
  }
  Firings(const Firings&) = delete;
  Firings& operator=(const Firings&) = delete;

  Samples samples;
  std::vector<uint64_t> words;
  std::vector<uint32_t> counts;
};

// Neuron i belongs to clique i % num_cliques, whose members fire together.
std::vector<std::vector<uint32_t>> Cliques(size_t num_neurons,
                                           size_t num_cliques,
                                           size_t num_samples) {
  Random random(3);
  std::vector<std::vector<uint32_t>> lists(num_samples);
  for (auto& list : lists) {
    const size_t clique = random.Below(num_cliques);
    for (size_t i = clique; i < num_neurons; i += num_cliques) {
      list.push_back(static_cast<uint32_t>(i));
    }
  }
  return lists;
}

void ExpectPermutation(std::vector<uint32_t> order, size_t num_neurons) {
  std::ranges::sort(order);
  std::vector<uint32_t> all(num_neurons);
  std::iota(all.begin(), all.end(), 0u);
  EXPECT_EQ(order, all);
}

TEST(OrderGroupSizeTest, DividesAndMakesFewGroups) {
  EXPECT_EQ(OrderGroupSize(5632), 8u);
  EXPECT_EQ(OrderGroupSize(11008), 16u);
  EXPECT_EQ(OrderGroupSize(14336), 14u);
  EXPECT_EQ(OrderGroupSize(9), 9u);
  EXPECT_EQ(OrderGroupSize(5), 1u);
  EXPECT_EQ(OrderGroupSize(10007), 1u);       // a prime
  EXPECT_EQ(OrderGroupSize(128 * 1024), 1u);  // groups would be too large
}

TEST(OrderByHeatTest, HottestFirstAndEqualOnesAsTheyLie) {
  const std::vector<uint32_t> counts = {1, 5, 0, 5, 9, 1};
  EXPECT_THAT(OrderByHeat({.num_neurons = 6}, counts),
              ElementsAre(4, 1, 3, 0, 5, 2));
  EXPECT_THAT(
      OrderByHeat({.num_neurons = 6, .num_experts = 2, .num_used = 1}, counts),
      ElementsAre(1, 0, 2, 4, 3, 5));
}

TEST(OrderTogetherTest, FindsWhatFiresTogether) {
  const Firings firings({.num_neurons = 96}, Cliques(96, 12, 300));
  const auto order = *OrderTogether(firings.samples, firings.counts, 8);
  ExpectPermutation(order, 96);
  for (size_t place = 0; place < 96; ++place) {
    EXPECT_EQ(order[place] % 12, order[place / 8 * 8] % 12) << place;
  }
  EXPECT_EQ(FiredPerGroup(firings.samples, order, 8), 8.0);
  // As they lie, eight neighbours are of eight cliques.
  std::vector<uint32_t> as_they_lie(96);
  std::iota(as_they_lie.begin(), as_they_lie.end(), 0u);
  EXPECT_EQ(FiredPerGroup(firings.samples, as_they_lie, 8), 1.0);
}

TEST(OrderTogetherTest, HotGroupsFirst) {
  auto lists = Cliques(32, 4, 40);
  for (int i = 0; i < 100; ++i) lists.push_back({3, 7, 11, 15, 19, 23, 27, 31});
  const Firings firings({.num_neurons = 32}, lists);
  const auto order = *OrderTogether(firings.samples, firings.counts, 8);
  EXPECT_THAT(std::set(order.begin(), order.begin() + 8),
              ElementsAre(3, 7, 11, 15, 19, 23, 27, 31));
}

TEST(OrderTogetherTest, ExpertByExpert) {
  auto lists = Cliques(48, 6, 200);
  // Clique 0 of both experts fires in the same samples: still two groups.
  const Firings firings({.num_neurons = 48, .num_experts = 2, .num_used = 2},
                        lists);
  const auto order = *OrderTogether(firings.samples, firings.counts, 4);
  ExpectPermutation(order, 48);
  for (size_t place = 0; place < 48; ++place) {
    EXPECT_EQ(order[place] / 24, place / 24);
    EXPECT_EQ(order[place] % 6, order[place / 4 * 4] % 6);
  }
}

TEST(OrderTogetherTest, MoreNeuronsThanPartnersAndMoreSamplesThanAreRead) {
  const size_t num_neurons = 2 * planner::kMaxPartners + 24;
  const Firings firings({.num_neurons = num_neurons},
                        Cliques(num_neurons, 11, kOrderSamples + 77));
  const auto order = *OrderTogether(firings.samples, firings.counts, 8);
  ExpectPermutation(order, num_neurons);
  EXPECT_GT(FiredPerGroup(firings.samples, order, 8), 7.5);
  EXPECT_EQ(order, OrderTogether(firings.samples, firings.counts, 8));
}

TEST(OrderTogetherTest, NothingFired) {
  const Firings firings({.num_neurons = 24}, {{}, {}});
  const auto order = *OrderTogether(firings.samples, firings.counts, 8);
  ExpectPermutation(order, 24);
  EXPECT_EQ(FiredPerGroup(firings.samples, order, 8), 0.0);
}

}  // namespace
}  // namespace thermocline::training
