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
  EXPECT_EQ(fixed.layers[0], TallyOf(5, 2, 0, 0, 0));
  EXPECT_EQ(fixed.layers[1], TallyOf(4, 4, 0, 0, 0));
  EXPECT_EQ(fixed.misses, (Units{1, 2, 0}));
  // Begins with 0 or 1, has 1 next and 0 at last.
  const Replay belady = Belady(recording, layers);
  EXPECT_EQ(belady.layers[0].accesses, 5u);
  EXPECT_EQ(belady.layers[0].hits, 2u);
  EXPECT_EQ(belady.layers[0].wasted, 0u);
  EXPECT_EQ(belady.layers[1], TallyOf(4, 4, 0, 0, 0));
}

// The most hits where at most `moves` units come behind each token, whoever
// they are, by trying all.
int MostHitsOfMoves(uint32_t num_units, int capacity, int moves,
                    const std::vector<uint32_t>& used) {
  const uint32_t num_sets = 1u << num_units;
  std::vector<int> best(num_sets, 0);
  for (size_t t = used.size(); t-- > 0;) {
    std::vector<int> now(num_sets, -1);
    for (uint32_t set = 0; set < num_sets; ++set) {
      if (std::popcount(set) > capacity) continue;
      for (uint32_t after = 0; after < num_sets; ++after) {
        if (std::popcount(after) > capacity) continue;
        if (std::popcount(after & ~set) > moves) continue;
        now[set] = std::max(now[set], best[after]);
      }
      now[set] += std::popcount(set & used[t]);
    }
    best = now;
  }
  return *std::ranges::max_element(best);
}

// Exact where all may move and where none may; else at most as good as the
// best, and not much less.
TEST(Bounds, MovingOracleIsNearTheBestChoice) {
  constexpr uint32_t kUnits = 5;
  int sum = 0;
  int sum_of_best = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    Random random(seed);
    const auto capacity = static_cast<uint32_t>(1 + random.Below(kUnits));
    const auto moves = static_cast<uint32_t>(random.Below(4));
    Tokens tokens;
    std::vector<uint32_t> used;
    for (int t = 0; t < 15; ++t) {
      tokens.push_back({DrawUnits(random, kUnits, 0.3)});
      used.push_back(MaskOf(tokens.back()[0]));
    }
    const std::vector<LayerExtent> layers = {{kUnits, capacity, {}}};
    const Recording recording = Record(1, tokens);
    const Tally tally =
        MovingOracle(recording, layers, {.moves_per_token = moves}).total();
    const int best = MostHitsOfMoves(kUnits, static_cast<int>(capacity),
                                     static_cast<int>(moves), used);
    EXPECT_LE(static_cast<int>(tally.hits), best) << seed;
    EXPECT_LE(tally.moves, moves * tokens.size());
    if (moves >= capacity) {
      EXPECT_EQ(static_cast<int>(tally.hits), best) << seed;
    }
    if (moves == 0) {
      EXPECT_EQ(tally.hits, OracleStatic(recording, layers).total().hits);
    }
    sum += static_cast<int>(tally.hits);
    sum_of_best += best;
  }
  EXPECT_GT(sum, sum_of_best * 95 / 100);
}

// Groups of 3 are what one unit of each would be.
TEST(Bounds, GroupsAreTheirUnits) {
  Random random(9);
  std::vector<LayerExtent> groups = {{7, 3, {}}};
  groups[0].members_per_unit = 3;
  groups[0].num_members = 20;
  Tokens members;
  Tokens units;
  for (int t = 0; t < 60; ++t) {
    members.push_back({DrawUnits(random, 20, 0.2)});
    Units& token = units.emplace_back().emplace_back();
    for (const uint32_t member : members.back()[0]) {
      if (token.empty() || token.back() != member / 3) {
        token.push_back(member / 3);
      }
    }
  }
  const ReplayOptions options = {.moves_per_token = 2};
  for (const auto bound : {OracleStatic, Belady, MovingOracle}) {
    const Replay of_groups = bound(Record(1, members), groups, options);
    const Replay of_units = bound(Record(1, units), {{7, 3, {}}}, options);
    EXPECT_EQ(of_groups.misses, of_units.misses);
    const Tally tally = of_groups.total();
    EXPECT_EQ(tally.admissions + tally.moves,
              of_units.total().admissions + of_units.total().moves);
    EXPECT_GT(tally.member_accesses, tally.accesses);
    EXPECT_LT(tally.member_hits, tally.member_accesses);
    EXPECT_LE(tally.idle_members, tally.fetched_members);
  }
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

// Who proposes too has at most a hit more for each move; and where only moves
// count, none of these has as many as somebody who knows what comes.
TEST(Bounds, MovesWinAtMostAHitEach) {
  constexpr uint32_t kUnits = 60;
  Random random(4);
  Tokens tokens;
  for (int t = 0; t < 200; ++t) {
    tokens.push_back({DrawUnits(random, kUnits, 0.15)});
  }
  const Recording recording = Record(1, tokens);
  const std::vector<LayerExtent> layers = {{kUnits, 20, {}}};
  for (const Misses misses : {Misses::kRead, Misses::kComputed}) {
    const ReplayOptions options = {.misses = misses, .moves_per_token = 3};
    const uint64_t bound =
        misses == Misses::kRead
            ? Belady(recording, layers).total().hits
            : MovingOracle(recording, layers, options).total().hits;
    for (const PolicyInfo& info : Policies()) {
      const auto policy = Make(info.name, layers);
      Replayer replayer(policy.get(), layers, options);
      for (const auto& sets : tokens) replayer.Add(sets);
      const Tally tally = replayer.replay().total();
      const uint64_t more = misses == Misses::kRead ? tally.moves : 0;
      EXPECT_LE(tally.hits, bound + more) << info.name;
      EXPECT_LE(tally.moves, 3 * tokens.size()) << info.name;
    }
  }
}

}  // namespace
}  // namespace thermocline::residency
