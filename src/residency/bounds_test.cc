#include "residency/bounds.h"

#include <algorithm>
#include <bit>

#include "residency/test_passes.h"

namespace thermocline::residency {
namespace {

using Tokens = std::vector<std::vector<Units>>;

Recording Record(size_t num_layers, const Tokens& tokens) {
  Recording recording(num_layers);
  for (const auto& sets : tokens) recording.Add(sets);
  return recording;
}

uint32_t MaskOf(const Units& units) {
  uint32_t mask = 0;
  for (const uint32_t unit : units) mask |= 1u << unit;
  return mask;
}

// The most hits that any choice of residents has from a token on, by trying
// all: after a token those resident, or used in it, may be.
std::vector<int> MostHits(uint32_t num_units, int capacity,
                          const std::vector<uint32_t>& used) {
  const uint32_t num_sets = 1u << num_units;
  std::vector<int> best(num_sets, 0);
  for (size_t t = used.size(); t-- > 0;) {
    std::vector<int> now(num_sets, -1);
    for (uint32_t set = 0; set < num_sets; ++set) {
      if (std::popcount(set) > capacity) continue;
      const int hits = std::popcount(set & used[t]);
      for (uint32_t after = 0; after < num_sets; ++after) {
        if (std::popcount(after) > capacity) continue;
        if ((after & ~(set | used[t])) != 0) continue;
        now[set] = std::max(now[set], hits + best[after]);
      }
    }
    best = now;
  }
  return best;
}

TEST(Bounds, BeladyHasAsManyHitsAsAnyChoice) {
  constexpr uint32_t kUnits = 6;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Random random(seed);
    const auto capacity = static_cast<uint32_t>(random.Below(kUnits + 1));
    Tokens tokens;
    std::vector<uint32_t> used;
    for (int t = 0; t < 12; ++t) {
      tokens.push_back({DrawUnits(random, kUnits, 0.3)});
      used.push_back(MaskOf(tokens.back()[0]));
    }
    const auto best = MostHits(kUnits, static_cast<int>(capacity), used);
    const Replay replay = Belady(Record(1, tokens), {{kUnits, capacity, {}}});
    EXPECT_EQ(static_cast<int>(replay.layers[0].hits),
              *std::ranges::max_element(best))
        << "seed " << seed << ", capacity " << capacity;
  }
}

TEST(Bounds, OracleStaticHasAsManyHitsAsAnyFixedSet) {
  constexpr uint32_t kUnits = 7;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Random random(seed);
    const auto capacity = static_cast<uint32_t>(random.Below(kUnits + 1));
    Tokens tokens;
    for (int t = 0; t < 20; ++t) {
      tokens.push_back({DrawUnits(random, kUnits, 0.3)});
    }
    size_t best = 0;
    for (uint32_t set = 0; set < 1u << kUnits; ++set) {
      if (std::popcount(set) > static_cast<int>(capacity)) continue;
      size_t hits = 0;
      for (const auto& sets : tokens) {
        hits += static_cast<size_t>(std::popcount(set & MaskOf(sets[0])));
      }
      best = std::max(best, hits);
    }
    const Replay replay =
        OracleStatic(Record(1, tokens), {{kUnits, capacity, {}}});
    EXPECT_EQ(replay.layers[0].hits, best) << "seed " << seed;
  }
}

TEST(Bounds, CountAsAReplayDoes) {
  const Tokens tokens = {{{0, 1}, {2}}, {{1, 2}, {2}}, {{0}, {0, 1}}};
  const Recording recording = Record(2, tokens);
  EXPECT_EQ(recording.num_tokens(), 3u);
  EXPECT_EQ(recording.Used(1, 2).size(), 2u);
  const std::vector<LayerExtent> layers = {{3, 1, {}}, {3, 9, {}}};
  const Replay fixed = OracleStatic(recording, layers);
  EXPECT_EQ(fixed.layers[0], (Tally{5, 2, 0, 0, 0}));
  EXPECT_EQ(fixed.layers[1], (Tally{4, 4, 0, 0, 0}));
  EXPECT_EQ(fixed.misses, (Units{1, 2, 0}));
  // Begins with 0 or 1, has 1 next and 0 at last.
  const Replay belady = Belady(recording, layers);
  EXPECT_EQ(belady.layers[0].accesses, 5u);
  EXPECT_EQ(belady.layers[0].hits, 2u);
  EXPECT_EQ(belady.layers[0].wasted, 0u);
  EXPECT_EQ(belady.layers[1], (Tally{4, 4, 0, 0, 0}));
}

// Over the same tokens nobody is better, and all count the same accesses.
TEST(Bounds, NoPolicyIsBetter) {
  constexpr uint32_t kUnits = 60;
  Random random(3);
  Tokens tokens;
  for (int t = 0; t < 200; ++t) {
    tokens.push_back({DrawUnits(random, kUnits, 0.15)});
  }
  const Recording recording = Record(1, tokens);
  for (const uint32_t capacity : {0u, 1u, 15u, 30u, 60u}) {
    const std::vector<LayerExtent> layers = {{kUnits, capacity, {}}};
    const Tally bound = Belady(recording, layers).total();
    for (const PolicyInfo& info : Policies()) {
      const auto policy = Make(info.name, layers);
      Replayer replayer(policy.get(), layers);
      for (const auto& sets : tokens) replayer.Add(sets);
      const Tally tally = replayer.replay().total();
      EXPECT_EQ(tally.accesses, bound.accesses);
      EXPECT_LE(tally.hits, bound.hits) << info.name << " at " << capacity;
    }
    EXPECT_LE(OracleStatic(recording, layers).total().hits, bound.hits);
  }
}

}  // namespace
}  // namespace thermocline::residency
