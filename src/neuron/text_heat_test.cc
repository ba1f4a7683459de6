#include "neuron/text_heat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace thermocline::neuron {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

using Set = std::vector<uint32_t>;

// `num_tokens` tokens that fire `often`, and one that fires `once` too.
void AddText(TextHeat& heat, uint64_t num_tokens, const Set& often,
             const Set& once = {}) {
  heat.BeginText();
  for (uint64_t t = 0; t < num_tokens; ++t) {
    heat.Add(0, t == 0 && !once.empty() ? once : often);
    heat.Add(1, often);
  }
}

// By hand: of ten units two are hot. Those of the texts are {0,1}, {1,2},
// {8,9}; layer 0 of the first counts 7, 8, 1.
TEST(TextHeat, OfThreeTexts) {
  TextHeat heat(2, 10, 4);
  AddText(heat, 8, {0, 1}, {1, 5});
  AddText(heat, 9, {1, 2});
  AddText(heat, TextHeat::kMinTokens - 1, {0, 1});  // too short
  AddText(heat, 20, {8, 9});
  heat.Finish();
  EXPECT_THAT(heat.texts(), ElementsAre(0, 1, 3));
  EXPECT_DOUBLE_EQ(*heat.Between(0, 1).value(), 1.0 / 3);
  EXPECT_DOUBLE_EQ(*heat.Between(0, 0).value(), 1.0);
  EXPECT_DOUBLE_EQ(*heat.Between(1, 2).value(), 0.0);
  for (const size_t l : {0, 1}) {
    EXPECT_EQ(heat.InLayer(l).count, 3u);
    EXPECT_DOUBLE_EQ(heat.InLayer(l).sum, 1.0 / 3);
  }
}

TEST(TextHeat, OfTextsThatFireNothing) {
  TextHeat heat(2, 10, 2);
  AddText(heat, 9, {});
  AddText(heat, 9, {});
  heat.Finish();
  EXPECT_THAT(heat.texts(), SizeIs(2));
  EXPECT_FALSE(heat.Between(0, 1).value());
  EXPECT_FALSE(heat.InLayer(1).value());
}

// The first is among them, and they are as far apart as they can be.
TEST(TextHeat, TakesSomeOfMany) {
  for (const uint64_t num_texts : {1u, 15u, 16u, 17u, 31u, 33u, 200u}) {
    TextHeat heat(2, 3, num_texts);
    for (uint64_t i = 0; i < num_texts; ++i) AddText(heat, 8, {1});
    heat.Finish();
    const auto& texts = heat.texts();
    ASSERT_THAT(texts,
                SizeIs(std::min<uint64_t>(num_texts, TextHeat::kMaxTexts)));
    EXPECT_EQ(texts.front(), 0u);
    for (size_t i = 1; i < texts.size(); ++i) {
      const uint64_t step = texts[i] - texts[i - 1];
      EXPECT_GE(step, num_texts / texts.size());
      EXPECT_LE(step, num_texts / texts.size() + 1);
    }
  }
}

}  // namespace
}  // namespace thermocline::neuron
