#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/test_files.h"
#include "cli/test_main.h"

namespace thermocline::cli {
namespace {

using ::testing::HasSubstr;

MainResult BenchOnSim(const std::vector<std::string>& flags) {
  std::vector<std::string> args = {
      "bench",
      "-m",
      InTestData("golden-powerinfer/llama-f16.powerinfer.gguf"),
      "-t",
      "1",
      "--device",
      "sim",
      "--machine",
      std::string(TC_SOURCE_DIR) + "/machines/slow-host.json"};
  args.insert(args.end(), flags.begin(), flags.end());
  return RunMain(args);
}

TEST(BenchDeviceCommand, GivesARowPerBudget) {
  const MainResult run =
      BenchOnSim({"--vram", "1MiB,4MiB", "-p", "4", "-n", "5", "-o", "json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const auto rows = nlohmann::json::parse(run.out);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["vram"], 1 << 20);
  EXPECT_EQ(rows[1]["vram"], 4 << 20);
  for (const auto& row : rows) {
    EXPECT_EQ(row["n_gen"], 3);
    EXPECT_GT(row["ts"], 0.0);
    EXPECT_LE(row["peak_device_bytes"], row["vram"]);
  }
}

// A token is there to begin with: it needs a position too.
TEST(BenchDeviceCommand, GeneratesWithoutAPrompt) {
  const MainResult run =
      BenchOnSim({"--vram", "1MiB", "-p", "0", "-n", "5", "-o", "json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(nlohmann::json::parse(run.out)[0]["n_gen"], 3);
}

TEST(BenchDeviceCommand, TakesPrompts) {
  const std::string path = TempPath("prompts.txt");
  std::ofstream(path) << "Once upon a time\nThere was a cat\n";
  const MainResult run =
      BenchOnSim({"-f", path, "-pg", "0,4", "--vram", "2MiB"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("| 2.00 MiB |"));
}

// Without its weights a model takes as long as with them.
TEST(BenchDeviceCommand, TimesAShape) {
  const std::string model =
      InTestData("golden-powerinfer/llama-f16.powerinfer.gguf");
  const std::string prompts = TempPath("prompts.txt");
  std::ofstream(prompts) << "Once upon a time\n";
  const std::string trace = TempPath("t.trace");
  const MainResult traced =
      RunMain({"trace", "-m", model, "-f", prompts, "-o", trace, "-n", "8"});
  ASSERT_EQ(traced.exit_code, 0) << traced.err;
  const auto bench = [&](const std::vector<std::string>& more) {
    std::vector<std::string> flags = {"--time-only", trace, "--vram", "2MiB",
                                      "-d",          "4",   "-o",     "json"};
    flags.insert(flags.end(), more.begin(), more.end());
    const MainResult run = BenchOnSim(flags);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return nlohmann::json::parse(run.out)[0];
  };
  const auto whole = bench({});
  const auto shape = bench({"--as", "f16"});
  EXPECT_GE(whole["n_gen"], 3);
  EXPECT_EQ(whole["ts"], shape["ts"]);
  EXPECT_NE(whole["ts"], bench({"--as", "q8_0"})["ts"]);
  const MainResult none =
      BenchOnSim({"--time-only", TempPath("none.trace"), "--vram", "2MiB"});
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_THAT(none.err, HasSubstr("none.trace"));
}

TEST(BenchDeviceCommand, RefusesWhatSaysNothing) {
  struct Case {
    std::vector<std::string> flags;
    const char* message;
  };
  const Case cases[] = {
      {{"-r", "3"}, "has no effect with --device"},
      {{"-d", "4"}, "has no effect with --device"},
      {{"--profile"}, "has no effect with --device"},
      {{"-np", "2"}, "a simulated device has none"},
      {{"-n", "4,5"}, "one length"},
      {{"-t", "1,2"}, "one length"},
      {{"-n", "2"}, "at least 3"},
      {{"--vram", "1MiB,many"}, "--vram"},
      {{"--as", "f16"}, "goes with --time-only"},
      {{"--time-only", "t", "--as", "f64"}, "is not one of f16"},
      {{"--time-only", "t", "-p", "4"}, "no prompt is run"},
  };
  for (const Case& c : cases) {
    const MainResult run = BenchOnSim(c.flags);
    EXPECT_EQ(run.exit_code, 2) << c.message;
    EXPECT_THAT(run.err, HasSubstr(c.message));
  }
  EXPECT_THAT(BenchOnSim({"--vram", "1KiB"}).err,
              HasSubstr("the least that holds"));
}

}  // namespace
}  // namespace thermocline::cli
