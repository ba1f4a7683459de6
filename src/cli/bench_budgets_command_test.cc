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

MainResult BenchBudgets(const std::vector<std::string>& more) {
  std::vector<std::string> args = {"bench", "-m",    kStories,   "-t",
                                   "1",     "--ram", "1KiB,1GiB"};
  args.insert(args.end(), more.begin(), more.end());
  return RunMain(args);
}

TEST(BenchBudgetsTest, ARowForEachBudgetThatIsEnough) {
  const MainResult result = BenchBudgets({"-p", "4", "-n", "5", "-o", "json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("1.00 KiB: "));
  const auto rows = nlohmann::json::parse(result.out);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0]["ram"], 1 << 30);
  EXPECT_EQ(rows[0]["n_gen"], 4);
  EXPECT_EQ(rows[0]["resident"], 1.0);
  EXPECT_GT(rows[0]["bound_ts"], 0.0);
  const MainResult none = BenchBudgets({"-p", "4", "--ram", "1KiB,2KiB"});
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_THAT(none.err, HasSubstr("at least"));
}

TEST(BenchBudgetsTest, ARowForEachMode) {
  const MainResult result =
      RunMain({"bench", "-m", kStories, "-t", "1", "-p", "4", "-n", "5", "-o",
               "json", "--ram", "1GiB", "--storage", "cluster,mmap"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto rows = nlohmann::json::parse(result.out);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["storage"], "cluster");
  EXPECT_EQ(rows[1]["storage"], "mmap");
  const MainResult none = RunMain(
      {"bench", "-m", kStories, "-p", "4", "--storage", "cluster,mmap"});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.err, HasSubstr("wants --ram"));
}

TEST(BenchBudgetsTest, RefusesWhatSaysNothingThere) {
  const struct {
    std::vector<std::string> flags;
    const char* message;
  } cases[] = {{{"-np", "2"}, "has no effect with several budgets"},
               {{"-d", "8"}, "has no effect with several budgets"},
               {{"-r", "2"}, "has no effect with several budgets"},
               {{"--profile"}, "has no effect with several budgets"},
               {{"-n", "4,8"}, "one length"},
               {{"-t", "2"}, "one length"},
               {{"--vram", "1GiB"}, "one at a time"}};
  for (const auto& [flags, message] : cases) {
    const MainResult result = BenchBudgets(flags);
    EXPECT_EQ(result.exit_code, 2) << flags[0];
    EXPECT_THAT(result.err, HasSubstr(message));
  }
  const MainResult run =
      RunMain({"run", "-m", kStories, "-p", "a", "--ram", "1KiB,1GiB"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("one budget at a time"));
}

}  // namespace
}  // namespace thermocline::cli
