#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/test_files.h"
#include "cli/test_main.h"

namespace thermocline::cli {
namespace {

using ::testing::HasSubstr;

MainResult BenchSequences(const std::vector<std::string>& more,
                          const std::string& prompts = "") {
  std::vector<std::string> args = {"bench", "-m", kStories, "-t",
                                   "1",     "-r", "1"};
  args.insert(args.end(), more.begin(), more.end());
  return RunMain(args, prompts);
}

TEST(BenchSequencesTest, ARowPerNumberOfSequences) {
  for (const char* name : {"-np", "-npl", "--parallel"}) {
    const MainResult result =
        BenchSequences({name, "1,3", "-p", "4,2", "-n", "3", "-o", "json"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const auto rows = nlohmann::json::parse(result.out);
    ASSERT_EQ(rows.size(), 4u);
    EXPECT_EQ(rows[0]["test"], "pp4+tg3");
    EXPECT_EQ(rows[1]["num_sequences"], 3);
    EXPECT_EQ(rows[1]["num_passes"], 3);
    EXPECT_EQ(rows[2]["test"], "pp2+tg3");
    EXPECT_GT(rows[3]["median_ts"], 0.0);
    EXPECT_FALSE(rows[3]["cpu_info"].is_null());
  }
  const MainResult table = BenchSequences({"-np", "2"});
  ASSERT_EQ(table.exit_code, 0) << table.err;
  EXPECT_THAT(table.out, HasSubstr(" pp16+tg64 |    2 |"));
  EXPECT_THAT(table.out, HasSubstr("build: thermocline " TC_VERSION));
}

TEST(BenchSequencesTest, TakesPromptsInTurn) {
  const MainResult result =
      BenchSequences({"-np", "3", "-f", "-", "-pg", "0,4", "-o", "json"},
                     "One day\nLily went to the park\n");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto row = nlohmann::json::parse(result.out)[0];
  EXPECT_EQ(row["test"], "prompts+tg4");
  EXPECT_EQ(row["num_passes"], 3);
  EXPECT_EQ(row["num_prompts"], 2);
}

TEST(BenchSequencesTest, SaysWhatIsWrong) {
  const struct {
    std::vector<std::string> args;
    std::string message;
    int exit_code;
  } refusals[] = {
      {{"-np", "0"}, "-np, -npl, --parallel: ", 2},
      {{"-np", "2", "-d", "4"}, "-d, --n-depth, --depth: has no effect", 2},
      {{"-np", "2", "--profile"}, "--profile: has no effect with -np", 2},
      {{"-np", "2", "-n", "0"}, "-n 0: with -np something is generated", 2},
      {{"-np", "2", "-pg", "4,3"}, "-pg: goes with -f", 2},
      {{"-np", "2", "-f", "-", "-p", "4"}, "-p, --n-prompt: has no effect", 2},
      {{"-np", "2", "-f", "-", "--tokens-csv", "x"}, "--tokens-csv: has no", 2},
      {{"-np", "2", "-f", "-"}, "standard input: holds no prompt", 1},
      {{"-np", "4", "-b", "2"}, "-np 4: no more than 2 tokens", 1},
      {{"-np", "2", "-n", "2048"}, "context is 2048", 1},
      {{"-np", "512", "-n", "2000", "--ram", "8M"},
       "512 sequences of 2016 positions each: ",
       1},
  };
  for (const auto& refusal : refusals) {
    const MainResult result = BenchSequences(refusal.args);
    EXPECT_EQ(result.exit_code, refusal.exit_code) << refusal.message;
    EXPECT_THAT(result.err, HasSubstr(refusal.message));
    EXPECT_EQ(result.out, "");
  }
}

}  // namespace
}  // namespace thermocline::cli
