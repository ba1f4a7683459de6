#include "cli/cli.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands.h"
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

// Appends the path of `app`, "eval" "kl", and those of all below it.
void ListCommands(const CLI::App& app, const Args& path,
                  std::vector<Args>& paths) {
  paths.push_back(path);
  for (const CLI::App* sub :
       app.get_subcommands([](const CLI::App*) { return true; })) {
    Args below = path;
    below.push_back(sub->get_name());
    ListCommands(*sub, below, paths);
  }
}

TEST(MainTest, EveryCommandHasHelpWithExamples) {
  CLI::App root("", "thermocline");
  Action action;
  AddCommands(root, action);
  std::vector<Args> commands;
  ListCommands(root, {}, commands);
  EXPECT_THAT(commands, ::testing::IsSupersetOf({Args{}, Args{"prepare"},
                                                 Args{"eval", "sparsity"},
                                                 Args{"bench", "roof"}}));
  for (const Args& command : commands) {
    for (const char* flag : {"--help", "-h"}) {
      Args args = command;
      args.push_back(flag);
      const MainResult result = RunMain(args);
      EXPECT_EQ(result.exit_code, 0);
      EXPECT_THAT(result.out, HasSubstr(fmt::format("\nUsage: thermocline{}{} ",
                                                    command.empty() ? "" : " ",
                                                    fmt::join(command, " "))));
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
  const Args run = {"run", "-m", "a", "-p", "x"};
  const auto run_with = [&run](const Args& more) {
    Args args = run;
    args.insert(args.end(), more.begin(), more.end());
    return args;
  };
  const std::vector<std::pair<Args, std::string>> cases = {
      {{"fly"}, "unknown command 'fly'"},
      {{"--fly"}, "unknown argument '--fly'"},
      {{"run"}, "--model is required"},
      {{"run", "-m", "a"}, "no prompt: give one by -p or -f"},
      {{"run", "-m"}, "-m: its value is missing"},
      {run_with({"-f", "y"}), "give the prompt by -p or by -f, not both"},
      {run_with({"-n", "x"}), "--n-predict: 'x' is not a whole number"},
      {run_with({"-ngl", "x"}), "-ngl, --gpu-layers, --n-gpu-layers: 'x' is"},
      {run_with({"--isa", "mmx"}), "--isa: 'mmx' is not known"},
      {run_with({"-t", "-3"}), "-t, --threads: -3 is out of range"},
      {run_with({"-c", "99999999999999999999"}), "--ctx-size: 99999999999"},
      {run_with({"--temp", "nan"}), "--temp: 'nan' is not a number"},
      {run_with({"stray"}), "unknown argument 'stray'"},
      {{"inspect"}, "the model is missing: MODEL or -m FILE"},
      {{"convert", "folder"}, "--output is required"},
      {{"tokenize"}, "--model is required"},
      {{"eval"}, "a command is missing"},
      {{"eval", "logits", "-m", "a", "-o", "b"}, "either --tokens or"},
      {{"eval", "logits", "-m", "a", "-o", "b", "--tokens", "1,x"},
       "--tokens: 'x' is not a whole number"},
      {{"eval", "ppl", "-m", "a"}, "--file is required"},
      {{"bench", "-m", "a", "-o", "xml"}, "'xml' is not one of md, json, csv"},
      {{"bench", "-m", "a", "-p", "0", "-n", "0"}, "-p and -n are both 0"}};
  for (const auto& [args, part] : cases) {
    const MainResult result = RunMain(args);
    EXPECT_EQ(result.exit_code, 2) << ::testing::PrintToString(args);
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, StartsWith("thermocline: error: "));
    EXPECT_THAT(result.err, HasSubstr(part));
    EXPECT_THAT(result.err, HasSubstr("--help')\n"));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1)
        << result.err;
  }
}

TEST(MainTest, NamesWhatItDoesNotKnowAsItWasTyped) {
  EXPECT_THAT(RunMain({"run", "-m", "a", "-p", "x", "-fa", "9"}).err,
              HasSubstr("unknown argument '-fa'"));
  EXPECT_THAT(RunMain({"fly"}).err, HasSubstr("unknown command 'fly'"));
  EXPECT_THAT(RunMain({"eval", "foo"}).err, HasSubstr("unknown command 'foo'"));
  EXPECT_THAT(RunMain({"run", "-p", "x"}).err, HasSubstr("--model"));
  EXPECT_THAT(RunMain({"run", "-x"}).err, HasSubstr("unknown argument '-x'"));
  EXPECT_THAT(RunMain({"convert", "h", "--fly"}).err,
              HasSubstr("unknown argument '--fly'"));
  for (const char* flag : {"-p", "--prompt", "-ctk", "--cache_type_k"}) {
    EXPECT_THAT(
        RunMain({"run", "-m", "x", flag}).err,
        HasSubstr(std::string("error: ") + flag + ": its value is missing"));
  }
}

TEST(MainTest, ALongValueMakesNoLongError) {
  const std::string digits(100'000, '9');
  for (const Args& args :
       {Args{"run", "--chat-template", digits}, Args{"run", "-n", digits},
        Args{"run", "--temp", "1" + std::string(38, '0') + digits},
        Args{"run", "--top-p", std::string(50'000, '0') + "-1"},
        Args{"run", "--ffn-act", digits}, Args{"run", "-ctk", digits},
        Args{"run", "--isa", digits}, Args{"bench", "-o", digits},
        Args{"eval", "mc", "--format", digits},
        Args{"eval", "mc", "--modes", "dense," + digits},
        Args{"synth", "-o", "x", "--like", digits}}) {
    const MainResult result = RunMain(args);
    EXPECT_EQ(result.exit_code, 2) << args[1];
    EXPECT_LT(result.err.size(), 400u) << args[1];
    EXPECT_THAT(result.err, HasSubstr("...")) << args[1];
  }
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
