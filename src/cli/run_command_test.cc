#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "cli/test_files.h"
#include "cli/test_main.h"

namespace thermocline::cli {
namespace {

using ::testing::HasSubstr;
using Args = std::vector<std::string>;

const char kLily[] =
    ", there was a little girl named Lily. She loved to play outside in the "
    "park.";

Args RunArgs(const Args& more) {
  Args args = {"run", "-m", kStories, "--temp", "0", "-t", "1", "-n", "24"};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

TEST(RunCommandTest, ContinuesTheStory) {
  const MainResult result =
      RunMain(RunArgs({"-p", "Once upon a time", "-n", "40"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, ::testing::StartsWith(kLily));
  EXPECT_THAT(result.err, HasSubstr("dense, "));
  EXPECT_THAT(result.err, HasSubstr("1 thread, context "));
  EXPECT_THAT(result.err, HasSubstr("stop: token limit"));
}

TEST(RunCommandTest, TakesThePromptFromFilesToo) {
  const std::string want = RunMain(RunArgs({"-p", "Once upon a time"})).out;
  ASSERT_FALSE(want.empty());
  const std::string path = TempPath("prompt.txt");
  std::ofstream(path) << "Once upon a time\n";
  EXPECT_EQ(RunMain(RunArgs({"-f", path})).out, want);
  std::remove(path.c_str());
  EXPECT_EQ(RunMain(RunArgs({"-f", "-"}), "Once upon a time\n").out, want);
  EXPECT_EQ(RunMain(RunArgs({"-f", "/dev/stdin"}), "Once upon a time").out,
            want);
}

TEST(RunCommandTest, NamesAPromptWithoutTokens) {
  EXPECT_THAT(RunMain(RunArgs({"-f", "-", "--no-bos"})).err,
              HasSubstr("error: standard input: the prompt has no tokens"));
  EXPECT_THAT(RunMain(RunArgs({"-p", "", "--no-bos"})).err,
              HasSubstr("error: -p: the prompt has no tokens"));
}

TEST(RunCommandTest, ReadsEscapesInThePrompt) {
  const std::string want = RunMain(RunArgs({"-p", "One\nday"})).out;
  EXPECT_EQ(RunMain(RunArgs({"-p", "One\\nday"})).out, want);
  EXPECT_EQ(RunMain(RunArgs({"-p", "\\x4fne\\nday"})).out, want);
  EXPECT_NE(RunMain(RunArgs({"-p", "One\\nday", "--no-escape"})).out, want);
}

TEST(RunCommandTest, StopsBeforeAStopString) {
  const MainResult result = RunMain(
      RunArgs({"-p", "Once upon a time", "-r", "never there", "-r", " named"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, ", there was a little girl");
  EXPECT_THAT(result.err, HasSubstr("stop: stop string"));
}

TEST(RunCommandTest, TheSameSeedGivesTheSameText) {
  const auto draw = [](const std::string& seed) {
    return RunMain(RunArgs({"-p", "Once", "--temp", "1.2", "-s", seed})).out;
  };
  EXPECT_EQ(draw("7"), draw("7"));
  EXPECT_NE(draw("7"), draw("8"));
}

TEST(RunCommandTest, RefusesAPromptLongerThanTheContext) {
  const MainResult result =
      RunMain(RunArgs({"-p", "Once upon a time there was", "-c", "4"}));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("thermocline: error: "));
  EXPECT_THAT(result.err, HasSubstr("4"));
}

TEST(RunCommandTest, RefusesMoreMemoryThanThereIs) {
  const MainResult result = RunMain(RunArgs({"-p", "x", "-c", "100000000000"}));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("iB"));
}

}  // namespace
}  // namespace thermocline::cli
