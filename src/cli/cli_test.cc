#include "cli/cli.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cli/test_main.h"

namespace thermocline::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using Args = std::vector<std::string>;

TEST(MainTest, TellsItsVersion) {
  const MainResult result = RunMain({"--version"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, StartsWith("thermocline " TC_VERSION " ("));
  EXPECT_THAT(result.out, HasSubstr("scalar"));
  EXPECT_EQ(result.err, "");
}

TEST(MainTest, EveryCommandHasHelpWithExamples) {
  for (const Args& command :
       {Args{}, Args{"run"}, Args{"inspect"}, Args{"convert"}, Args{"tokenize"},
        Args{"eval"}, Args{"eval", "logits"}, Args{"eval", "ppl"},
        Args{"bench"}}) {
    for (const char* flag : {"--help", "-h"}) {
      Args args = command;
      args.push_back(flag);
      const MainResult result = RunMain(args);
      EXPECT_EQ(result.exit_code, 0);
      EXPECT_THAT(result.out, HasSubstr("Usage: thermocline"));
      EXPECT_THAT(result.out, HasSubstr("Examples:\n  "));
      EXPECT_EQ(result.err, "");
    }
  }
}

// A profile and a trace are shown without a model.
TEST(MainTest, HelpCallsNothingRequiredThatIsNot) {
  for (const char* command : {"profile", "trace"}) {
    EXPECT_THAT(RunMain({command, "--help"}).out,
                ::testing::Not(HasSubstr("(required)")));
  }
}

TEST(MainTest, WrongUsageIsOneLineAndExitCode2) {
  for (const Args& args :
       {Args{"fly"},
        Args{"--fly"},
        Args{"run"},
        Args{"run", "-m", "a"},
        Args{"run", "-m", "a", "-p", "x", "-f", "y"},
        Args{"run", "-m", "a", "-p", "x", "-n", "x"},
        Args{"run", "-m", "a", "-p", "x", "-ngl", "9"},
        Args{"run", "-m", "a", "-p", "x", "--isa", "mmx"},
        Args{"run", "-m", "a", "-p", "x", "-t", "-3"},
        Args{"run", "-m", "a", "-p", "x", "-c", "99999999999999999999"},
        Args{"run", "-m", "a", "-p", "x", "--temp", "nan"},
        Args{"run", "-m", "a", "-p", "x", "stray"},
        Args{"run", "-m"},
        Args{"inspect"},
        Args{"convert", "folder"},
        Args{"tokenize"},
        Args{"eval"},
        Args{"eval", "logits", "-m", "a", "-o", "b"},
        Args{"eval", "logits", "-m", "a", "-o", "b", "--tokens", "1,x"},
        Args{"eval", "ppl", "-m", "a"},
        Args{"bench", "-m", "a", "-o", "xml"},
        Args{"bench", "-m", "a", "-p", "0", "-n", "0"}}) {
    const MainResult result = RunMain(args);
    EXPECT_EQ(result.exit_code, 2) << ::testing::PrintToString(args);
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, StartsWith("thermocline: error: "));
    EXPECT_THAT(result.err, HasSubstr("--help')\n"));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1)
        << result.err;
  }
}

TEST(MainTest, NamesWhatItDoesNotKnowAsItWasTyped) {
  EXPECT_THAT(RunMain({"run", "-m", "a", "-p", "x", "-ngl", "9"}).err,
              HasSubstr("unknown argument '-ngl'"));
  EXPECT_THAT(RunMain({"fly"}).err, HasSubstr("unknown command 'fly'"));
  EXPECT_THAT(RunMain({"eval", "foo"}).err, HasSubstr("unknown command 'foo'"));
  EXPECT_THAT(RunMain({"run", "-p", "x"}).err, HasSubstr("--model"));
  EXPECT_THAT(RunMain({"run", "-x"}).err, HasSubstr("unknown argument '-x'"));
  EXPECT_THAT(RunMain({"convert", "h", "--fly"}).err,
              HasSubstr("unknown argument '--fly'"));
  EXPECT_THAT(RunMain({"run", "-m", "x", "-p"}).err,
              HasSubstr("--prompt: its value is missing"));
}

TEST(MainTest, HelpForAnUnknownCommandIsAnError) {
  for (const Args& args : {Args{"fly", "--help"}, Args{"-h", "fly"},
                           Args{"eval", "fly", "--help"}}) {
    const MainResult result = RunMain(args);
    EXPECT_EQ(result.exit_code, 2) << ::testing::PrintToString(args);
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, HasSubstr("unknown command 'fly'"));
  }
}

TEST(MainTest, ShowsHelpWhenCalledWithNothing) {
  const MainResult result = RunMain({});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("Usage: thermocline COMMAND"));
}

}  // namespace
}  // namespace thermocline::cli
