#include "cli/run_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "cli/test_main.h"

namespace thermocline::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Parses `args` (from the last to the first) behind "-m x".
RunFlags Parse(std::vector<std::string> args) {
  CLI::App app;
  RunFlags flags;
  AddRunFlags(app, flags);
  args.insert(args.end(), {"x", "-m"});
  app.parse(args);
  return flags;
}

std::string UsageError(const RunFlags& flags, bool stdin_is_terminal = true) {
  try {
    WantsChat(flags, stdin_is_terminal);
  } catch (const CLI::ValidationError& error) {
    return error.what();
  }
  return "none";
}

TEST(WantsChatTest, WithoutAPromptAtATerminalOrWhenAsked) {
  EXPECT_TRUE(WantsChat({}, true));
  EXPECT_THAT(UsageError({}, false), HasSubstr("no prompt"));
  EXPECT_FALSE(WantsChat({.prompt = "a"}, true));
  EXPECT_FALSE(WantsChat({.prompt_file = "a"}, true));
  EXPECT_FALSE(WantsChat({.prompt = "a", .no_chat = true}, true));
  EXPECT_THAT(UsageError({.no_chat = true}), HasSubstr("no prompt"));
  for (const bool terminal : {true, false}) {
    EXPECT_TRUE(WantsChat({.chat = true}, terminal));
    EXPECT_TRUE(WantsChat({.prompt = "a", .chat = true}, terminal));
    EXPECT_TRUE(WantsChat({.prompt_file = "a", .chat = true}, terminal));
  }
}

TEST(WantsChatTest, FlagsThatContradictEachOther) {
  EXPECT_THAT(UsageError({.prompt = "a", .prompt_file = "b"}),
              HasSubstr("by -p or by -f"));
  EXPECT_THAT(UsageError({.system = "a", .system_file = "b"}),
              HasSubstr("by -sys or by -sysf"));
  EXPECT_THAT(UsageError({.chat = true, .no_chat = true}),
              HasSubstr("-cnv and -no-cnv exclude"));
  EXPECT_THAT(UsageError({.prompt = "a", .escape = true, .no_escape = true}),
              HasSubstr("-e and --no-escape exclude"));
  EXPECT_THAT(UsageError({.prompt = "a", .system = "b"}),
              HasSubstr("add -cnv"));
  EXPECT_THAT(UsageError({.prompt = "a", .system_file = "b"}),
              HasSubstr("add -cnv"));
  EXPECT_THAT(UsageError({.prompt = "a", .chat_format = {.name = "chatml"}}),
              HasSubstr("add -cnv"));
  EXPECT_THAT(
      UsageError({.prompt = "a", .chat_format = {.template_file = "b"}}),
      HasSubstr("add -cnv"));
  EXPECT_THAT(UsageError({.prompt = "a", .chat_format = {.tools_file = "b"}}),
              HasSubstr("add -cnv"));
  EXPECT_THAT(UsageError({.prompt = "a", .chat_template_kwargs = "{}"}),
              HasSubstr("add -cnv"));
  EXPECT_THAT(UsageError({.chat = true,
                          .chat_format = {.name = "a", .template_file = "b"}}),
              HasSubstr("exclude each other"));
  EXPECT_THAT(UsageError({.chat = true,
                          .chat_format = {.name = "chatml"},
                          .chat_template_kwargs = "{}"}),
              HasSubstr("take none"));
  EXPECT_THAT(UsageError({.prompt = "a", .single_turn = true}),
              HasSubstr("add -cnv"));
}

TEST(WantsChatTest, OneThingAloneComesFromStandardInput) {
  EXPECT_THAT(UsageError({.prompt_file = "-", .chat = true}),
              HasSubstr("standard input"));
  EXPECT_THAT(UsageError({.chat = true, .system_file = "/dev/stdin"}),
              HasSubstr("standard input"));
  EXPECT_THAT(UsageError({.chat = true, .chat_format = {.template_file = "-"}}),
              HasSubstr("standard input"));
  EXPECT_THAT(UsageError({.chat = true, .chat_format = {.tools_file = "-"}}),
              HasSubstr("standard input"));
  EXPECT_EQ(UsageError({.prompt_file = "-"}, false), "none");
  EXPECT_EQ(UsageError({.chat = true, .system = "a"}, false), "none");
}

TEST(RunFlagsTest, WhatScriptsForLlamaCppSay) {
  const RunFlags flags = Parse({"--no-warmup", "--no-cnv", "a", "-p"});
  EXPECT_TRUE(flags.no_chat);
  EXPECT_EQ(flags.prompt, "a");
  EXPECT_TRUE(Parse({"--no-conversation"}).no_chat);
  EXPECT_TRUE(Parse({"--st"}).single_turn);
  EXPECT_FALSE(Parse({"0", "--ngl"}).chat);
  EXPECT_EQ(Parse({"99", "--n-gpu-layers"}).session.device.rules.num_layers,
            99u);
}

TEST(RunFlagsTest, ChatTemplatesByName) {
  EXPECT_EQ(Parse({"gemma", "--chat-template"}).chat_format.name, "gemma");
  try {
    Parse({"jinja", "--chat-template"});
    FAIL();
  } catch (const CLI::ValidationError& error) {
    EXPECT_THAT(error.what(), HasSubstr("'jinja' is not one of chatml, "));
  }
}

TEST(RunFlagsTest, EscapesInWhatIsTypedOnly) {
  RunFlags flags = {
      .prompt = "a\\nb", .system = "d\\n", .stop_strings = {"c\\n"}};
  EXPECT_EQ(**ReadPrompt(flags), "a\nb");
  EXPECT_EQ(**ReadSystemPrompt(flags), "d\n");
  EXPECT_THAT(MakeGenerateOptions(flags).stop_strings, ElementsAre("c\n"));
  flags.no_escape = true;
  EXPECT_EQ(**ReadPrompt(flags), "a\\nb");
  EXPECT_EQ(**ReadSystemPrompt(flags), "d\\n");
  EXPECT_THAT(MakeGenerateOptions(flags).stop_strings, ElementsAre("c\\n"));

  const std::string path = TempPath("system.txt");
  std::ofstream(path) << "e\\n\n\n";
  EXPECT_EQ(**ReadSystemPrompt({.system_file = path}), "e\\n\n");
  EXPECT_EQ(**ReadPrompt({.prompt_file = path}), "e\\n\n");
  std::remove(path.c_str());
  EXPECT_FALSE(ReadSystemPrompt({.system_file = path}).has_value());
  EXPECT_FALSE(ReadPrompt({})->has_value());
}

TEST(RunFlagsTest, SamplersAndLimits) {
  const decode::GenerateOptions options = MakeGenerateOptions(
      Parse({"-2", "-n", "7", "-s", "5", "--top-k", "0.5", "--temp"}));
  EXPECT_EQ(options.max_tokens, -1);
  EXPECT_EQ(options.sampler.seed, 7u);
  EXPECT_EQ(options.sampler.top_k, 5);
  EXPECT_EQ(options.sampler.temperature, 0.5f);
  EXPECT_EQ(MakeGenerateOptions({}).sampler.seed,
            decode::SamplerOptions().seed);
  // More than the sampler takes is wrong usage, before a model is opened.
  EXPECT_EQ(Parse({"16777216", "--repeat-last-n"}).repeat_last_n,
            decode::kMaxRepeatLastN);
  EXPECT_THROW(Parse({"16777217", "--repeat-last-n"}), CLI::ValidationError);
}

}  // namespace
}  // namespace thermocline::cli
