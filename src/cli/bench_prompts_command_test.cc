#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/test_files.h"
#include "cli/test_main.h"

namespace thermocline::cli {
namespace {

using ::testing::HasSubstr;

constexpr char kThreePrompts[] =
    "One day\nLily went to the park with her big brown dog\nThe end\n";

MainResult BenchPrompts(const std::vector<std::string>& more,
                        const std::string& prompts = kThreePrompts) {
  std::vector<std::string> args = {"bench", "-m", kStories, "-f", "-",
                                   "-t",    "1",  "-r",     "1"};
  args.insert(args.end(), more.begin(), more.end());
  return RunMain(args, prompts);
}

TEST(BenchPromptsTest, ARowPerPair) {
  const MainResult result =
      BenchPrompts({"-pg", "4,3", "-pg", "0,5", "-o", "json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto rows = nlohmann::json::parse(result.out);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["test"], "pp4+tg3");
  EXPECT_EQ(rows[1]["test"], "prompts+tg5");
  EXPECT_EQ(rows[1]["num_prompts"], 3);
  EXPECT_EQ(rows[1]["n_gen"], 5);
  EXPECT_GT(rows[0]["median_ts"], 0.0);
  EXPECT_FALSE(rows[0]["cpu_info"].is_null());
  const MainResult table = BenchPrompts({"-pg", "4,3"});
  EXPECT_THAT(table.out, HasSubstr(" pp4+tg3 |"));
  EXPECT_THAT(table.out, HasSubstr("build: thermocline " TC_VERSION));
}

// One prompt is long enough at 12 tokens, or none counts beyond --limit.
TEST(BenchPromptsTest, PicksByLengthAndLimit) {
  const auto num_prompts = [](const std::string& pair, const char* limit) {
    const MainResult result =
        BenchPrompts({"-pg", pair, "-o", "json", "--limit", limit});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return nlohmann::json::parse(result.out)[0]["num_prompts"].get<int>();
  };
  EXPECT_EQ(num_prompts("12,2", "3"), 1);
  EXPECT_EQ(num_prompts("0,2", "2"), 2);
  EXPECT_THAT(BenchPrompts({"-pg", "12,2", "--limit", "1"}).err,
              HasSubstr("no prompt is long enough for test pp12+tg2: the "
                        "longest, in line 1, has"));
}

TEST(BenchPromptsTest, WritesEveryToken) {
  const std::string path = TempPath("tokens.csv");
  const MainResult result =
      BenchPrompts({"-pg", "0,4", "--tokens-csv", path, "-r", "2"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  std::ifstream file(path);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  EXPECT_THAT(text, ::testing::StartsWith("row,test,n_threads,repetition,"));
  // 3 prompts, 4 tokens; a busy machine adds to the runs, not to those kept
  // beyond what is there.
  const auto num_lines = std::ranges::count(text, '\n') - 1;
  EXPECT_EQ(num_lines % 12, 0) << num_lines;
  EXPECT_GE(num_lines, 24);
  std::remove(path.c_str());
}

struct Refusal {
  std::vector<std::string> args;
  std::string message;
  int exit_code;
  std::string prompts = kThreePrompts;
};

TEST(BenchPromptsTest, SaysWhatIsWrong) {
  const Refusal refusals[] = {
      {{}, "standard input: holds no prompt", 1, " \n"},
      {{"-pg", "4,0"}, "G is at least 2", 2},
      {{"-pg", "4"}, "takes two numbers, P,G", 2},
      {{"-pg", "4,x"}, "not a whole number", 2},
      {{"-pg", "4,2045"}, "context is 2048", 1},
      {{"-p", "4"}, "-p, --n-prompt: has no effect with -f", 2},
      {{"--profile"}, "--profile: has no effect with -f", 2},
      {{"-pg", "0,2046"}, "line 1: its", 1},
      {{"--tokens-csv", "no-such-folder/x.csv"}, "no-such-folder", 1},
  };
  for (const Refusal& refusal : refusals) {
    const MainResult result = BenchPrompts(refusal.args, refusal.prompts);
    EXPECT_EQ(result.exit_code, refusal.exit_code) << refusal.message;
    EXPECT_THAT(result.err, HasSubstr(refusal.message));
    EXPECT_EQ(result.out, "");
  }
  const MainResult alone = RunMain({"bench", "-m", kStories, "-pg", "4,3"});
  EXPECT_EQ(alone.exit_code, 2);
  EXPECT_THAT(alone.err, HasSubstr("-pg: goes with -f"));
}

}  // namespace
}  // namespace thermocline::cli
