#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cli/test_files.h"
#include "cli/test_main.h"

namespace thermocline::cli {
namespace {

using ::testing::HasSubstr;

const std::string kTask = InTestData("eval/query.jsonl");
const std::string kCauses = InTestData("eval/choice1_choice2.jsonl");

MainResult RunMc(std::vector<std::string> more) {
  std::vector<std::string> args = {"eval", "mc", "-m", kStories, "-t", "1"};
  args.insert(args.end(), more.begin(), more.end());
  return RunMain(args);
}

TEST(EvalMcCommandTest, AllFormats) {
  const MainResult table = RunMc({"-f", kTask});
  ASSERT_EQ(table.exit_code, 0) << table.err;
  EXPECT_THAT(table.out, HasSubstr("| dense    | acc_norm   | "));
  EXPECT_THAT(table.out, HasSubstr("6 items, query/choices/gold, 0 examples"));
  EXPECT_THAT(table.err, HasSubstr("dense, "));
  const MainResult json =
      RunMc({"-f", kTask, "--limit", "4", "--format", "json"});
  ASSERT_EQ(json.exit_code, 0) << json.err;
  const auto report = nlohmann::json::parse(json.out);
  EXPECT_EQ(report["items"], 4);
  EXPECT_EQ(report["file"], kTask);
  EXPECT_EQ(report["modes"].size(), 1u);
  const MainResult csv =
      RunMc({"-f", kTask, "--modes", "dense", "--format", "csv"});
  EXPECT_THAT(csv.out, HasSubstr(",query/choices/gold,6,0,"));
}

TEST(EvalMcCommandTest, ItemsAreTheSameForEveryThreadCount) {
  const std::string one = TempPath("one.jsonl");
  const std::string three = TempPath("three.jsonl");
  ASSERT_EQ(RunMc({"-f", kCauses, "-o", one}).exit_code, 0);
  ASSERT_EQ(RunMc({"-f", kCauses, "-o", three, "-t", "3", "-b", "2"}).exit_code,
            0);
  std::ifstream one_file(one), three_file(three);
  const std::string items{std::istreambuf_iterator<char>(one_file), {}};
  EXPECT_EQ(items, std::string(std::istreambuf_iterator<char>(three_file), {}));
  EXPECT_EQ(std::ranges::count(items, '\n'), 5);
  EXPECT_THAT(items, ::testing::StartsWith("{\"line\":1,\"gold\":0,"));
  std::filesystem::remove(one);
  std::filesystem::remove(three);
}

TEST(EvalMcCommandTest, ComparesAPredictorWithDense) {
  const auto run = [](const char* modes) {
    return RunMc({"-m", kDemoModel, "-f", kTask, "--limit", "1", "--modes",
                  modes, "--predictor", "free"});
  };
  const MainResult result = run("dense,fast");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("dense, "));
  EXPECT_THAT(result.err, HasSubstr("fast (signs of the weights, "));
  EXPECT_THAT(run("dense,exact").err,
              HasSubstr("predictor training-free: FFNs in mode dense ask none: "
                        "use --ffn fast"));
}

TEST(EvalMcCommandTest, ExamplesChangeTheScores) {
  const auto scores = [](std::vector<std::string> more) {
    const std::string items = TempPath("items.jsonl");
    more.insert(more.end(), {"-f", kCauses, "--limit", "1", "-o", items});
    const MainResult result = RunMc(more);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    std::ifstream file(items);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const std::string none = scores({});
  EXPECT_NE(scores({"--shots-file", kCauses, "--shots", "2"}), none);
  EXPECT_NE(scores({"--shots-file", kCauses, "--shots", "2"}),
            scores({"--shots-file", kCauses}));
  std::filesystem::remove(TempPath("items.jsonl"));
}

TEST(EvalMcCommandTest, TheContextIsWhatTheItemsNeed) {
  const MainResult result = RunMc({"-f", kTask, "-c", "8"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err,
              ::testing::ContainsRegex(
                  "query.jsonl: line 1: needs [0-9]+ positions, the context "
                  "has 8: use -c [0-9]+ or more\n"));
  EXPECT_EQ(result.out, "");
}

TEST(EvalMcCommandTest, WrongUsage) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{}, "--file is required"},
      {{"-f", kTask, "--modes", "dense,quick"}, "'quick' is not one of auto, "},
      {{"-f", kTask, "--modes", "dense,dense"}, "'dense' is named twice"},
      {{"-f", kTask, "--modes", ""}, "--modes: '' is not one of auto, "},
      {{"-f", kTask, "--modes", "dense,"}, "--modes: '' is not one of auto, "},
      {{"-f", "-", "--shots-file", "-"}, "cannot both be standard input"},
      {{"-f", "/dev/stdin", "--shots-file", "-"}, "cannot both be standard"},
      {{"-f", kTask, "--modes", "dense", "--ffn", "dense"}, "excludes --modes"},
      {{"-f", kTask, "--format", "xml"}, "'xml' is not one of table, csv, "},
      {{"-f", kTask, "--limit", "0"}, "--limit: 0 is out of range"},
      {{"-f", kTask, "--shots", "2"}, "--shots requires --shots-file"}};
  for (const auto& [more, part] : cases) {
    const MainResult result = RunMc(more);
    EXPECT_EQ(result.exit_code, 2) << ::testing::PrintToString(more);
    EXPECT_THAT(result.err, HasSubstr(part));
  }
}

TEST(EvalMcCommandTest, BadInputIsNamed) {
  const std::string unknown = TempPath("unknown.jsonl");
  std::ofstream(unknown) << "{\"goal\": \"x\", \"sol1\": \"y\"}\n";
  const MainResult schema = RunMc({"-f", unknown});
  EXPECT_EQ(schema.exit_code, 1);
  EXPECT_THAT(schema.err,
              HasSubstr(unknown + ": line 1: a record of no known "
                                  "schema; its fields are \"goal\", "
                                  "\"sol1\"; known are query/"));
  EXPECT_THAT(RunMc({"-f", kTask, "--shots-file", kCauses}).err,
              HasSubstr("its records are premise/choice1/"));
  EXPECT_THAT(RunMc({"-f", kTask, "--shots-file", kTask, "--shots", "7"}).err,
              HasSubstr("has 6 records, fewer than --shots 7"));
  EXPECT_THAT(RunMc({"-f", kTask, "-o", kTask}).err,
              HasSubstr("one of the files to read"));
  for (const char* modes : {"auto,dense", "dense,auto"}) {
    EXPECT_THAT(RunMc({"-f", kTask, "--modes", modes}).err,
                HasSubstr("--modes: 'auto' is 'dense' for this model: give "
                          "one of the two"));
  }
  std::filesystem::remove(unknown);
}

// Before anything is scored: else the report would be there.
TEST(EvalMcCommandTest, AnOutputThatCannotBeIsRefusedAtOnce) {
  const std::string output = TempPath("no/such/items.jsonl");
  const MainResult result = RunMc({"-f", kTask, "-o", output});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr(output));
  EXPECT_EQ(result.out, "");
}

TEST(EvalMcCommandTest, TheReportOutlivesAFullDisk) {
  const MainResult result = RunMc({"-f", kTask, "-o", "/dev/full"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("/dev/full"));
  EXPECT_THAT(result.out, HasSubstr("| dense    | acc        | "));
}

TEST(EvalMcCommandTest, RefusesToReplaceTheSplitFile) {
  const std::string split = TempPath("own.gpuidx");
  std::ofstream(split) << "split";
  const MainResult result = RunMc({"-f", kTask, "--split", split, "-o", split});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("one of the files to read"));
  std::filesystem::remove(split);
}

}  // namespace
}  // namespace thermocline::cli
