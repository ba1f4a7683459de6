// `thermocline npu` as a whole, on the reference device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "cli/test_files.h"
#include "cli/test_main.h"
#include "os/test_folder.h"

namespace thermocline::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using NpuArgs = std::vector<std::string>;

// Three tokens behind a prompt, without chance.
NpuArgs NpuRunArgs(NpuArgs first, const NpuArgs& more = {}) {
  first.insert(first.end(), {"-p", "Once upon", "-n", "3", "--temp", "0"});
  first.insert(first.end(), more.begin(), more.end());
  return first;
}

std::string NpuOutOf(const NpuArgs& args) {
  const MainResult result = RunMain(args);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  if (args[0] == "npu") {
    EXPECT_THAT(result.err, AllOf(HasSubstr("static graphs: "),
                                  HasSubstr(" of the graphs per token, ")));
  }
  return result.out;
}

TEST(NpuCommandTest, RunGivesTheHostsTextInEveryForm) {
  const std::string expected =
      NpuOutOf(NpuRunArgs({"run", "-m", kLlamaF16, "--ffn", "dense"}));
  // The context is the model's.
  const NpuArgs start = {"npu", "run", kLlamaF16, "--device", "reference"};
  for (const NpuArgs& form :
       {NpuArgs{"--tokens", "1,8"}, NpuArgs{"--tokens", "8", "--param"},
        NpuArgs{"--kv", "roll", "--layers-per-graph", "1"},
        NpuArgs{"--kv", "stateful"}}) {
    EXPECT_EQ(NpuOutOf(NpuRunArgs(start, form)), expected) << form[1];
  }
}

TEST(NpuCommandTest, AFolderRunsAsItsModelDoes) {
  const os::TestFolder parent;
  const std::string folder = parent / "graphs";
  const NpuArgs args = {"npu",  "export",    kLlamaF16, "-o",
                        folder, "--weights", "i8-cw",   "--context",
                        "64",   "--tokens",  "1,8"};
  const MainResult exported = RunMain(args);
  ASSERT_EQ(exported.exit_code, 0) << exported.err;
  EXPECT_THAT(exported.err, HasSubstr("weights as i8-cw: at most"));
  const NpuArgs direct = {"npu",       "run",      kLlamaF16, "--device",
                          "reference", "-c",       "64",      "--weights",
                          "i8-cw",     "--tokens", "1,8"};
  EXPECT_EQ(
      NpuOutOf(NpuRunArgs({"npu", "run", folder, "--device", "reference"})),
      NpuOutOf(NpuRunArgs(direct)));
  for (const NpuArgs& flag :
       {NpuArgs{"-c", "64"}, NpuArgs{"--weights", "i8-cw"}, NpuArgs{"--param"},
        NpuArgs{"--kv", "append"}, NpuArgs{"--layers-per-graph", "1"},
        NpuArgs{"--tokens", "1"}}) {
    NpuArgs with_flag =
        NpuRunArgs({"npu", "run", folder, "--device", "reference"});
    with_flag.insert(with_flag.end(), flag.begin(), flag.end());
    const MainResult refused = RunMain(with_flag);
    EXPECT_EQ(refused.exit_code, 1) << flag[0];
    EXPECT_THAT(refused.err, HasSubstr("is for a GGUF file"));
  }
  const MainResult again = RunMain(args);
  EXPECT_EQ(again.exit_code, 1);
  EXPECT_THAT(again.err, HasSubstr("is there already"));
}

TEST(NpuCommandTest, AnExportFromAFolderThatIsGoneIsAnError) {
  const std::string model = std::filesystem::absolute(kLlamaF16).string();
  const os::TestFolder folder;
  const os::GoneWorkingFolder gone(folder / "gone");
  const MainResult result = RunMain({"npu", "export", model, "-o", "graphs"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("graphs: cannot make the folder"));
}

TEST(NpuCommandTest, BenchHasARowForEachForm) {
  const MainResult result =
      RunMain({"npu", "bench", kLlamaF16, "--device", "reference", "--modes",
               "append,roll,stateful,scatter,param", "--context", "64",
               "--tokens", "8", "-p", "8", "-n", "1", "-r", "1", "-o", "csv"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  for (const char* mode :
       {"host", "append", "roll", "stateful", "scatter", "param"}) {
    EXPECT_THAT(result.out, HasSubstr(std::string(",") + mode + ","));
  }
  EXPECT_THAT(result.out, ::testing::Not(HasSubstr("true")));  // failed
}

TEST(NpuCommandTest, WhatIsWrongIsTold) {
  const std::pair<NpuArgs, const char*> cases[] = {
      {{"npu"}, "a command is missing"},
      {{"npu", "run", kLlamaF16, "--device", "host", "-p", "x"},
       "has the host"},
      {{"npu", "run", kLlamaF16, "--weights", "i5", "-p", "x"},
       "'i5' is not one of exact"},
      {{"npu", "run", kLlamaF16, "--kv", "x", "-p", "x"}, "append, scatter"},
      {{"npu", "run", "/no/such.gguf", "-p", "x"}, "/no/such.gguf"},
      {{"npu", "run", kLlamaF16, "--device", "reference", "--tokens", "8",
        "--kv", "roll", "-p", "x"},
       "take no padding"},
      {{"npu", "run", kLlamaF16, "--device", "reference", "--param",
        "--layers-per-graph", "2", "-p", "x"},
       "only one of the two"},
      {{"npu", "run", kLlamaF16, "--device", "NPU,CPU", "--openvino-lib",
        "/no/such", "-p", "x"},
       "fetch_openvino.sh"},
      {{"npu", "export", kLlamaF16, "-o", "x", "--context", "65"}, "64"},
      {{"npu", "bench", kLlamaF16, "--device", "reference", "-p", "600"},
       "more than a context of 512"},
      {{"npu", "bench", kLlamaF16, "--modes", "roll,x"}, "'x' is not one of"},
  };
  for (const auto& [args, message] : cases) {
    const MainResult result = RunMain(args);
    EXPECT_NE(result.exit_code, 0) << result.out;
    EXPECT_THAT(result.err, HasSubstr(message)) << args.back();
  }
  EXPECT_FALSE(std::filesystem::exists("x"));
}

}  // namespace
}  // namespace thermocline::cli
