#include "text/pair_merger.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/random.h"

namespace thermocline::text {
namespace {

// Merges between few symbols, some of the same priority, some of a lower one
// than those of the symbols that they merge. They depend on where the left one
// is, as those of SentencePiece do, whose symbols are lengths.
class RandomMerges {
 public:
  static constexpr uint32_t kNumSymbols = 4;
  static constexpr uint32_t kNumPlaces = 2;

  explicit RandomMerges(Random& random) {
    const uint64_t percent = 20 + random.Below(70);
    for (auto& merge : merges_) {
      if (random.Below(100) >= percent) continue;
      merge = PairMerge{static_cast<uint32_t>(random.Below(6)),
                        static_cast<uint32_t>(random.Below(kNumSymbols))};
    }
  }

  std::optional<PairMerge> operator()(uint32_t i, uint32_t left,
                                      uint32_t right) const {
    const uint32_t place = i % kNumPlaces;
    return merges_[(place * kNumSymbols + left) * kNumSymbols + right];
  }

 private:
  std::optional<PairMerge> merges_[kNumPlaces * kNumSymbols * kNumSymbols];
};

// The definition: looks at all neighbours before each merge.
std::vector<uint32_t> MergeSlowly(const RandomMerges& find,
                                  const std::vector<uint32_t>& values) {
  std::vector<std::pair<uint32_t, uint32_t>> left;  // where it began, value
  for (uint32_t i = 0; i < values.size(); ++i) left.emplace_back(i, values[i]);
  while (true) {
    std::optional<PairMerge> best;
    size_t at = 0;
    for (size_t i = 0; i + 1 < left.size(); ++i) {
      const auto merge =
          find(left[i].first, left[i].second, left[i + 1].second);
      if (!merge || (best && best->priority <= merge->priority)) continue;
      best = merge;
      at = i;
    }
    if (!best) break;
    left[at].second = best->value;
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
  std::vector<uint32_t> rest;
  for (const auto& [begin, value] : left) rest.push_back(value);
  return rest;
}

TEST(PairMergerTest, EqualsTheDefinition) {
  Random random(5);
  PairMerger merger;  // one for all: nothing of a word stays behind
  for (int round = 0; round < 1500; ++round) {
    const RandomMerges find(random);
    // Patterns that come again and again, down to one symbol, and any symbols.
    const size_t period = round % 2 == 0 ? 1 + random.Below(3) : 1000;
    std::vector<uint32_t> values(random.Below(round % 50 == 0 ? 400 : 30));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] =
          i < period
              ? static_cast<uint32_t>(random.Below(RandomMerges::kNumSymbols))
              : values[i - period];
    }
    const std::vector<uint32_t> expected = MergeSlowly(find, values);
    std::vector<uint32_t> merged = values;
    merger.Run(&merged, find);
    ASSERT_EQ(merged, expected) << round;
  }
}

}  // namespace
}  // namespace thermocline::text
