#include "bench/budget_bound.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace thermocline::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

BudgetRow RowOfTokens(double seconds, double waited_seconds) {
  BudgetRow row = {.ram = uint64_t{1} << 30, .unit = "records"};
  for (const double factor : {1.0, 1.0, 1.0, 5.0}) {
    row.tokens.push_back({.seconds = factor * seconds,
                          .waited_seconds = factor * waited_seconds});
  }
  return row;
}

BudgetRow ReplayedRow(double seconds, double reads_seconds) {
  BudgetRow row = RowOfTokens(seconds, 0.5 * seconds);
  row.replay = {.reader = "pread",
                .depth = 16,
                .seconds = std::vector<double>(4, reads_seconds),
                .in_turns_seconds = std::vector<double>(4, 2 * reads_seconds)};
  return row;
}

BudgetRow InMemoryRow(double seconds) {
  BudgetRow row = RowOfTokens(seconds, 0.0);
  row.ram = uint64_t{6} << 30;
  row.unit.clear();
  row.is_in_memory = true;
  return row;
}

TEST(BudgetBound, IsTheLongerOfReadingAndComputing) {
  const struct {
    double reads_seconds;
    std::vector<double> in_memory_seconds;
    double bound_seconds;
  } cases[] = {{0.08, {}, 0.08},           {0.02, {}, 0.05},
               {0.08, {0.07}, 0.08},       {0.02, {0.07}, 0.07},
               {0.02, {0.09, 0.06}, 0.06}, {0.08, {0.2}, 0.2}};
  for (const auto& [reads_seconds, in_memory_seconds, expected] : cases) {
    std::vector<BudgetRow> rows = {ReplayedRow(0.1, reads_seconds)};
    for (const double seconds : in_memory_seconds) {
      rows.push_back(InMemoryRow(seconds));
    }
    const auto bound = BoundOf(rows[0], rows);
    ASSERT_TRUE(bound);
    EXPECT_DOUBLE_EQ(bound->token_seconds, 0.1);
    EXPECT_DOUBLE_EQ(bound->in_turns_seconds, 2 * reads_seconds);
    EXPECT_DOUBLE_EQ(bound->seconds(), expected);
    EXPECT_DOUBLE_EQ(bound->times(), 0.1 / expected);
    EXPECT_EQ(bound->in_memory != nullptr, !in_memory_seconds.empty());
  }
}

TEST(BudgetBound, WantsAReplay) {
  std::vector<BudgetRow> rows = {RowOfTokens(0.1, 0.0), InMemoryRow(0.05)};
  EXPECT_FALSE(BoundOf(rows[0], rows));
  EXPECT_FALSE(BoundOf(rows[1], rows));
  rows[0].replay = engine::StreamReplay{};
  EXPECT_FALSE(BoundOf(rows[0], rows));
  // What the log had room for alone is compared.
  rows[0].tokens = {{.seconds = 0.3}, {.seconds = 0.1}, {.seconds = 0.1}};
  rows[0].replay->seconds = rows[0].replay->in_turns_seconds = {0.15};
  EXPECT_DOUBLE_EQ(BoundOf(rows[0], rows)->times(), 2.0);
}

TEST(BudgetBound, SaysWhatTheTableCannot) {
  std::vector<BudgetRow> rows = {ReplayedRow(0.1, 0.04)};
  EXPECT_THAT(DescribeBounds(rows),
              HasSubstr("1.00 GiB: reads alone by pread, 16 at once; 80.00 ms "
                        "in turns\n"));
  EXPECT_THAT(DescribeBounds(rows), HasSubstr("no budget holds everything"));
  rows.push_back(InMemoryRow(0.09));
  EXPECT_THAT(DescribeBounds(rows), HasSubstr("all in memory (6.00 GiB)"));
  rows[0].replay->is_direct = false;
  rows[0].replay->seconds.pop_back();
  rows.push_back({.storage = "mmap", .ram = uint64_t{2} << 30});
  const std::string words = DescribeBounds(rows);
  for (const char* part :
       {"from the page cache", "of the first 3 of 4 tokens\n",
        "2.00 GiB mmap: the system reads"}) {
    EXPECT_THAT(words, HasSubstr(part));
  }
  rows[0].replay.reset();
  EXPECT_THAT(DescribeBounds(rows), HasSubstr("could not be replayed"));
  EXPECT_THAT(DescribeBounds(rows), Not(HasSubstr("x bound")));
  EXPECT_EQ(DescribeBounds({&rows[1], 1}), "");
}

}  // namespace
}  // namespace thermocline::bench
