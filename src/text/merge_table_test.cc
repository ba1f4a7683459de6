#include "text/merge_table.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "base/random.h"

namespace thermocline::text {
namespace {

using Symbols = std::vector<MergeTable::Symbol>;

Symbols Apply(const MergeTable& table, Symbols symbols) {
  PairMerger merger;
  table.Apply(&symbols, &merger);
  return symbols;
}

TEST(MergeTableTest, LowestRankFirstThenLeftmost) {
  MergeTable table;
  table.Add(2, 3, 23);
  table.Add(1, 2, 12);
  table.Add(12, 3, 123);
  EXPECT_EQ(Apply(table, {1, 2, 3}), (Symbols{1, 23}));
  EXPECT_EQ(Apply(table, {1, 2, 1, 2}), (Symbols{12, 12}));
  MergeTable runs;
  runs.Add(1, 1, 2);
  EXPECT_EQ(Apply(runs, {1, 1, 1}), (Symbols{2, 1}));
  EXPECT_EQ(Apply(runs, {1, 1, 1, 1, 1}), (Symbols{2, 2, 1}));
  EXPECT_EQ(Apply(runs, {1}), (Symbols{1}));
  EXPECT_EQ(Apply(runs, {}), Symbols{});
}

TEST(MergeTableTest, GrowsAsMergesAreAdded) {
  MergeTable table;
  EXPECT_EQ(Apply(table, {1, 2}), (Symbols{1, 2}));  // none yet
  constexpr uint32_t kCount = 1000;
  for (uint32_t i = 0; i < kCount; ++i) table.Add(i, i * i, kCount + i);
  for (uint32_t i = 0; i < kCount; ++i) {
    EXPECT_EQ(Apply(table, {i, i * i}), (Symbols{kCount + i}));
    EXPECT_EQ(Apply(table, {i, i * i + 1}), (Symbols{i, i * i + 1}));
  }
  table.Reserve(5);  // never fewer
  EXPECT_EQ(Apply(table, {7, 49}), (Symbols{kCount + 7}));
}

TEST(MergeTableTest, FirstOfEqualPairsCounts) {
  MergeTable table;
  table.Add(1, 2, 3);
  table.Add(1, 2, 4);
  EXPECT_EQ(Apply(table, {1, 2}), (Symbols{3}));
}

// The definition, without heap or links.
Symbols Reference(const std::vector<std::vector<int>>& rank, int num_symbols,
                  Symbols symbols) {
  while (true) {
    size_t best = symbols.size();
    int best_rank = -1;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const int r = rank[symbols[i]][symbols[i + 1]];
      if (r >= 0 && (best_rank < 0 || r < best_rank)) {
        best = i;
        best_rank = r;
      }
    }
    if (best_rank < 0) return symbols;
    symbols[best] = static_cast<uint32_t>((best_rank * 7 + 3) % num_symbols);
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

TEST(MergeTableTest, EqualsTheDefinitionOnRandomTables) {
  Random random(1);
  for (int round = 0; round < 300; ++round) {
    const int num_symbols = 2 + static_cast<int>(random.Below(8));
    std::vector<std::vector<int>> rank(
        static_cast<size_t>(num_symbols),
        std::vector<int>(static_cast<size_t>(num_symbols), -1));
    MergeTable table;
    const int num_merges = static_cast<int>(random.Below(20));
    for (int r = 0, tries = 0; r < num_merges && tries < 100; ++tries) {
      const auto a = random.Below(static_cast<uint64_t>(num_symbols));
      const auto b = random.Below(static_cast<uint64_t>(num_symbols));
      if (rank[a][b] >= 0) continue;
      rank[a][b] = r;
      table.Add(static_cast<uint32_t>(a), static_cast<uint32_t>(b),
                static_cast<uint32_t>((r * 7 + 3) % num_symbols));
      ++r;
    }
    Symbols word(random.Below(40));
    for (auto& symbol : word) {
      symbol = static_cast<uint32_t>(
          random.Below(static_cast<uint64_t>(num_symbols)));
    }
    ASSERT_EQ(Apply(table, word), Reference(rank, num_symbols, word));
  }
}

}  // namespace
}  // namespace thermocline::text
