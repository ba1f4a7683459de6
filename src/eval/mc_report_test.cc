#include "eval/mc_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

namespace thermocline::eval {
namespace {

using ::testing::HasSubstr;

McTask ThreeItems() {
  McTask task = {.path = "dir/a \"b\".jsonl", .schema = "query/choices/gold"};
  for (int64_t i = 0; i < 3; ++i) {
    task.items.push_back({.line = 2 * i + 1,
                          .gold = static_cast<size_t>(i),
                          .contexts = {"x"},
                          .continuations = {" a", " four", " seven77"}});
  }
  task.items[0].continuations.pop_back();
  return task;
}

// Right picks: dense items 0 and 2, by length 1 and 2; sparse 1.
const std::vector<McRun> kRuns = {
    {.mode = "dense",
     .scores = {{-1.0, -3.0}, {-2.0, -3.0, -9.0}, {-4.0, -9.0, -2.0}}},
    {.mode = "fast",
     .scores = {{-4.0, -3.0}, {-4.0, -3.0, -9.0}, {-2.0, -9.0, -4.0}}}};

TEST(PickTest, TheFirstOfTheHighest) {
  EXPECT_EQ(Pick({-3.0, -1.0, -1.0}), 1u);
  McItem item = {.continuations = {" a", " bb", " cc"}};
  EXPECT_EQ(PickNormalised(item, {-1.0, -1.5, -1.5}), 1u);
}

TEST(MakeMcReportTest, CountsWhatChanged) {
  const McReport report = MakeMcReport(ThreeItems(), 5, kRuns);
  EXPECT_EQ(report.num_items, 3);
  EXPECT_EQ(report.num_examples, 5);
  EXPECT_NEAR(report.guess, (0.5 + 2.0 / 3) / 3, 1e-15);
  ASSERT_EQ(report.modes.size(), 2u);
  const McModeReport& dense = report.modes[0];
  const McModeReport& fast = report.modes[1];
  EXPECT_EQ(dense.accuracy.count, 2);
  // Per byte: -1 -0.75; -2 -0.75 -1.29; -4 -2.25 -0.29.
  EXPECT_EQ(dense.accuracy_norm.count, 2);
  EXPECT_FALSE(dense.change.has_value());
  EXPECT_EQ(fast.accuracy.count, 1);
  ASSERT_TRUE(fast.change.has_value() && fast.change_norm.has_value());
  EXPECT_EQ(fast.change->changed, 3);
  EXPECT_EQ(fast.change->lost, 2);
  EXPECT_EQ(fast.change->gained, 1);
  EXPECT_NEAR(fast.change->difference, -1.0 / 3, 1e-15);
  // Differences -1, 1, -1: mean -1/3, variance 1 - 1/9.
  EXPECT_NEAR(fast.change->error, std::sqrt((1.0 - 1.0 / 9) / 3), 1e-15);
  EXPECT_EQ(fast.change_norm->changed, 0);
  EXPECT_EQ(fast.change_norm->error, 0.0);
}

TEST(FormatMcReportTest, Table) {
  const McReport report = MakeMcReport(ThreeItems(), 5, kRuns);
  const std::string text = FormatMcReport(report, McFormat::kTable);
  EXPECT_THAT(text, HasSubstr("| dense    | acc        | 66.67 ± 27.22 (20.77 "
                              "to 93.85)   |\n"));
  EXPECT_THAT(text, HasSubstr("| fast     | acc_norm   | 66.67"));
  EXPECT_THAT(text, HasSubstr("3 items, query/choices/gold, 5 examples in "
                              "front; guessing: 38.89\n"));
  EXPECT_THAT(text,
              HasSubstr("fast against dense, acc: -33.33 ± 54.43 points; 3 of "
                        "3 picks changed, 2 right to wrong, 1 wrong to "
                        "right\n"));
}

TEST(FormatMcReportTest, JsonAndCsvSayTheSame) {
  const McReport report = MakeMcReport(ThreeItems(), 5, kRuns);
  const auto json =
      nlohmann::json::parse(FormatMcReport(report, McFormat::kJson));
  EXPECT_EQ(json["file"], "dir/a \"b\".jsonl");
  EXPECT_EQ(json["modes"][0]["acc"], 2.0 / 3);
  EXPECT_EQ(json["modes"][0]["change"], nullptr);
  EXPECT_EQ(json["modes"][1]["mode"], "fast");
  EXPECT_EQ(json["modes"][1]["change"]["lost"], 2);
  EXPECT_EQ(json["modes"][1]["change_norm"]["changed"], 0);
  const std::string csv = FormatMcReport(report, McFormat::kCsv);
  EXPECT_THAT(csv, ::testing::StartsWith("file,schema,items,"));
  EXPECT_THAT(csv, HasSubstr("\n\"dir/a \"\"b\"\".jsonl\",query/choices/gold,"
                             "3,5,0.388889,dense,0.666667,"));
  EXPECT_THAT(csv, HasSubstr(",3,2,1,-0.333333,0.544331,0,0,0,0.000000,"
                             "0.000000\n"));
  // As many fields in each line as in the first; none has a comma inside.
  size_t begin = 0;
  while (begin < csv.size()) {
    const size_t end = csv.find('\n', begin);
    EXPECT_EQ(std::count(csv.begin() + static_cast<ptrdiff_t>(begin),
                         csv.begin() + static_cast<ptrdiff_t>(end), ','),
              23);
    begin = end + 1;
  }
}

TEST(FormatMcItemTest, EverythingOfOneItem) {
  const McTokens tokens = {.contexts = {{1}},
                           .continuations = {{5}, {6, 7}, {8, 9, 10}}};
  const auto json =
      nlohmann::json::parse(FormatMcItem(ThreeItems(), tokens, kRuns, 1));
  EXPECT_EQ(json["line"], 3);
  EXPECT_EQ(json["gold"], 1);
  EXPECT_EQ(json["bytes"], nlohmann::json({1, 4, 7}));
  EXPECT_EQ(json["tokens"], nlohmann::json({1, 2, 3}));
  EXPECT_EQ(json["modes"]["dense"]["log_probs"],
            nlohmann::json({-2.0, -3.0, -9.0}));
  EXPECT_EQ(json["modes"]["dense"]["pick"], 0);
  EXPECT_EQ(json["modes"]["dense"]["pick_norm"], 1);
  EXPECT_EQ(json["modes"]["fast"]["pick"], 1);
}

}  // namespace
}  // namespace thermocline::eval
