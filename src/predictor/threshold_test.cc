#include "predictor/threshold.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <span>
#include <vector>

namespace thermocline::predictor {
namespace {

using ::testing::ElementsAre;

std::vector<size_t> MembersIn(const neuron::NeuronSet& set, size_t begin,
                              size_t end) {
  std::vector<size_t> members;
  set.ForEachIn(begin, end, [&](size_t i) { members.push_back(i); });
  return members;
}

TEST(SelectAtLeast, TheThresholdItselfAndNotANumberCount) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const std::vector<float> scores = {-1,
                                     0,
                                     0.5f,
                                     0.25f,
                                     -kInf,
                                     kInf,
                                     std::numeric_limits<float>::quiet_NaN(),
                                     -0.0f};
  uint64_t word = ~uint64_t{0};
  const neuron::NeuronSet set = {&word, scores.size()};
  SelectAtLeast(scores, 0.0f, set);
  EXPECT_THAT(MembersIn(set, 0, 8), ElementsAre(1, 2, 3, 5, 6, 7));
  SelectAtLeast(scores, 0.5f, set);
  EXPECT_THAT(MembersIn(set, 0, 8), ElementsAre(2, 5, 6));
  EXPECT_EQ(word, 0b1100100u);  // nothing behind the last neuron
}

TEST(SelectAtLeast, EveryLengthAroundAWord) {
  for (size_t n : {1, 63, 64, 65, 127, 128, 129, 200, 5000}) {
    std::vector<float> scores(n, -1.0f);
    scores[0] = scores[n / 2] = scores[n - 1] = 1.0f;
    scores.resize(n + 64, 1.0f);  // of nobody
    std::vector<uint64_t> words(neuron::WordsOf(n) + 1, ~uint64_t{0});
    const neuron::NeuronSet set = {words.data(), n};
    SelectAtLeast(std::span(scores).first(n), 0.0f, set);
    for (size_t i = 0; i < n; ++i) EXPECT_EQ(set.Has(i), scores[i] > 0);
    EXPECT_EQ(MembersIn({words.data(), 64 * neuron::WordsOf(n)}, n,
                        64 * neuron::WordsOf(n)),
              std::vector<size_t>());
    EXPECT_EQ(words.back(), ~uint64_t{0}) << "written beyond the set";
  }
}

TEST(NeuronSet, RangesThatCutWords) {
  std::vector<uint64_t> words(3);
  const neuron::NeuronSet set = {words.data(), 150};
  for (size_t i : {0, 1, 62, 63, 64, 65, 127, 128, 149}) {
    words[i / 64] |= uint64_t{1} << i % 64;
  }
  EXPECT_THAT(MembersIn(set, 0, 150),
              ElementsAre(0, 1, 62, 63, 64, 65, 127, 128, 149));
  EXPECT_THAT(MembersIn(set, 1, 63), ElementsAre(1, 62));
  EXPECT_THAT(MembersIn(set, 63, 65), ElementsAre(63, 64));
  EXPECT_THAT(MembersIn(set, 65, 128), ElementsAre(65, 127));
  EXPECT_THAT(MembersIn(set, 129, 150), ElementsAre(149));
  EXPECT_THAT(MembersIn(set, 64, 64), ElementsAre());
  EXPECT_THAT(MembersIn(set, 65, 65), ElementsAre());
}

}  // namespace
}  // namespace thermocline::predictor
