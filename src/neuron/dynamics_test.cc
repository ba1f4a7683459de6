#include "neuron/dynamics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "neuron/profile.h"

namespace thermocline::neuron {
namespace {

using Set = std::vector<uint32_t>;
using Text = std::vector<Set>;  // of one layer

std::vector<uint32_t> CountsOf(const std::vector<Text>& texts,
                               size_t num_units) {
  std::vector<uint32_t> counts(num_units);
  for (const Text& text : texts) {
    for (const Set& set : text) {
      for (const uint32_t unit : set) ++counts[unit];
    }
  }
  return counts;
}

LayerDynamics DynamicsOf(const std::vector<Text>& texts, size_t num_units) {
  const std::vector<std::vector<uint32_t>> counts = {
      CountsOf(texts, num_units)};
  DynamicsBuilder builder(counts);
  for (const Text& text : texts) {
    builder.BeginText();
    for (const Set& set : text) builder.Add(0, set);
  }
  return builder.layers().front();
}

TEST(HotFrom, AFifthOfTheUnitsAndThoseThatAreAsFrequent) {
  EXPECT_EQ(HotFrom(std::vector<uint32_t>{3, 9, 1, 5, 2}), 9u);
  // Two of six: the second of the sorted.
  EXPECT_EQ(HotFrom(std::vector<uint32_t>{3, 9, 1, 5, 2, 0}), 5u);
  EXPECT_EQ(HotFrom(std::vector<uint32_t>{4, 4, 4}), 4u);
  EXPECT_EQ(HotFrom(std::vector<uint32_t>{0, 0, 0}), 1u);
  EXPECT_EQ(HotFrom(std::vector<uint32_t>{0}), 1u);
  EXPECT_EQ(HotFrom({}), 1u);
}

// By hand. Five units, counts 4 2 1 0 0; unit 0 is hot. Tenths by their order:
// 0, 2, 4, 6, 8.
TEST(Dynamics, OfATinyTrace) {
  const std::vector<Text> texts = {{{0, 1}, {0}, {0, 1, 2}}, {{}, {0}}};
  const LayerDynamics layer = DynamicsOf(texts, 5);
  EXPECT_EQ(layer.num_hot, 1u);
  // {0,1} to {0}: 1 of 2; {0} to {0,1,2}: 1 of 3; {} to {0}: 0 of 1.
  EXPECT_EQ(layer.jaccard.count, 3u);
  EXPECT_DOUBLE_EQ(layer.jaccard.sum, 1.0 / 2 + 1.0 / 3 + 0.0);
  // With {0}: 1 of 2, 1 of 1, 1 of 3, 0 of 1, 1 of 1.
  EXPECT_EQ(layer.jaccard_with_hot.count, 5u);
  EXPECT_DOUBLE_EQ(layer.jaccard_with_hot.sum, 0.5 + 1.0 + 1.0 / 3 + 0.0 + 1.0);
  EXPECT_DOUBLE_EQ(layer.hot.mean(), 4.0 / 5);
  EXPECT_EQ(layer.hot.most, 1u);
  EXPECT_DOUBLE_EQ(layer.cold.mean(), 3.0 / 5);  // 1, 0, 2, 0, 0
  EXPECT_EQ(layer.cold.most, 2u);
  EXPECT_NEAR(layer.cold.deviation(), std::sqrt(1.0 - 0.36), 1e-12);
  // Unit 0 fires at 0, 1, 2 of the first text: of two pairs one token apart
  // both recur, and the one two apart. In the second nothing follows.
  EXPECT_DOUBLE_EQ(*layer.tenths[0].at(1), 1.0);
  EXPECT_EQ(layer.tenths[0].num_pairs[0], 2u);
  EXPECT_DOUBLE_EQ(*layer.tenths[0].at(2), 1.0);
  EXPECT_FALSE(layer.tenths[0].at(3));
  EXPECT_DOUBLE_EQ(*layer.tenths[0].by_chance(), 16.0 / (4 * 5));
  // Unit 1 fires at 0 and 2.
  EXPECT_DOUBLE_EQ(*layer.tenths[2].at(1), 0.0);
  EXPECT_DOUBLE_EQ(*layer.tenths[2].at(2), 1.0);
  EXPECT_DOUBLE_EQ(*layer.tenths[2].by_chance(), 4.0 / (2 * 5));
  // Unit 2 fires at the text's end alone.
  EXPECT_FALSE(layer.tenths[4].at(1));
  EXPECT_FALSE(layer.tenths[6].by_chance());
  EXPECT_FALSE(layer.tenths[1].at(1));  // no unit
}

TEST(Dynamics, OfNothing) {
  const LayerDynamics layer = DynamicsOf({}, 7);
  EXPECT_EQ(layer.num_hot, 0u);
  EXPECT_FALSE(layer.jaccard.value());
  EXPECT_FALSE(layer.jaccard_with_hot.value());
  EXPECT_EQ(layer.hot.mean(), 0.0);
  EXPECT_EQ(layer.cold.deviation(), 0.0);
  EXPECT_FALSE(layer.tenths[0].at(1));
}

bool Has(const Set& set, uint32_t unit) {
  return std::ranges::find(set, unit) != set.end();
}

// The definition: every unit, every token, every distance.
Recurrence SlowRecurrence(const std::vector<Text>& texts,
                          const std::vector<uint32_t>& counts, size_t tenth) {
  Recurrence recurrence;
  for (uint32_t unit = 0; unit < counts.size(); ++unit) {
    size_t place = 0;
    for (uint32_t other = 0; other < counts.size(); ++other) {
      place += counts[other] > counts[unit] ||
                       (counts[other] == counts[unit] && other < unit)
                   ? 1
                   : 0;
    }
    if (place * kHeatTenths / counts.size() != tenth) continue;
    recurrence.num_fired += counts[unit];
    for (const Text& text : texts) {
      for (size_t t = 0; t < text.size(); ++t) {
        if (!Has(text[t], unit)) continue;
        for (size_t d = 1; d <= kMaxOffset && t + d < text.size(); ++d) {
          ++recurrence.num_pairs[d - 1];
          recurrence.num_again[d - 1] += Has(text[t + d], unit) ? 1 : 0;
        }
      }
    }
  }
  return recurrence;
}

TEST(Dynamics, AsTheirDefinitions) {
  Random random(3);
  for (const uint32_t num_units : {1u, 7u, 23u, 64u}) {
    std::vector<Text> texts(4);
    for (size_t i = 0; i < texts.size(); ++i) {
      for (size_t t = 0; t < 1 + 7 * i; ++t) {
        Set& set = texts[i].emplace_back();
        for (uint32_t unit = 0; unit < num_units; ++unit) {
          if (random.Uniform() < 1.0 / (1 + unit % 7)) set.push_back(unit);
        }
      }
    }
    const LayerDynamics layer = DynamicsOf(texts, num_units);
    const auto counts = CountsOf(texts, num_units);
    for (size_t k = 0; k < kHeatTenths; ++k) {
      const Recurrence want = SlowRecurrence(texts, counts, k);
      EXPECT_EQ(layer.tenths[k].num_pairs, want.num_pairs) << k;
      EXPECT_EQ(layer.tenths[k].num_again, want.num_again) << k;
      EXPECT_EQ(layer.tenths[k].num_fired, want.num_fired) << k;
    }
  }
}

// Layers see the same tokens, whatever the order in which they come.
TEST(Dynamics, LayersKeepApart) {
  const Text text = {{0, 1}, {1}, {0, 2}, {2}, {1, 2}};
  const std::vector<std::vector<uint32_t>> counts(2, CountsOf({text}, 3));
  DynamicsBuilder builder(counts);
  builder.BeginText();
  for (const Set& set : text) builder.Add(1, set);
  for (const Set& set : text) builder.Add(0, set);
  const LayerDynamics want = DynamicsOf({text}, 3);
  for (const LayerDynamics& layer : builder.layers()) {
    EXPECT_EQ(layer.jaccard.sum, want.jaccard.sum);
    EXPECT_EQ(layer.tenths[0].num_again, want.tenths[0].num_again);
  }
}

TEST(Recurrence, AddsUp) {
  Recurrence sum;
  const LayerDynamics layer = DynamicsOf({{{0}, {0}, {1}}}, 2);
  for (const Recurrence& tenth : layer.tenths) sum.Add(tenth);
  EXPECT_DOUBLE_EQ(*sum.at(1), 0.5);
  EXPECT_DOUBLE_EQ(*sum.by_chance(), 5.0 / (3 * 3));
}

TEST(Naming, SharesOfBothSets) {
  Naming naming;
  EXPECT_FALSE(naming.recall());
  EXPECT_FALSE(naming.precision());
  naming.Add(Set{1, 2, 3}, Set{2, 3, 4, 5});
  naming.Add(Set{}, Set{0});
  EXPECT_DOUBLE_EQ(*naming.recall(), 2.0 / 5);
  EXPECT_DOUBLE_EQ(*naming.precision(), 2.0 / 3);
  Naming both = naming;
  both.Add(naming);
  EXPECT_EQ(both.num_both, 4u);
  EXPECT_DOUBLE_EQ(*both.recall(), 2.0 / 5);
}

}  // namespace
}  // namespace thermocline::neuron
