#include "planner/neuron_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "base/random.h"

namespace thermocline::planner {
namespace {

std::vector<uint32_t> ByHeat(const FiringRows& rows) {
  std::vector<uint32_t> order(rows.num_neurons());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::sort(order, [&](uint32_t a, uint32_t b) {
    const int64_t of_a = rows.Count(a);
    const int64_t of_b = rows.Count(b);
    return of_a != of_b ? of_a > of_b : a < b;
  });
  return order;
}

// Neuron i belongs to clique i % num_cliques, whose members fire together;
// besides, each fires alone at times.
FiringRows Cliques(size_t num_neurons, size_t num_cliques, size_t num_samples) {
  FiringRows rows(num_neurons, num_samples);
  Random random(5);
  for (size_t s = 0; s < num_samples; ++s) {
    const size_t clique = random.Below(num_cliques);
    for (size_t i = clique; i < num_neurons; i += num_cliques) rows.Add(i, s);
    rows.Add(random.Below(num_neurons), s);
  }
  return rows;
}

struct Way {
  const char* name;
  Result<std::vector<uint32_t>> (*group)(const FiringRows&,
                                         std::span<const uint32_t>, size_t);
};

class NeuronGroupsTest : public ::testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    if (GetParam().name == std::string("Metis") && !HasMetis()) {
      GTEST_SKIP() << "METIS is not installed";
    }
  }
  std::vector<uint32_t> Group(const FiringRows& rows, size_t group_size) {
    auto order = GetParam().group(rows, ByHeat(rows), group_size);
    EXPECT_TRUE(order) << order.error().message;
    if (!order) return {};
    std::vector<uint32_t> sorted = *order;
    std::ranges::sort(sorted);
    std::vector<uint32_t> all(rows.num_neurons());
    std::iota(all.begin(), all.end(), 0u);
    EXPECT_EQ(sorted, all) << "not a permutation";
    return *order;
  }
};

TEST_P(NeuronGroupsTest, FindsWhatFiresTogether) {
  const FiringRows rows = Cliques(96, 12, 400);
  const std::vector<uint32_t> order = Group(rows, 8);
  for (size_t place = 0; place < order.size(); ++place) {
    EXPECT_EQ(order[place] % 12, order[place / 8 * 8] % 12) << place;
  }
  EXPECT_GT(PairsKept(rows, order, 8), 0.75);
  std::vector<uint32_t> as_they_lie(96);
  std::iota(as_they_lie.begin(), as_they_lie.end(), 0u);
  EXPECT_LT(PairsKept(rows, as_they_lie, 8), 0.2);
  EXPECT_EQ(order, Group(rows, 8));
}

TEST_P(NeuronGroupsTest, AnySizes) {
  const struct {
    size_t num_neurons, group_size, num_samples;
  } rows[] = {{0, 4, 10},  {1, 4, 10},   {3, 4, 10},  {5, 4, 1},
              {97, 8, 65}, {200, 7, 63}, {64, 64, 9}, {33, 1, 40}};
  for (const auto& row : rows) {
    SCOPED_TRACE(row.num_neurons);
    FiringRows firing(row.num_neurons, row.num_samples);
    Random random(row.num_neurons);
    for (size_t i = 0; i < row.num_neurons; ++i) {
      for (size_t s = 0; s < row.num_samples; ++s) {
        if (random.Below(4) == 0) firing.Add(i, s);
      }
    }
    Group(firing, row.group_size);
    Group(FiringRows(row.num_neurons, row.num_samples), row.group_size);
  }
}

// Four cliques of eight; the third fires most.
TEST_P(NeuronGroupsTest, HotGroupsFirst) {
  FiringRows rows(32, 100);
  for (size_t s = 0; s < 100; ++s) {
    const size_t clique = s < 60 ? 2 : s % 4;
    for (size_t i = clique; i < 32; i += 4) rows.Add(i, s);
  }
  const std::vector<uint32_t> order = Group(rows, 8);
  EXPECT_THAT(std::set(order.begin(), order.begin() + 8),
              ::testing::ElementsAre(2, 6, 10, 14, 18, 22, 26, 30));
}

INSTANTIATE_TEST_SUITE_P(
    Ways, NeuronGroupsTest,
    ::testing::Values(
        Way{"Greedily",
            [](const FiringRows& rows, std::span<const uint32_t> by_heat,
               size_t size) -> Result<std::vector<uint32_t>> {
              return GroupGreedily(rows, by_heat, size);
            }},
        Way{"Metis",
            [](const FiringRows& rows, std::span<const uint32_t> by_heat,
               size_t size) -> Result<std::vector<uint32_t>> {
              auto orders = GroupByMetis(rows, by_heat, {&size, 1});
              if (!orders) return tl::unexpected(orders.error());
              return std::move(orders->front());
            }}),
    [](const auto& info) { return info.param.name; });

// Each as if it had been asked for alone.
TEST(GroupNeuronsTest, SizesTogether) {
  const FiringRows rows = Cliques(37, 5, 300);
  const std::vector<size_t> sizes = {8, 1, 37, 4};
  for (const Grouping grouping : {Grouping::kGreedy, Grouping::kMetis}) {
    if (grouping == Grouping::kMetis && !HasMetis()) continue;
    const auto all = GroupNeurons(rows, ByHeat(rows), sizes, grouping);
    ASSERT_TRUE(all) << all.error().message;
    ASSERT_EQ(all->size(), sizes.size());
    for (size_t i = 0; i < sizes.size(); ++i) {
      const auto one = GroupNeurons(rows, ByHeat(rows),
                                    std::span(sizes).subspan(i, 1), grouping);
      ASSERT_TRUE(one);
      EXPECT_EQ((*all)[i], one->front()) << sizes[i];
    }
  }
}

TEST(PairsKeptTest, CountsPairs) {
  FiringRows rows(4, 3);
  for (const size_t neuron : {0, 1}) rows.Add(neuron, 0);
  for (const size_t neuron : {0, 1, 2}) rows.Add(neuron, 2);
  // Pairs: 01 twice, 02 and 12 once.
  EXPECT_DOUBLE_EQ(PairsKept(rows, std::vector<uint32_t>{0, 1, 2, 3}, 2), 0.5);
  EXPECT_DOUBLE_EQ(PairsKept(rows, std::vector<uint32_t>{0, 2, 1, 3}, 2), 0.25);
  EXPECT_DOUBLE_EQ(
      PairsKept(FiringRows(4, 0), std::vector<uint32_t>{0, 1, 2, 3}, 2), 0.0);
}

}  // namespace
}  // namespace thermocline::planner
