#include "bench/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace thermocline::bench {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

TEST(TableTest, CsvLeavesOutListsAndWritesNullAsNothing) {
  const std::vector<TableRow> rows = {{2,
                                       {{"test", "tg4"},
                                        {"avg_ts", 1.5},
                                        {"samples_ts", {1.0, 2.0}},
                                        {"pass_ns", 1234.6},
                                        {"percent_of_roof", nullptr},
                                        {"in_cache", true}}}};
  const std::string csv = TableCsv(Subject{}, rows);
  EXPECT_THAT(csv,
              HasSubstr(",test,avg_ts,pass_ns,percent_of_roof,in_cache\n"));
  EXPECT_THAT(csv, EndsWith(",tg4,1.500000,1235,,true\n"));
  const std::array<std::string_view, 2> names = {"in_cache", "test"};
  EXPECT_THAT(TableCsv(Subject{}, rows, names), EndsWith(",true,tg4\n"));
}

TEST(TableTest, CellsAreAsWideAsTheirColumns) {
  const std::array columns = {Column{"t/s", 6}, Column{"a longer name", 4}};
  EXPECT_THAT(TableHead(columns), HasSubstr("|    t/s | a longer name |\n"));
  EXPECT_THAT(TableHead(columns), EndsWith("| -----: | ---: |\n"));
  const std::array<std::string, 2> cells = {"1 ± 2", "x"};
  EXPECT_THAT(TableLine(Subject{}, 1, columns, cells),
              EndsWith("|  1 ± 2 |    x |\n"));
}

TEST(TableTest, ShareOfTheRoof) {
  EXPECT_EQ(PercentOfRoof(5, 20, false), 25.0);
  EXPECT_EQ(PercentOfRoof(5, 0, false), std::nullopt);
  EXPECT_EQ(PercentOfRoof(5, 20, true), std::nullopt);
  EXPECT_EQ(RoofCell(25.0, false), "25.0");
  EXPECT_EQ(RoofCell(std::nullopt, true), "in cache");
  EXPECT_EQ(RoofCell(std::nullopt, false), "");
}

TEST(TableTest, DroppedRunsAreTold) {
  EXPECT_EQ(DroppedNote("tg4", 0, 5, "run"), "");
  EXPECT_EQ(DroppedNote("tg4", 2, 3, "run"),
            "tg4: 2 of 5 runs dropped, the machine was busy\n");
}

}  // namespace
}  // namespace thermocline::bench
